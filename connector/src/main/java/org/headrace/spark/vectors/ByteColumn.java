/* Reads tinyint columns; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

final class ByteColumn extends FlatColumn {
  private final long values;

  ByteColumn(FieldVector vector, DataType type) {
    super(vector, type);
    values = address(vector, vector.getDataBuffer(), at(vector.getValueCount()));
  }

  @Override
  public byte getByte(int rowId) {
    return Platform.getByte(null, values + at(rowId));
  }

  @Override
  public byte[] getBytes(int rowId, int count) {
    byte[] copy = new byte[count];
    Platform.copyMemory(null, values + at(rowId), copy, Platform.BYTE_ARRAY_OFFSET, at(count));
    return copy;
  }

  private static long at(int row) {
    return row;
  }
}
