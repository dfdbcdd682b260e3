package org.headrace.spark.send;

import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Writes a column of text or bytes, one value after the other; executor JVM. */
final class TextWriter extends ColumnWriter {
  private static final int MAX_WORD_BYTES = 64;

  private final BaseVariableWidthVector vector;
  private final boolean isText;
  private final long offsets;
  private final DecodedTexts texts = new DecodedTexts();
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

  /**
   * Writes values of the batch's column, from row {@code from} on, as those of row {@code at} and the next: {@code count}, or
   * fewer where {@code maxBytes} of them come before.
   *
   * @return how many it wrote
   */
  int copy(ColumnarBatch batch, int from, int count, int at, long maxBytes) {
    ColumnVector source = batch.column(column());
    boolean hasNull = source.hasNull();
    texts.begin(source);
    long most = used + maxBytes;
    int done = 0;
    while (done < count && used < most) {
      if (hasNull && source.isNullAt(from + done)) {
        setNull(at + done);
      } else if (isText) {
        UTF8String text = texts.at(from + done);
        append(text.getBaseObject(), text.getBaseOffset(), text.numBytes(), at + done);
      } else {
        byte[] bytes = source.getBinary(from + done);
        append(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, at + done);
      }
      done++;
    }
    return done;
  }

  /** Takes the values of the rows from {@code at} to {@code end} back, which were the last. */
  void takeBack(int at, int end) {
    used = Platform.getInt(null, offsets + 4L * at);
    setValid(at, end);
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
    copy(source, from, data + used, length);
    used = needed;
    skip(at);
  }

  /** Short values by words and bytes of their own, the last of which covers a part of the one before. */
  private static void copy(Object source, long from, long to, int length) {
    if (length > MAX_WORD_BYTES) {
      Platform.copyMemory(source, from, null, to, length);
    } else if (length >= 8) {
      int last = length - 8;
      for (int done = 0; done < last; done += 8) {
        Platform.putLong(null, to + done, Platform.getLong(source, from + done));
      }
      Platform.putLong(null, to + last, Platform.getLong(source, from + last));
    } else if (length >= 4) {
      int last = length - 4;
      Platform.putInt(null, to, Platform.getInt(source, from));
      Platform.putInt(null, to + last, Platform.getInt(source, from + last));
    } else {
      for (int done = 0; done < length; done++) {
        Platform.putByte(null, to + done, Platform.getByte(source, from + done));
      }
    }
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
