package org.headrace.spark.read;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorLoader;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.message.ArrowDictionaryBatch;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.DictionaryEncoding;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.headrace.spark.Versions;
import org.headrace.spark.vectors.ArrowColumns;
import org.headrace.spark.vectors.Dictionary;

/**
 * The columns of a stream from one SCHEMA frame to the next, and their memory: how each is sent (plainly, as views, or
 * as indices into a dictionary), the dictionaries so far, and the batch that is loaded; executor JVM, one task's thread.
 */
final class SentColumns implements AutoCloseable {
  private final StructType planned;
  private final Field[] values; // of a column's dictionary; null where it has none
  private final long[] dictionaryIds;
  private final Map<Long, Dictionary> dictionaries = new HashMap<>();
  private final VectorSchemaRoot root;
  private final VectorLoader loader;
  private final BufferAllocator allocator;

  /** {@code sent} can be read as what was {@code planned}: {@link #areReadAs} said so. */
  SentColumns(Schema sent, StructType planned, BufferAllocator allocator) {
    this.planned = planned;
    this.allocator = allocator;
    List<Field> fields = sent.getFields();
    values = new Field[fields.size()];
    dictionaryIds = new long[fields.size()];
    List<Field> inMemory = new ArrayList<>();
    for (int i = 0; i < values.length; i++) {
      Field field = fields.get(i);
      DictionaryEncoding encoding = field.getDictionary();
      if (encoding != null) {
        values[i] = new Field(field.getName() + ".dictionary", FieldType.nullable(field.getType()), List.of());
        dictionaryIds[i] = encoding.getId();
        field = new Field(field.getName(), FieldType.nullable(encoding.getIndexType()), List.of());
      }
      inMemory.add(field);
    }
    root = VectorSchemaRoot.create(new Schema(inMemory), allocator);
    loader = new VectorLoader(root);
  }

  /** Whether columns that were sent so are those that were planned, each in a way that can be read. */
  static boolean areReadAs(List<Field> fields, StructType planned) {
    boolean same = fields.size() == planned.length();
    for (int i = 0; same && i < fields.size(); i++) {
      StructField column = planned.fields()[i];
      same = column.name().equals(fields.get(i).getName()) && isReadAs(fields.get(i), column.dataType());
    }
    return same;
  }

  /** Columns are read by position and nested ones unchecked, so all of it must be what was planned. */
  private static boolean isReadAs(Field field, DataType type) {
    ArrowType sent = field.getType();
    if (field.getDictionary() != null) {
      ArrowType.Int index = field.getDictionary().getIndexType();
      return index.getBitWidth() <= Integer.SIZE
          && (sent instanceof ArrowType.Utf8 ? type instanceof StringType
              : sent instanceof ArrowType.Binary && type instanceof BinaryType);
    }
    if (sent instanceof ArrowType.Utf8View) {
      return type instanceof StringType;
    }
    if (sent instanceof ArrowType.BinaryView) {
      return type instanceof BinaryType;
    }
    return hasNoDictionary(field.getChildren())
        && haveSameValues(ArrowUtils.fromArrowField(field), type);
  }

  /** Which parts of an interval and how many digits of a time Spark shows is no matter of how they are sent. */
  private static boolean haveSameValues(DataType sent, DataType type) {
    if (sent instanceof StructType one && type instanceof StructType other) {
      boolean same = one.length() == other.length();
      for (int i = 0; same && i < one.length(); i++) {
        StructField field = one.fields()[i];
        same = field.name().equals(other.fields()[i].name()) && haveSameValues(field.dataType(), other.fields()[i].dataType());
      }
      return same;
    }
    if (sent instanceof ArrayType one && type instanceof ArrayType other) {
      return haveSameValues(one.elementType(), other.elementType());
    }
    if (sent instanceof MapType one && type instanceof MapType other) {
      return haveSameValues(one.keyType(), other.keyType()) && haveSameValues(one.valueType(), other.valueType());
    }
    if (sent instanceof DayTimeIntervalType) {
      return type instanceof DayTimeIntervalType;
    }
    return Versions.isTime(sent) ? Versions.isTime(type) : DataType.equalsIgnoreNullability(sent, type);
  }

  private static boolean hasNoDictionary(List<Field> fields) {
    return fields.stream().allMatch(field -> field.getDictionary() == null && hasNoDictionary(field.getChildren()));
  }

  /** Takes a dictionary that came; {@code body} holds its buffers. Throws as {@link BatchCheck} does. */
  void take(ArrowDictionaryBatch received, ArrowBuf body) {
    long id = received.getDictionaryId();
    Field field = null;
    for (int i = 0; i < values.length; i++) {
      if (values[i] != null && dictionaryIds[i] == id) {
        if (field != null && !field.getType().equals(values[i].getType())) {
          throw new IllegalStateException("dictionary " + id + " belongs to columns of two types");
        }
        field = values[i];
      }
    }
    if (field == null) {
      throw new IllegalStateException("dictionary " + id + " belongs to no column");
    }
    Schema schema = new Schema(List.of(field));
    BatchCheck.check(received.getDictionary(), body, schema);
    Dictionary before = received.isDelta() ? dictionaries.get(id) : null;
    try (VectorSchemaRoot loaded = VectorSchemaRoot.create(schema, allocator)) {
      new VectorLoader(loaded).load(received.getDictionary());
      Dictionary values = Dictionary.of(loaded.getVector(0));
      dictionaries.put(id, before == null ? values : before.followedBy(values));
    }
  }

  /** Checks a batch and makes it the loaded one; {@code body} holds its buffers. Throws as {@link BatchCheck} does. */
  ColumnVector[] load(ArrowRecordBatch batch, ArrowBuf body) {
    BatchCheck.check(
        batch, body, root.getSchema(), i -> values[i] == null ? BatchCheck.NO_DICTIONARY : dictionary(i).size());
    loader.load(batch);
    ColumnVector[] columns = new ColumnVector[values.length];
    for (int i = 0; i < columns.length; i++) {
      DataType type = planned.fields()[i].dataType();
      columns[i] =
          values[i] == null
              ? ArrowColumns.of(root.getVector(i), type)
              : ArrowColumns.of(root.getVector(i), type, dictionary(i));
    }
    return columns;
  }

  /** One that never came has no values: only rows that are null can do without. */
  private Dictionary dictionary(int column) {
    boolean text = values[column].getType() instanceof ArrowType.Utf8;
    return dictionaries.getOrDefault(dictionaryIds[column], text ? Dictionary.NO_TEXT : Dictionary.NO_BYTES);
  }

  int rowCount() {
    return root.getRowCount();
  }

  /** Gives back the memory of the loaded batch. */
  void clear() {
    root.clear();
  }

  @Override
  public void close() {
    root.close();
  }
}
