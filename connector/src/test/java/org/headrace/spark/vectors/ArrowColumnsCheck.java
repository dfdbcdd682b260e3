/* Checks our columns against Spark's ArrowColumnVector, value by value; runs in a plain JVM without Spark. */
package org.headrace.spark.vectors;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.function.BiFunction;
import java.util.function.ObjIntConsumer;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.DateDayVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float4Vector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.LargeVarCharVector;
import org.apache.arrow.vector.NullVector;
import org.apache.arrow.vector.SmallIntVector;
import org.apache.arrow.vector.TimeStampMicroTZVector;
import org.apache.arrow.vector.TimeStampMicroVector;
import org.apache.arrow.vector.TinyIntVector;
import org.apache.arrow.vector.UInt1Vector;
import org.apache.arrow.vector.UInt2Vector;
import org.apache.arrow.vector.UInt4Vector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.arrow.vector.ipc.message.ArrowFieldNode;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.util.TransferPair;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.headrace.spark.NamedChecks;

public final class ArrowColumnsCheck {
  private static final int[] LENGTHS = {0, 1, 7, 8, 9, 63, 64, 65, 1000};
  private static final double[] NULL_SHARES = {0, 0.3, 1};
  private static final String[] STRINGS = {"", "a", "naïve", "水車", "🌊 mill", "x".repeat(300)};

  private final Random random = new Random(42);

  /** One type: how to make a vector, put a random value in it, and read it back. */
  private record Kind<V extends FieldVector>(
      DataType type,
      BiFunction<String, BufferAllocator, V> make,
      ObjIntConsumer<V> put,
      BiFunction<ColumnVector, Integer, Object> get,
      Bulk bulk) {}

  /** A bulk getter's values, boxed. */
  private interface Bulk {
    Object[] read(ColumnVector column, int rowId, int count);
  }

  public static void main(String[] args) {
    ArrowColumnsCheck check = new ArrowColumnsCheck();
    try (BufferAllocator allocator = new RootAllocator()) {
      for (Kind<?> kind : check.kinds()) {
        NamedChecks.run(kind.type.simpleString(), () -> check.kind(kind, allocator));
      }
      NamedChecks.run("dictionaries", () -> check.dictionaries(allocator));
      NamedChecks.run("missing validity", () -> check.missingValidity(allocator));
      NamedChecks.run("ownership", () -> check.ownership(allocator));
      NamedChecks.run("other types", () -> check.otherTypes(allocator));
      NamedChecks.run("refusals", () -> check.refusals(allocator));
      NamedChecks.run("memory left", () -> same("memory left", 0L, allocator.getAllocatedMemory()));
    }
  }

  private List<Kind<?>> kinds() {
    return List.of(
        new Kind<>(DataTypes.BooleanType, BitVector::new,
            (v, i) -> v.setSafe(i, random.nextInt(2)), ColumnVector::getBoolean,
            (c, i, n) -> boxed(c.getBooleans(i, n))),
        new Kind<>(DataTypes.ByteType, TinyIntVector::new,
            (v, i) -> v.setSafe(i, (byte) random.nextInt()), ColumnVector::getByte,
            (c, i, n) -> boxed(c.getBytes(i, n))),
        new Kind<>(DataTypes.ShortType, SmallIntVector::new,
            (v, i) -> v.setSafe(i, (short) random.nextInt()), ColumnVector::getShort,
            (c, i, n) -> boxed(c.getShorts(i, n))),
        new Kind<>(DataTypes.IntegerType, IntVector::new,
            (v, i) -> v.setSafe(i, random.nextInt()), ColumnVector::getInt,
            (c, i, n) -> boxed(c.getInts(i, n))),
        new Kind<>(DataTypes.LongType, BigIntVector::new,
            (v, i) -> v.setSafe(i, random.nextLong()), ColumnVector::getLong,
            (c, i, n) -> boxed(c.getLongs(i, n))),
        new Kind<>(DataTypes.FloatType, Float4Vector::new,
            (v, i) -> v.setSafe(i, Float.intBitsToFloat(random.nextInt())), ColumnVector::getFloat,
            (c, i, n) -> boxed(c.getFloats(i, n))),
        new Kind<>(DataTypes.DoubleType, Float8Vector::new,
            (v, i) -> v.setSafe(i, Double.longBitsToDouble(random.nextLong())), ColumnVector::getDouble,
            (c, i, n) -> boxed(c.getDoubles(i, n))),
        new Kind<>(DataTypes.DateType, DateDayVector::new,
            (v, i) -> v.setSafe(i, random.nextInt()), ColumnVector::getInt,
            (c, i, n) -> boxed(c.getInts(i, n))),
        new Kind<>(DataTypes.TimestampType, (name, a) -> new TimeStampMicroTZVector(name, a, "UTC"),
            (v, i) -> v.setSafe(i, random.nextLong()), ColumnVector::getLong,
            (c, i, n) -> boxed(c.getLongs(i, n))),
        new Kind<>(DataTypes.TimestampNTZType, TimeStampMicroVector::new,
            (v, i) -> v.setSafe(i, random.nextLong()), ColumnVector::getLong,
            (c, i, n) -> boxed(c.getLongs(i, n))),
        decimals(1, 0), decimals(9, 2), decimals(18, 6), decimals(19, 0), decimals(38, 0), decimals(38, 38),
        new Kind<>(DataTypes.StringType, VarCharVector::new,
            (v, i) -> v.setSafe(i, pick(STRINGS).getBytes(StandardCharsets.UTF_8)), ColumnVector::getUTF8String,
            null),
        new Kind<>(DataTypes.BinaryType, VarBinaryVector::new,
            (v, i) -> v.setSafe(i, bytes()), (c, i) -> listed(c.getBinary(i)), null));
  }

