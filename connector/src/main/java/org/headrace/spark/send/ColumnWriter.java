package org.headrace.spark.send;

import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.types.Types.MinorType;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.Platform;

/**
 * Writes one column of rows into an Arrow vector, at the addresses of its buffers; executor JVM, one task's thread.
 *
 * <p>Spark's own writer checks bounds and sets a validity bit for each value: that takes a third more processor time for a
 * whole write. Here the vector is made for the most rows of a batch, and all its values are valid until one is not.
 */
abstract class ColumnWriter {
  private final int column;
  private final FieldVector vector;
  private final long validity;
  private final int validityBytes;
  private boolean hasNulls;

  ColumnWriter(int column, FieldVector vector, int maxRows) {
    this.column = column;
    this.vector = vector;
    vector.setInitialCapacity(maxRows);
    vector.allocateNew();
    validity = vector.getValidityBufferAddress();
    validityBytes = (maxRows + 7) / 8;
    begin();
  }

  private interface Making {
    ColumnWriter made(int column, FieldVector vector, int maxRows);
  }

  /** Null for a type that Spark's own writer has to write. */
  private static Making making(MinorType type) {
    return switch (type) {
      case BIGINT, TIMESTAMPMICROTZ, TIMESTAMPMICRO, DURATION ->
          (column, vector, rows) -> new FixedWriter.Longs(column, (BaseFixedWidthVector) vector, rows);
      case INT, DATEDAY -> (column, vector, rows) -> new FixedWriter.Ints(column, (BaseFixedWidthVector) vector, rows);
      case FLOAT8 -> (column, vector, rows) -> new FixedWriter.Doubles(column, (BaseFixedWidthVector) vector, rows);
      case FLOAT4 -> (column, vector, rows) -> new FixedWriter.Floats(column, (BaseFixedWidthVector) vector, rows);
      case SMALLINT -> (column, vector, rows) -> new FixedWriter.Shorts(column, (BaseFixedWidthVector) vector, rows);
      case TINYINT -> (column, vector, rows) -> new FixedWriter.Bytes(column, (BaseFixedWidthVector) vector, rows);
      case BIT -> (column, vector, rows) -> new FixedWriter.Booleans(column, (BaseFixedWidthVector) vector, rows);
      case DECIMAL -> (column, vector, rows) -> new FixedWriter.Decimals(column, (DecimalVector) vector, rows);
      case VARCHAR, VARBINARY -> (column, vector, rows) -> new TextWriter(column, (BaseVariableWidthVector) vector, rows);
      default -> null;
    };
  }

  static boolean writes(MinorType type) {
    return making(type) != null;
  }

  /** For a vector that takes up to {@code maxRows} rows at a time; null for a type that Spark's own writer has to write. */
  static ColumnWriter of(int column, FieldVector vector, int maxRows) {
    Making making = making(vector.getMinorType());
    return making == null ? null : making.made(column, vector, maxRows);
  }

  /** Writes the column's value of {@code row} as that of row {@code at} of the batch; each once, in their order. */
  final void write(InternalRow row, int at) {
    if (row.isNullAt(column)) {
      setNull(at);
    } else {
      put(row, column, at);
    }
  }

  final void setNull(int at) {
    hasNulls = true;
    long place = validity + (at >> 3);
    Platform.putByte(null, place, (byte) (Platform.getByte(null, place) & ~(1 << (at & 7))));
    skip(at);
  }

  /** As {@link #write}, for a row without nulls. */
  final void writeValue(InternalRow row, int at) {
    put(row, column, at);
  }

  /** As if nothing had been written to the rows from {@code at} to {@code end}. */
  final void setValid(int at, int end) {
    for (int row = at; row < end; row++) {
      long place = validity + (row >> 3);
      Platform.putByte(null, place, (byte) (Platform.getByte(null, place) | 1 << (row & 7)));
    }
  }

  final int column() {
    return column;
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
}
