/* Chooses the Spark column that reads an Arrow vector; runs in the executor JVM, once per column and batch. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.BaseVariableWidthViewVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.DurationVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.headrace.spark.Versions;

/**
 * Spark columns over Arrow memory, without copying.
 *
 * <p>Ownership: the reader owns the Arrow memory. A column borrows it, so {@code close()} and {@code
 * closeIfFreeable()} do nothing, however often and in whatever order Spark calls them; the reader frees each batch
 * once, when it loads the next one or is closed. Columns, and the strings read from them, are valid until then. Make
 * new columns for every batch: addresses are taken here, and reading after the memory is freed is not detected.
 *
 * <p>No column made here is an {@code ArrowColumnVector}, on purpose. Spark takes that class as a promise that every
 * batch has memory of its own, and keeps such columns while it asks for more batches (Arrow Python UDFs).
 */
public final class ArrowColumns {
  /** A view holds a value of so many bytes itself. */
  public static final int INLINE_BYTES = 12;

  private ArrowColumns() {}

  /**
   * Returns a column of type {@code sparkType} over {@code vector}.
   *
   * @throws IllegalArgumentException if the vector does not hold that type, or its buffers are too short
   */
  public static ColumnVector of(FieldVector vector, DataType sparkType) {
    DataType type = sparkType instanceof UserDefinedType<?> udt ? udt.sqlType() : sparkType;
    ColumnVector column =
        switch (vector.getMinorType()) {
          case BIT -> type instanceof BooleanType ? new BooleanColumn(vector, type) : null;
          case TINYINT -> type instanceof ByteType ? new FixedColumn.Bytes(vector, type) : null;
          case SMALLINT -> type instanceof ShortType ? new FixedColumn.Shorts(vector, type) : null;
          case INT -> type instanceof IntegerType ? new FixedColumn.Ints(vector, type) : null;
          case DATEDAY -> type instanceof DateType ? new FixedColumn.Ints(vector, type) : null;
          case BIGINT -> type instanceof LongType ? new FixedColumn.Longs(vector, type) : null;
          case TIMESTAMPMICROTZ -> type instanceof TimestampType ? new FixedColumn.Longs(vector, type) : null;
          case TIMESTAMPMICRO -> type instanceof TimestampNTZType ? new FixedColumn.Longs(vector, type) : null;
          case TIMENANO -> Versions.isTime(type) ? new FixedColumn.Longs(vector, type) : null;
          case DURATION -> type instanceof DayTimeIntervalType ? duration((DurationVector) vector, type) : null;
          case FLOAT4 -> type instanceof FloatType ? new FixedColumn.Floats(vector, type) : null;
          case FLOAT8 -> type instanceof DoubleType ? new FixedColumn.Doubles(vector, type) : null;
          case DECIMAL -> decimal((DecimalVector) vector, type);
          case VARCHAR -> type instanceof StringType ? new StringColumn(vector, type) : null;
          case VARBINARY -> type instanceof BinaryType ? new BinaryColumn(vector, type) : null;
          case LIST -> type instanceof ArrayType array ? new NestedColumn.Arrays((ListVector) vector, array) : null;
          case MAP -> type instanceof MapType map ? new NestedColumn.Maps((ListVector) vector, map) : null;
          case STRUCT -> NestedColumn.struct(vector, type);
          case VIEWVARCHAR -> type instanceof StringType ? views(vector, type) : null;
          case VIEWVARBINARY -> type instanceof BinaryType ? views(vector, type) : null;
          case NULL -> type instanceof NullType ? new NullColumn(vector, type) : null;
          default -> null;
        };
    return found(column, vector, type);
  }

  /**
   * Returns a column of type {@code sparkType} over the indices in {@code vector}, which must all be in range.
   *
   * @throws IllegalArgumentException if the dictionary does not hold that type, or the vector no indices
   */
  public static ColumnVector of(FieldVector vector, DataType sparkType, Dictionary dictionary) {
    DataType type = sparkType instanceof UserDefinedType<?> udt ? udt.sqlType() : sparkType;
    boolean fits = dictionary.isText() ? type instanceof StringType : type instanceof BinaryType;
    ColumnVector column =
        switch (vector.getMinorType()) {
          case TINYINT, UINT1 -> fits ? new DictionaryColumn.Bytes(vector, type, dictionary) : null;
          case SMALLINT, UINT2 -> fits ? new DictionaryColumn.Shorts(vector, type, dictionary) : null;
          case INT, UINT4 -> fits ? new DictionaryColumn.Ints(vector, type, dictionary) : null;
          default -> null;
        };
    return found(column, vector, type);
  }

  private static ColumnVector views(FieldVector vector, DataType type) {
    return new ViewColumn((BaseVariableWidthViewVector) vector, type);
  }

  private static ColumnVector found(ColumnVector column, FieldVector vector, DataType type) {
    if (column == null) {
      throw new IllegalArgumentException(
          "Column '%s' arrived as Arrow %s, but the table declares %s. Send batches in the table's own schema."
              .formatted(vector.getName(), vector.getField().getType(), type.simpleString()));
    }
    return column;
  }

  private static ColumnVector duration(DurationVector vector, DataType type) {
    return vector.getUnit() == TimeUnit.MICROSECOND ? new FixedColumn.Longs(vector, type) : null;
  }

  private static ColumnVector decimal(DecimalVector vector, DataType type) {
    boolean same =
        type instanceof DecimalType decimal
            && decimal.precision() == vector.getPrecision()
            && decimal.scale() == vector.getScale();
    return same ? new DecimalColumn(vector, (DecimalType) type) : null;
  }
}
