/* Reads smallint columns; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

final class ShortColumn extends FlatColumn {
  private final long values;

  ShortColumn(FieldVector vector, DataType type) {
    super(vector, type);
    values = address(vector, vector.getDataBuffer(), at(vector.getValueCount()));
  }

  @Override
  public short getShort(int rowId) {
    return Platform.getShort(null, values + at(rowId));
  }

  @Override
  public short[] getShorts(int rowId, int count) {
    short[] copy = new short[count];
    Platform.copyMemory(null, values + at(rowId), copy, Platform.SHORT_ARRAY_OFFSET, at(count));
    return copy;
  }

  private static long at(int row) {
    return (long) row << 1;
  }
}
