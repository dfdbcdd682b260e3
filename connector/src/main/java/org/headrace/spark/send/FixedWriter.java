package org.headrace.spark.send;

import java.math.BigInteger;
import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;

/** Writes a column of values of one width, those of rows one by one and those of columns many at a time; executor JVM. */
abstract class FixedWriter extends ColumnWriter {
  private static final int MAX_LONG_DIGITS = 18;

  /** So many values are copied at a time: arrays of them stay in the processor's cache. */
  private static final int PIECE_ROWS = 4096;

  final long data;

  private FixedWriter(int column, BaseFixedWidthVector vector, int maxRows) {
    super(column, vector, maxRows);
    data = vector.getDataBufferAddress();
  }

  /** Writes {@code count} values of the batch's column, from row {@code from} on, as those of row {@code at} and the next. */
  final void copy(ColumnarBatch batch, int from, int count, int at) {
    ColumnVector source = batch.column(column());
    if (source.hasNull()) { // some kinds of columns raise an error where a null's value is asked for
      for (int i = 0; i < count; i++) {
        write(batch.getRow(from + i), at + i);
      }
      return;
    }
    for (int done = 0; done < count; done += PIECE_ROWS) {
      copyValues(source, from + done, Math.min(PIECE_ROWS, count - done), at + done);
    }
  }

  /** None of them is null. */
  abstract void copyValues(ColumnVector source, int from, int count, int at);

  final void fill(Object array, long offset, int at, int width, int count) {
    Platform.copyMemory(array, offset, null, data + (long) width * at, (long) width * count);
  }

  static final class Longs extends FixedWriter {
    Longs(int column, BaseFixedWidthVector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      Platform.putLong(null, data + 8L * at, row.getLong(column));
    }

    @Override
    void copyValues(ColumnVector source, int from, int count, int at) {
      fill(source.getLongs(from, count), Platform.LONG_ARRAY_OFFSET, at, Long.BYTES, count);
    }
  }

  static final class Ints extends FixedWriter {
    Ints(int column, BaseFixedWidthVector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      Platform.putInt(null, data + 4L * at, row.getInt(column));
    }

    @Override
    void copyValues(ColumnVector source, int from, int count, int at) {
      fill(source.getInts(from, count), Platform.INT_ARRAY_OFFSET, at, Integer.BYTES, count);
    }
  }

  static final class Doubles extends FixedWriter {
    Doubles(int column, BaseFixedWidthVector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      Platform.putDouble(null, data + 8L * at, row.getDouble(column));
    }

    @Override
    void copyValues(ColumnVector source, int from, int count, int at) {
      fill(source.getDoubles(from, count), Platform.DOUBLE_ARRAY_OFFSET, at, Double.BYTES, count);
    }
  }

  static final class Floats extends FixedWriter {
    Floats(int column, BaseFixedWidthVector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      Platform.putFloat(null, data + 4L * at, row.getFloat(column));
    }

    @Override
    void copyValues(ColumnVector source, int from, int count, int at) {
      fill(source.getFloats(from, count), Platform.FLOAT_ARRAY_OFFSET, at, Float.BYTES, count);
    }
  }

  static final class Shorts extends FixedWriter {
    Shorts(int column, BaseFixedWidthVector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      Platform.putShort(null, data + 2L * at, row.getShort(column));
    }

    @Override
    void copyValues(ColumnVector source, int from, int count, int at) {
      fill(source.getShorts(from, count), Platform.SHORT_ARRAY_OFFSET, at, Short.BYTES, count);
    }
  }

  static final class Bytes extends FixedWriter {
    Bytes(int column, BaseFixedWidthVector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      Platform.putByte(null, data + at, row.getByte(column));
    }

    @Override
    void copyValues(ColumnVector source, int from, int count, int at) {
      fill(source.getBytes(from, count), Platform.BYTE_ARRAY_OFFSET, at, Byte.BYTES, count);
    }
  }

  static final class Booleans extends FixedWriter {
    Booleans(int column, BaseFixedWidthVector vector, int maxRows) {
      super(column, vector, maxRows);
    }

    @Override
    void put(InternalRow row, int column, int at) {
      put(row.getBoolean(column), at);
    }

    @Override
    void copyValues(ColumnVector source, int from, int count, int at) {
      for (int i = 0; i < count; i++) {
        put(source.getBoolean(from + i), at + i);
      }
    }

    private void put(boolean value, int at) {
      long place = data + (at >> 3);
      int bit = 1 << (at & 7);
      int others = (at & 7) == 0 ? 0 : Platform.getByte(null, place);
      Platform.putByte(null, place, (byte) (value ? others | bit : others & ~bit));
    }

    @Override
    void skip(int at) {
      if ((at & 7) == 0) {
        Platform.putByte(null, data + (at >> 3), (byte) 0);
      }
    }
  }

  static final class Decimals extends FixedWriter {
    private final int precision;
    private final int scale;

    Decimals(int column, DecimalVector vector, int maxRows) {
      super(column, vector, maxRows);
      precision = vector.getPrecision();
      scale = vector.getScale();
    }

    @Override
    void put(InternalRow row, int column, int at) {
      put(row.getDecimal(column, precision, scale), at);
    }

    @Override
    void copyValues(ColumnVector source, int from, int count, int at) {
      for (int i = 0; i < count; i++) {
        put(source.getDecimal(from + i, precision, scale), at + i);
      }
    }

    private void put(Decimal value, int at) {
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
}