  private Kind<DecimalVector> decimals(int precision, int scale) {
    return new Kind<>(new DecimalType(precision, scale),
        (name, a) -> new DecimalVector(name, a, precision, scale),
        (v, i) -> v.setSafe(i, new BigDecimal(unscaled(precision), scale)),
        (c, i) -> described(c.getDecimal(i, precision, scale)),
        null);
  }

  private void kind(Kind<?> kind, BufferAllocator allocator) {
    for (int length : LENGTHS) {
      for (double nullShare : NULL_SHARES) {
        String where = "%s, %d rows, nulls %s".formatted(kind.type.simpleString(), length, nullShare);
        try (FieldVector vector = filled(kind, allocator, length, nullShare)) {
          compare(where, kind, vector);
          for (int start : new int[] {1, 3, 8, length / 2}) {
            if (start < length) {
              slice(where, kind, vector, start, length - start, allocator);
              slice(where, kind, vector, start, (length - start) / 2, allocator);
            }
          }
        }
      }
    }
  }

  private void slice(
      String where, Kind<?> kind, FieldVector vector, int start, int length, BufferAllocator allocator) {
    TransferPair pair = vector.getTransferPair(allocator);
    pair.splitAndTransfer(start, length);
    try (FieldVector slice = (FieldVector) pair.getTo()) {
      compare("%s, slice of %d at %d".formatted(where, length, start), kind, slice);
    }
  }

  private void compare(String where, Kind<?> kind, FieldVector vector) {
    ColumnVector expected = new ArrowColumnVector(vector);
    ColumnVector actual = ArrowColumns.of(vector, kind.type);
    int count = vector.getValueCount();
    same(where + ", flat class", true, actual instanceof FlatColumn);
    same(where + ", type", expected.dataType(), actual.dataType());
    same(where + ", hasNull", expected.hasNull(), actual.hasNull());
    same(where + ", numNulls", expected.numNulls(), actual.numNulls());
    boolean nullsAsNull = kind.bulk == null;
    for (int row = 0; row < count; row++) {
      String at = where + ", row " + row;
      same(at + ", isNullAt", expected.isNullAt(row), actual.isNullAt(row));
      if (nullsAsNull || !expected.isNullAt(row)) {
        same(at, kind.get.apply(expected, row), kind.get.apply(actual, row));
      }
    }
    if (kind.bulk != null) {
      bulk(where, kind, expected, actual, 0, count);
      bulk(where, kind, expected, actual, count / 3, count - count / 3);
      bulk(where, kind, expected, actual, count, 0);
    }
  }

  /** Null slots may hold anything, and ArrowColumnVector refuses to read them, so it is read value by value. */
  private void bulk(String where, Kind<?> kind, ColumnVector expected, ColumnVector actual, int from, int count) {
    Object[] values = kind.bulk.read(actual, from, count);
    same(where + ", bulk length", count, values.length);
    for (int i = 0; i < count; i++) {
      if (!expected.isNullAt(from + i)) {
        same(where + ", bulk row " + (from + i), kind.get.apply(expected, from + i), values[i]);
      }
    }
  }

