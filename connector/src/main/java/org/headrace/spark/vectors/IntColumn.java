/* Reads int columns, and dates as days since 1970; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

final class IntColumn extends FlatColumn {
  private final long values;

  IntColumn(FieldVector vector, DataType type) {
    super(vector, type);
    values = address(vector, vector.getDataBuffer(), at(vector.getValueCount()));
  }

  @Override
  public int getInt(int rowId) {
    return Platform.getInt(null, values + at(rowId));
  }

  @Override
  public int[] getInts(int rowId, int count) {
    int[] copy = new int[count];
    Platform.copyMemory(null, values + at(rowId), copy, Platform.INT_ARRAY_OFFSET, at(count));
    return copy;
  }

  private static long at(int row) {
    return (long) row << 2;
  }
}
