/* Reads columns of string and binary views; runs in the executor JVM. */
package org.headrace.spark.vectors;

import java.util.List;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.vector.BaseVariableWidthViewVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Value i is described by 16 bytes: its length, then the value itself if it has at most 12 bytes, else its first four, the
 * number of a data buffer and an offset in it. The views were checked (see BatchCheck in the package read).
 */
final class ViewColumn extends FlatColumn {
  private final long views;
  private final long[] data;

  ViewColumn(BaseVariableWidthViewVector vector, DataType type) {
    super(vector, type);
    views = address(vector, vector.getDataBuffer(), (long) vector.getValueCount() << 4);
    List<ArrowBuf> buffers = vector.getDataBuffers();
    data = new long[buffers.size()];
    for (int i = 0; i < data.length; i++) {
      data[i] = buffers.get(i).memoryAddress();
    }
  }

  private long valueAt(long view, int length) {
    return length <= ArrowColumns.INLINE_BYTES
        ? view + 4
        : data[Platform.getInt(null, view + 8)] + Platform.getInt(null, view + 12);
  }

  /** The string points into the batch and is valid as long as it. */
  @Override
  public UTF8String getUTF8String(int rowId) {
    if (isNullAt(rowId)) {
      return null;
    }
    long view = views + ((long) rowId << 4);
    int length = Platform.getInt(null, view);
    return UTF8String.fromAddress(null, valueAt(view, length), length);
  }

  /** A copy: Spark wants binary values on the heap. */
  @Override
  public byte[] getBinary(int rowId) {
    if (isNullAt(rowId)) {
      return null;
    }
    long view = views + ((long) rowId << 4);
    byte[] copy = new byte[Platform.getInt(null, view)];
    Platform.copyMemory(null, valueAt(view, copy.length), copy, Platform.BYTE_ARRAY_OFFSET, copy.length);
    return copy;
  }
}