  private <V extends FieldVector> V filled(Kind<V> kind, BufferAllocator allocator, int length, double nullShare) {
    V vector = kind.make.apply("c", allocator);
    vector.setInitialCapacity(length);
    vector.allocateNew();
    for (int row = 0; row < length; row++) {
      if (random.nextDouble() < nullShare) {
        vector.setNull(row);
      } else {
        kind.put.accept(vector, row);
      }
    }
    vector.setValueCount(length);
    return vector;
  }

  /** Indices of each width up to the end of their range: unsigned ones beyond that of a sign. */
  private void dictionaries(BufferAllocator allocator) {
    List<Indices<?>> widths =
        List.of(
            new Indices<>(128, TinyIntVector::new, (v, i, at) -> v.setSafe(i, at)),
            new Indices<>(256, UInt1Vector::new, (v, i, at) -> v.setSafe(i, at)),
            new Indices<>(32_768, SmallIntVector::new, (v, i, at) -> v.setSafe(i, at)),
            new Indices<>(65_536, UInt2Vector::new, (v, i, at) -> v.setSafe(i, at)),
            new Indices<>(70_000, IntVector::new, (v, i, at) -> v.setSafe(i, at)),
            new Indices<>(70_000, UInt4Vector::new, (v, i, at) -> v.setSafe(i, at)));
    for (Indices<?> indices : widths) {
      for (double nullShare : NULL_SHARES) {
        for (boolean nullValues : new boolean[] {false, true}) {
          dictionary(indices, nullShare, nullValues, allocator);
        }
      }
    }
  }

  /** What puts index {@code at} into row {@code i}. */
  private interface Put<V> {
    void put(V vector, int i, int at);
  }

  private record Indices<V extends FieldVector>(int values, BiFunction<String, BufferAllocator, V> make, Put<V> put) {}

  private <V extends FieldVector> void dictionary(
      Indices<V> indices, double nullShare, boolean nullValues, BufferAllocator allocator) {
    int rows = 1000;
    String[] expected = new String[rows];
    try (V vector = indices.make.apply("c", allocator);
        VarCharVector text = new VarCharVector("d", allocator);
        VarBinaryVector bytes = new VarBinaryVector("d", allocator)) {
      vector.setInitialCapacity(rows);
      vector.allocateNew();
      for (int i = 0; i < indices.values; i++) {
        if (!nullValues || i % 3 != 1) {
          text.setSafe(i, ("value " + i).getBytes(StandardCharsets.UTF_8));
          bytes.setSafe(i, ("value " + i).getBytes(StandardCharsets.UTF_8));
        }
      }
      text.setValueCount(indices.values);
      bytes.setValueCount(indices.values);
      int nulls = 0;
      for (int row = 0; row < rows; row++) {
        int at = row == 0 ? indices.values - 1 : random.nextInt(indices.values);
        if (random.nextDouble() < nullShare) {
          vector.setNull(row);
        } else {
          indices.put.put(vector, row, at);
          expected[row] = text.isNull(at) ? null : "value " + at;
        }
        nulls += expected[row] == null ? 1 : 0;
      }
      vector.setValueCount(rows);
      ColumnVector strings = ArrowColumns.of(vector, DataTypes.StringType, Dictionary.of(text));
      ColumnVector binary = ArrowColumns.of(vector, DataTypes.BinaryType, Dictionary.of(bytes));
      String where = "%s into a dictionary, nulls %s, %s".formatted(vector.getMinorType(), nullShare, nullValues);
      for (ColumnVector column : List.of(strings, binary)) {
        same(where + ", hasNull", nulls > 0, column.hasNull());
        same(where + ", numNulls", nulls, column.numNulls());
      }
      for (int row = 0; row < rows; row++) {
        same(where + ", isNullAt", expected[row] == null, strings.isNullAt(row));
        same(where + ", isNullAt", expected[row] == null, binary.isNullAt(row));
        same(where, expected[row], strings.getUTF8String(row) == null ? null : strings.getUTF8String(row).toString());
        byte[] found = binary.getBinary(row);
        same(where, expected[row], found == null ? null : new String(found, StandardCharsets.UTF_8));
      }
    }
  }

