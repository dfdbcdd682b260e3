package org.headrace.spark.send;

import java.math.BigInteger;
import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.DateDayVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.DurationVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float4Vector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.SmallIntVector;
import org.apache.arrow.vector.TimeStampMicroTZVector;
import org.apache.arrow.vector.TimeStampMicroVector;
import org.apache.arrow.vector.TinyIntVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Writes one column of rows into an Arrow vector, at the addresses of its buffers; executor JVM, one task's thread.
 *
 * <p>Spark's own writer checks bounds and sets a validity bit for each value: that takes a third more processor time for a
 * whole write. Here the vector is made for the most rows of a batch, and all its values are valid until one is not.
 */
abstract class ColumnWriter {
  private static final int MAX_LONG_DIGITS = 18;
  private static final int MAX_WORD_BYTES = 64;

  private final int column;
  private final FieldVector vector;
  private final long validity;
  private final int validityBytes;
  private boolean hasNulls;

  private ColumnWriter(int column, FieldVector vector, int maxRows) {
    this.column = column;
    this.vector = vector;
    vector.setInitialCapacity(maxRows);
    vector.allocateNew();
    validity = vector.getValidityBufferAddress();
    validityBytes = (maxRows + 7) / 8;
    begin();
  }

  /** For a vector that takes up to {@code maxRows} rows at a time; null for a type that Spark's own writer has to write. */
  static ColumnWriter of(int column, FieldVector vector, int maxRows) {
    if (vector instanceof BigIntVector
        || vector instanceof TimeStampMicroTZVector
        || vector instanceof TimeStampMicroVector
        || vector instanceof DurationVector) {
      return new Longs(column, (BaseFixedWidthVector) vector, maxRows);
    }
    if (vector instanceof IntVector || vector instanceof DateDayVector) {
      return new Ints(column, (BaseFixedWidthVector) vector, maxRows);
    }
    if (vector instanceof Float8Vector doubles) {
      return new Doubles(column, doubles, maxRows);
    }
    if (vector instanceof Float4Vector floats) {
      return new Floats(column, floats, maxRows);
    }
    if (vector instanceof SmallIntVector shorts) {
      return new Shorts(column, shorts, maxRows);
    }
    if (vector instanceof TinyIntVector bytes) {
      return new Bytes(column, bytes, maxRows);
    }
    if (vector instanceof BitVector bits) {
      return new Booleans(column, bits, maxRows);
    }
    if (vector instanceof DecimalVector decimals) {
      return new Decimals(column, decimals, maxRows);
    }
    if (vector instanceof VarCharVector || vector instanceof VarBinaryVector) {
      return new Texts(column, (BaseVariableWidthVector) vector, maxRows);
    }
    return null;
  }

  /** Writes the column's value of {@code row} as that of row {@code at} of the batch; each once, in their order. */
  final void write(InternalRow row, int at) {
    if (row.isNullAt(column)) {
      hasNulls = true;
      long place = validity + (at >> 3);
      Platform.putByte(null, place, (byte) (Platform.getByte(null, place) & ~(1 << (at & 7))));
      skip(at);
    } else {
      put(row, column, at);
    }
  }

  /** As {@link #write}, for a row without nulls. */
  final void writeValue(InternalRow row, int at) {
    put(row, column, at);
  }

  abstract void put(InternalRow row, int column, int at);

  void skip(int at) {}

  /** All rows of a batch are written. */
  void end(int rows) {}

  /** Begins the next batch. */
  final void next() {
    if (hasNulls) {
      begin();
    }
  }

  private void begin() {
    Platform.setMemory(validity, (byte) 0xFF, validityBytes);
    hasNulls = false;
  }

  private abstract static class Fixed extends ColumnWriter {
    final long data;

    Fixed(int column, BaseFixedWidthVector vector, int maxRows) {
      super(column, vector, maxRows);
      data = vector.getDataBufferAddress();
    }
  }

  private static final class Longs extends Fixed {
    Longs(int column, BaseFixedWidthVector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      Platform.putLong(null, data + 8L * at, row.getLong(column));
    }
  }

  private static final class Ints extends Fixed {
    Ints(int column, BaseFixedWidthVector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      Platform.putInt(null, data + 4L * at, row.getInt(column));
    }
  }

  private static final class Doubles extends Fixed {
    Doubles(int column, Float8Vector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      Platform.putDouble(null, data + 8L * at, row.getDouble(column));
    }
  }

  private static final class Floats extends Fixed {
    Floats(int column, Float4Vector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      Platform.putFloat(null, data + 4L * at, row.getFloat(column));
    }
  }

  private static final class Shorts extends Fixed {
    Shorts(int column, SmallIntVector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      Platform.putShort(null, data + 2L * at, row.getShort(column));
    }
  }

  private static final class Bytes extends Fixed {
    Bytes(int column, TinyIntVector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      Platform.putByte(null, data + at, row.getByte(column));
    }
  }

  private static final class Booleans extends Fixed {
    Booleans(int column, BitVector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      long place = data + (at >> 3);
      int bit = 1 << (at & 7);
      int others = (at & 7) == 0 ? 0 : Platform.getByte(null, place);
      Platform.putByte(null, place, (byte) (row.getBoolean(column) ? others | bit : others & ~bit));
    }

    @Override
    void skip(int at) {
      if ((at & 7) == 0) {
        Platform.putByte(null, data + (at >> 3), (byte) 0);
      }
    }
  }

  private static final class Decimals extends Fixed {
    private final int precision;
    private final int scale;

    Decimals(int column, DecimalVector vector, int maxRows) {
      super(column, vector, maxRows);
      precision = vector.getPrecision();
      scale = vector.getScale();
    }

    @Override
    void put(InternalRow row, int column, int at) {
      Decimal value = row.getDecimal(column, precision, scale);
      long place = data + 16L * at;
      if (precision <= MAX_LONG_DIGITS) {
        long unscaled = value.toUnscaledLong();
        Platform.putLong(null, place, unscaled);
        Platform.putLong(null, place + 8, unscaled >> 63);
      } else {
        BigInteger unscaled = value.toJavaBigDecimal().unscaledValue();
        Platform.putLong(null, place, unscaled.longValue());
        Platform.putLong(null, place + 8, unscaled.shiftRight(64).longValue());
      }
    }
  }

  /** Text and bytes. */
  private static final class Texts extends ColumnWriter {
    private final BaseVariableWidthVector vector;
    private final boolean isText;
    private final long offsets;
    private long data;
    private long capacity;
    private long used;

    Texts(int column, BaseVariableWidthVector vector, int maxRows) {
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
}
