/* Reads columns of values of one width, of 1, 2, 4 or 8 bytes; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/** Value i stands at i times its width. A class for each type: the JIT then knows which getter it calls. */
abstract class FixedColumn extends FlatColumn {
  final long values;
  private final int shift;

  private FixedColumn(FieldVector vector, DataType type, int shift) {
    super(vector, type);
    this.shift = shift;
    values = address(vector, vector.getDataBuffer(), (long) vector.getValueCount() << shift);
  }

  final <T> T copied(int rowId, int count, T array, int arrayOffset) {
    Platform.copyMemory(null, values + ((long) rowId << shift), array, arrayOffset, (long) count << shift);
    return array;
  }

  static final class Bytes extends FixedColumn {
    Bytes(FieldVector vector, DataType type) {
      super(vector, type, 0);
    }

    @Override
    public byte getByte(int rowId) {
      return Platform.getByte(null, values + rowId);
    }

    @Override
    public byte[] getBytes(int rowId, int count) {
      return copied(rowId, count, new byte[count], Platform.BYTE_ARRAY_OFFSET);
    }
  }

  static final class Shorts extends FixedColumn {
    Shorts(FieldVector vector, DataType type) {
      super(vector, type, 1);
    }

    @Override
    public short getShort(int rowId) {
      return Platform.getShort(null, values + ((long) rowId << 1));
    }

    @Override
    public short[] getShorts(int rowId, int count) {
      return copied(rowId, count, new short[count], Platform.SHORT_ARRAY_OFFSET);
    }
  }

  /** Int and, as days since 1970, date. */
  static final class Ints extends FixedColumn {
    Ints(FieldVector vector, DataType type) {
      super(vector, type, 2);
    }

    @Override
    public int getInt(int rowId) {
      return Platform.getInt(null, values + ((long) rowId << 2));
    }

    @Override
    public int[] getInts(int rowId, int count) {
      return copied(rowId, count, new int[count], Platform.INT_ARRAY_OFFSET);
    }
  }

  /** Bigint and, as microseconds since 1970, timestamps. */
  static final class Longs extends FixedColumn {
    Longs(FieldVector vector, DataType type) {
      super(vector, type, 3);
    }

    @Override
    public long getLong(int rowId) {
      return Platform.getLong(null, values + ((long) rowId << 3));
    }

    @Override
    public long[] getLongs(int rowId, int count) {
      return copied(rowId, count, new long[count], Platform.LONG_ARRAY_OFFSET);
    }
  }

  static final class Floats extends FixedColumn {
    Floats(FieldVector vector, DataType type) {
      super(vector, type, 2);
    }

    @Override
    public float getFloat(int rowId) {
      return Platform.getFloat(null, values + ((long) rowId << 2));
    }

    @Override
    public float[] getFloats(int rowId, int count) {
      return copied(rowId, count, new float[count], Platform.FLOAT_ARRAY_OFFSET);
    }
  }

  static final class Doubles extends FixedColumn {
    Doubles(FieldVector vector, DataType type) {
      super(vector, type, 3);
    }

    @Override
    public double getDouble(int rowId) {
      return Platform.getDouble(null, values + ((long) rowId << 3));
    }

    @Override
    public double[] getDoubles(int rowId, int count) {
      return copied(rowId, count, new double[count], Platform.DOUBLE_ARRAY_OFFSET);
    }
  }
}
