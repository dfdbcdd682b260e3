/* Reads bigint columns, and timestamps as microseconds since 1970; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

final class LongColumn extends FlatColumn {
  private final long values;

  LongColumn(FieldVector vector, DataType type) {
    super(vector, type);
    values = address(vector, vector.getDataBuffer(), at(vector.getValueCount()));
  }

  @Override
  public long getLong(int rowId) {
    return Platform.getLong(null, values + at(rowId));
  }

  @Override
  public long[] getLongs(int rowId, int count) {
    long[] copy = new long[count];
    Platform.copyMemory(null, values + at(rowId), copy, Platform.LONG_ARRAY_OFFSET, at(count));
    return copy;
  }

  private static long at(int row) {
    return (long) row << 3;
  }
}
