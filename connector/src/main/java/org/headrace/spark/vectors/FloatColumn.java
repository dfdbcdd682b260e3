/* Reads float columns; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

final class FloatColumn extends FlatColumn {
  private final long values;

  FloatColumn(FieldVector vector, DataType type) {
    super(vector, type);
    values = address(vector, vector.getDataBuffer(), at(vector.getValueCount()));
  }

  @Override
  public float getFloat(int rowId) {
    return Platform.getFloat(null, values + at(rowId));
  }

  @Override
  public float[] getFloats(int rowId, int count) {
    float[] copy = new float[count];
    Platform.copyMemory(null, values + at(rowId), copy, Platform.FLOAT_ARRAY_OFFSET, at(count));
    return copy;
  }

  private static long at(int row) {
    return (long) row << 2;
  }
}
