package org.headrace.spark.send;

import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Writes a column of text or bytes, one value after the other; executor JVM. */
final class TextWriter extends ColumnWriter {
  private static final int MAX_WORD_BYTES = 64;

  private final BaseVariableWidthVector vector;
  private final boolean isText;
  private final long offsets;
  private long data;
  private long capacity;
  private long used;

  TextWriter(int column, BaseVariableWidthVector vector, int maxRows) {
    super(column, vector, maxRows);
    this.vector = vector;
    this.isText = vector instanceof VarCharVector;
    this.offsets = vector.getOffsetBufferAddress();
    Platform.putInt(null, offsets, 0);
    locate();
  }

  private void locate() {
    data = vector.getDataBufferAddress();
    capacity = vector.getDataBuffer().capacity();
  }

  /** Of all values of the batch so far. */
  long bytes() {
    return used;
  }

  @Override
  void put(InternalRow row, int column, int at) {
    if (row instanceof UnsafeRow) { // there text and bytes are the same, and whole words
      UTF8String text = row.getUTF8String(column);
      appendWords(text.getBaseObject(), text.getBaseOffset(), text.numBytes(), at);
    } else if (isText) {
      UTF8String text = row.getUTF8String(column);
      append(text.getBaseObject(), text.getBaseOffset(), text.numBytes(), at);
    } else {
      byte[] bytes = row.getBinary(column);
      append(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, at);
    }
  }

  /** Of a few words each is copied by itself, up to seven bytes too many, which the next value covers. */
  private void appendWords(Object source, long from, int length, int at) {
    if (length > MAX_WORD_BYTES || used + length + 8 > capacity) {
      append(source, from, length, at);
      return;
    }
    for (int done = 0; done < length; done += 8) {
      Platform.putLong(null, data + used + done, Platform.getLong(source, from + done));
    }
    used += length;
    skip(at);
  }

  private void append(Object source, long from, int length, int at) {
    long needed = used + length;
    if (needed > capacity) {
      vector.reallocDataBuffer(needed); // throws where Arrow's offsets cannot point so far
      locate();
    }
    Platform.copyMemory(source, from, null, data + used, length);
    used = needed;
    skip(at);
  }

  @Override
  void skip(int at) {
    Platform.putInt(null, offsets + 4L * (at + 1), (int) used);
  }

  @Override
  void end(int rows) {
    vector.setLastSet(rows - 1);
    used = 0;
  }
}
