/* Reads every other type through Spark's ArrowColumnVector, without owning it; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Delegates instead of extending: Spark treats an ArrowColumnVector as the owner of its memory, which it is not here
 * (see {@link ArrowColumns}).
 */
final class BorrowedColumn extends ColumnVector {
  private final ArrowColumnVector arrow;
  private final int nullCount;

  BorrowedColumn(FieldVector vector) {
    this(new ArrowColumnVector(vector));
  }

  private BorrowedColumn(ArrowColumnVector arrow) {
    super(arrow.dataType());
    this.arrow = arrow;
    this.nullCount = arrow.numNulls(); // Arrow counts the bitmap anew on every call
  }

  /** Frees nothing: the reader owns the memory. */
  @Override
  public void close() {}

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
    return nullCount != 0 && arrow.isNullAt(rowId);
  }

  @Override
  public boolean getBoolean(int rowId) {
    return arrow.getBoolean(rowId);
  }

  @Override
  public byte getByte(int rowId) {
    return arrow.getByte(rowId);
  }

  @Override
  public short getShort(int rowId) {
    return arrow.getShort(rowId);
  }

  @Override
  public int getInt(int rowId) {
    return arrow.getInt(rowId);
  }

  @Override
  public long getLong(int rowId) {
    return arrow.getLong(rowId);
  }

  @Override
  public float getFloat(int rowId) {
    return arrow.getFloat(rowId);
  }

  @Override
  public double getDouble(int rowId) {
    return arrow.getDouble(rowId);
  }

  @Override
  public Decimal getDecimal(int rowId, int precision, int scale) {
    return arrow.getDecimal(rowId, precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int rowId) {
    return arrow.getUTF8String(rowId);
  }

  @Override
  public byte[] getBinary(int rowId) {
    return arrow.getBinary(rowId);
  }

  @Override
  public CalendarInterval getInterval(int rowId) {
    return arrow.getInterval(rowId);
  }

  @Override
  public ColumnarArray getArray(int rowId) {
    return arrow.getArray(rowId);
  }

  @Override
  public ColumnarMap getMap(int rowId) {
    return arrow.getMap(rowId);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return arrow.getChild(ordinal);
  }
}