  /** Arrow's loader keeps an absent bitmap absent only if the null count is neither none nor all. */
  private void missingValidity(BufferAllocator allocator) {
    try (BigIntVector vector = new BigIntVector("c", allocator);
        ArrowBuf values = allocator.buffer(24)) {
      for (int i = 0; i < 3; i++) {
        values.setLong(8L * i, 7L * i);
      }
      values.writerIndex(24);
      vector.loadFieldBuffers(new ArrowFieldNode(3, 1), List.of(allocator.getEmpty(), values));
      same("no bitmap, its size", 0L, vector.getValidityBuffer().capacity());
      ColumnVector column = ArrowColumns.of(vector, DataTypes.LongType);
      same("no bitmap, numNulls", 0, column.numNulls());
      for (int i = 0; i < 3; i++) {
        same("no bitmap, isNullAt", false, column.isNullAt(i));
        same("no bitmap, value", 7L * i, column.getLong(i));
      }
    }
  }

  private void ownership(BufferAllocator allocator) {
    long before = allocator.getAllocatedMemory();
    BigIntVector longs = new BigIntVector("l", allocator);
    longs.setSafe(0, 11L);
    longs.setValueCount(1);
    ListVector lists = list(allocator);
    long held = allocator.getAllocatedMemory();
    ColumnVector[] columns = {
      ArrowColumns.of(longs, DataTypes.LongType),
      ArrowColumns.of(lists, DataTypes.createArrayType(DataTypes.IntegerType))
    };
    ColumnarBatch batch = new ColumnarBatch(columns, 1);
    batch.closeIfFreeable();
    batch.close();
    batch.close();
    same("memory held after the batch was closed", held, allocator.getAllocatedMemory());
    same("long after the batch was closed", 11L, batch.getRow(0).getLong(0));
    same("list after the batch was closed", 2, batch.getRow(0).getArray(1).numElements());
    longs.close();
    lists.close();
    batch.close();
    same("memory held after the reader closed", before, allocator.getAllocatedMemory());
    for (ColumnVector column : columns) {
      same("ArrowColumnVector is avoided", false, column instanceof ArrowColumnVector);
    }
  }

  private void otherTypes(BufferAllocator allocator) {
    try (ListVector lists = list(allocator);
        StructVector structs = StructVector.empty("s", allocator);
        LargeVarCharVector large = new LargeVarCharVector("g", allocator);
        NullVector nulls = new NullVector("n", 3)) {
      ColumnVector list = ArrowColumns.of(lists, DataTypes.createArrayType(DataTypes.IntegerType));
      same("list", List.of(5, 6), listed(list.getArray(0).toIntArray()));
      same("null list", null, list.getArray(1));
      same("list nulls", 1, list.numNulls());
      ((IntVector) lists.getDataVector()).setNull(0);
      ColumnVector withNull = ArrowColumns.of(lists, DataTypes.createArrayType(DataTypes.IntegerType));
      same("null inside of a copied list", true, withNull.getArray(0).copy().isNullAt(0));

      IntVector ints = structs.addOrGet("i", FieldType.nullable(new ArrowType.Int(32, true)), IntVector.class);
      ints.setSafe(1, 9);
      structs.setIndexDefined(1);
      structs.setValueCount(2);
      DataType type = new StructType().add("i", DataTypes.IntegerType);
      ColumnVector struct = ArrowColumns.of(structs, type);
      same("struct", 9, struct.getStruct(1).getInt(0));
      same("null struct", null, struct.getStruct(0));

      refused("struct of other fields", IllegalArgumentException.class, "declares struct",
          () -> ArrowColumns.of(structs, new StructType()));

      large.setSafe(0, "水".getBytes(StandardCharsets.UTF_8));
      large.setValueCount(1);
      refused("large string", IllegalArgumentException.class, "declares string",
          () -> ArrowColumns.of(large, DataTypes.StringType));

      ColumnVector none = ArrowColumns.of(nulls, DataTypes.NullType);
      same("null column", true, none.isNullAt(2));
      same("null column nulls", 3, none.numNulls());
    }
  }

