/* Reads binary columns; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

final class BinaryColumn extends BytesColumn {
  BinaryColumn(FieldVector vector, DataType type) {
    super(vector, type);
  }

  /** A copy: Spark wants binary values on the heap. */
  @Override
  public byte[] getBinary(int rowId) {
    if (isNullAt(rowId)) {
      return null;
    }
    int start = offset(rowId);
    byte[] copy = new byte[offset(rowId + 1) - start];
    Platform.copyMemory(null, dataAt(start), copy, Platform.BYTE_ARRAY_OFFSET, copy.length);
    return copy;
  }
}
