/* Finds the bytes of variable-width values; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/** Value i is the bytes from offset i to offset i + 1 of the data buffer. */
abstract class BytesColumn extends FlatColumn {
  private final long offsets;
  private final long data;

  BytesColumn(FieldVector vector, DataType type) {
    super(vector, type);
    int count = vector.getValueCount();
    // An empty batch may come without its single offset.
    offsets = address(vector, vector.getOffsetBuffer(), count == 0 ? 0 : (count + 1L) << 2);
    data = address(vector, vector.getDataBuffer(), count == 0 ? 0 : offset(count));
  }

  final int offset(int index) {
    return Platform.getInt(null, offsets + ((long) index << 2));
  }

  final long dataAt(int offset) {
    return data + offset;
  }
}
