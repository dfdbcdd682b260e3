/* Reads string columns as views of the Arrow bytes; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

final class StringColumn extends BytesColumn {
  StringColumn(FieldVector vector, DataType type) {
    super(vector, type);
  }

  /** The string points into the batch and is valid as long as it, like that of Spark's ArrowColumnVector. */
  @Override
  public UTF8String getUTF8String(int rowId) {
    if (isNullAt(rowId)) {
      return null;
    }
    int start = offset(rowId);
    return UTF8String.fromAddress(null, dataAt(start), offset(rowId + 1) - start);
  }
}
