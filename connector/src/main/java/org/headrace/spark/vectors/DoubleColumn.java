/* Reads double columns; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

final class DoubleColumn extends FlatColumn {
  private final long values;

  DoubleColumn(FieldVector vector, DataType type) {
    super(vector, type);
    values = address(vector, vector.getDataBuffer(), at(vector.getValueCount()));
  }

  @Override
  public double getDouble(int rowId) {
    return Platform.getDouble(null, values + at(rowId));
  }

  @Override
  public double[] getDoubles(int rowId, int count) {
    double[] copy = new double[count];
    Platform.copyMemory(null, values + at(rowId), copy, Platform.DOUBLE_ARRAY_OFFSET, at(count));
    return copy;
  }

  private static long at(int row) {
    return (long) row << 3;
  }
}
