/* What the columns over Arrow memory share: nulls, and a close that frees nothing; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Nulls of a column. Each subclass overrides only the getters of its own type. */
abstract class FlatColumn extends ColumnVector {
  private final int nullCount;
  private final long validity;

  /** Without a bitmap: the subclass says which rows are null. */
  FlatColumn(DataType type, int nullCount) {
    super(type);
    this.nullCount = nullCount;
    validity = 0;
  }

  FlatColumn(FieldVector vector, DataType type) {
    super(type);
    ArrowBuf bits = vector.getValidityBuffer();
    // Arrow may leave the bitmap out of a batch without nulls.
    if (vector.getValueCount() == 0 || bits.capacity() == 0) {
      nullCount = 0;
      validity = 0;
    } else {
      validity = address(vector, bits, bytesOfBits(vector.getValueCount()));
      nullCount = vector.getNullCount();
    }
  }

  /** The buffer's address, once it is known to hold all that will be read from it: later reads are unchecked. */
  static long address(FieldVector vector, ArrowBuf buffer, long bytesNeeded) {
    if (buffer.capacity() < bytesNeeded) {
      throw new IllegalArgumentException(
          "Column '%s' (Arrow %s, %d rows) needs a buffer of %d bytes but the batch holds %d; the batch is damaged."
              .formatted(
                  vector.getName(),
                  vector.getField().getType(),
                  vector.getValueCount(),
                  bytesNeeded,
                  buffer.capacity()));
    }
    return buffer.memoryAddress();
  }

  static long bytesOfBits(int count) {
    return (count + 7L) >> 3;
  }

  static boolean bit(long address, int index) {
    return (Platform.getByte(null, address + (index >> 3)) >> (index & 7) & 1) != 0;
  }

  @Override
  public boolean hasNull() {
    return nullCount != 0;
  }

  @Override
  public int numNulls() {
    return nullCount;
  }

  @Override
  public boolean isNullAt(int rowId) {
    return nullCount != 0 && !bit(validity, rowId);
  }

  /** Frees nothing: the reader owns the memory (see {@link ArrowColumns}). */
  @Override
  public final void close() {}

  @Override
  public boolean getBoolean(int rowId) {
    throw unsupported("getBoolean");
  }

  @Override
  public byte getByte(int rowId) {
    throw unsupported("getByte");
  }

  @Override
  public short getShort(int rowId) {
    throw unsupported("getShort");
  }

  @Override
  public int getInt(int rowId) {
    throw unsupported("getInt");
  }

  @Override
  public long getLong(int rowId) {
    throw unsupported("getLong");
  }

  @Override
  public float getFloat(int rowId) {
    throw unsupported("getFloat");
  }

  @Override
  public double getDouble(int rowId) {
    throw unsupported("getDouble");
  }

  @Override
  public Decimal getDecimal(int rowId, int precision, int scale) {
    throw unsupported("getDecimal");
  }

  @Override
  public UTF8String getUTF8String(int rowId) {
    throw unsupported("getUTF8String");
  }

  @Override
  public byte[] getBinary(int rowId) {
    throw unsupported("getBinary");
  }

  @Override
  public ColumnarArray getArray(int rowId) {
    throw unsupported("getArray");
  }

  @Override
  public ColumnarMap getMap(int rowId) {
    throw unsupported("getMap");
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw unsupported("getChild");
  }

  private UnsupportedOperationException unsupported(String getter) {
    return new UnsupportedOperationException(
        getter + " was asked of a column of type " + dataType().simpleString());
  }
}