  private void refusals(BufferAllocator allocator) {
    try (BigIntVector longs = new BigIntVector("l", allocator);
        DecimalVector decimals = new DecimalVector("d", allocator, 5, 2);
        VarCharVector strings = new VarCharVector("s", allocator);
        ArrowBuf offsets = allocator.buffer(8)) {
      longs.setSafe(0, 1L);
      longs.setValueCount(1);
      refused("wrong type", IllegalArgumentException.class, "declares string",
          () -> ArrowColumns.of(longs, DataTypes.StringType));
      refused("wrong scale", IllegalArgumentException.class, "declares decimal(5,1)",
          () -> ArrowColumns.of(decimals, new DecimalType(5, 1)));
      ColumnVector column = ArrowColumns.of(longs, DataTypes.LongType);
      refused("getArray", UnsupportedOperationException.class, "bigint", () -> column.getArray(0));
      refused("getMap", UnsupportedOperationException.class, "bigint", () -> column.getMap(0));
      refused("getChild", UnsupportedOperationException.class, "bigint", () -> column.getChild(0));
      refused("getInt", UnsupportedOperationException.class, "bigint", () -> column.getInt(0));

      // 1000.00 is no decimal(5,2), nor is -1000.00, nor 2^64 hundredths, whose low half is zero.
      decimals.setSafe(0, 100000L);
      decimals.setSafe(1, -100000L);
      decimals.setSafe(2, 0L);
      decimals.setValueCount(3);
      decimals.getDataBuffer().setLong(2 * 16 + 8, 1L);
      ColumnVector decimal = ArrowColumns.of(decimals, new DecimalType(5, 2));
      for (int row = 0; row < 3; row++) {
        int at = row;
        refused("decimal overflow", ArithmeticException.class, "", () -> decimal.getDecimal(at, 5, 2));
      }

      offsets.setInt(0, 0);
      offsets.setInt(4, 10);
      offsets.writerIndex(8);
      strings.loadFieldBuffers(
          new ArrowFieldNode(1, 0), List.of(allocator.getEmpty(), offsets, allocator.getEmpty()));
      refused("short buffer", IllegalArgumentException.class, "needs a buffer of 10 bytes",
          () -> ArrowColumns.of(strings, DataTypes.StringType));
    }
  }

  private static ListVector list(BufferAllocator allocator) {
    ListVector lists = ListVector.empty("a", allocator);
    IntVector items =
        (IntVector) lists.addOrGetVector(FieldType.nullable(new ArrowType.Int(32, true))).getVector();
    lists.allocateNew();
    lists.startNewValue(0);
    items.setSafe(0, 5);
    items.setSafe(1, 6);
    lists.endValue(0, 2);
    items.setValueCount(2);
    lists.setNull(1);
    lists.setValueCount(2);
    return lists;
  }

  /** Any number of digits up to the precision, so that both the short and the long way are taken, and the ends. */
  private BigInteger unscaled(int precision) {
    BigInteger end = BigInteger.TEN.pow(precision).subtract(BigInteger.ONE);
    BigInteger value =
        switch (random.nextInt(4)) {
          case 0 -> end;
          case 1 -> BigInteger.valueOf(random.nextLong()).mod(BigInteger.TEN.pow(random.nextInt(precision) + 1));
          default -> new BigInteger(130, random).mod(BigInteger.TEN.pow(random.nextInt(precision) + 1));
        };
    value = value.min(end);
    return random.nextBoolean() ? value.negate() : value;
  }

  private byte[] bytes() {
    byte[] bytes = new byte[random.nextInt(5) == 0 ? 0 : random.nextInt(40)];
    random.nextBytes(bytes);
    return bytes;
  }

  private String pick(String[] from) {
    return from[random.nextInt(from.length)];
  }

  /** Decimal.equals ignores precision and scale, which must match as well. */
  private static Object described(Decimal decimal) {
    return decimal == null
        ? null
        : List.of(decimal.toJavaBigDecimal(), decimal.precision(), decimal.scale(), decimal.hashCode());
  }

  private static Object listed(Object array) {
    return array == null ? null : Arrays.asList(boxed(array));
  }

  private static Object[] boxed(Object array) {
    Object[] boxed = new Object[java.lang.reflect.Array.getLength(array)];
    Arrays.setAll(boxed, i -> java.lang.reflect.Array.get(array, i));
    return boxed;
  }

  private static void same(String what, Object expected, Object actual) {
    if (!Objects.equals(expected, actual)) {
      throw new AssertionError("%s: expected %s, found %s".formatted(what, expected, actual));
    }
  }

  private static void refused(String what, Class<? extends Exception> error, String message, Runnable action) {
    try {
      action.run();
    } catch (RuntimeException caught) {
      if (error.isInstance(caught) && caught.getMessage().contains(message)) {
        return;
      }
      throw new AssertionError("%s: expected %s with '%s', found %s".formatted(what, error.getName(), message, caught));
    }
    throw new AssertionError("%s: expected %s, found no error".formatted(what, error.getName()));
  }
}
