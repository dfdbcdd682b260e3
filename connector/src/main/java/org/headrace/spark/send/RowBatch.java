package org.headrace.spark.send;

import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.VectorUnloader;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.types.Types;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.ProjectingInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Rows that were not sent yet, as Arrow; executor JVM, one task's thread.
 *
 * <p>Columns of most types are written by address ({@link ColumnWriter}); nested ones and a few others by Spark's own writer.
 */
public final class RowBatch implements AutoCloseable {
  private static final int MAX_ROWS = 64 * 1024;
  private static final long MAX_BYTES = 4L << 20;

  private final BufferAllocator allocator;
  private final VectorSchemaRoot root;
  private final VectorUnloader unloader;
  private final ColumnWriter[] columns;
  private final TextWriter[] texts; // those of the columns whose values have any size
  private final FixedWriter[] fixed;
  private final ArrowWriter others; // null where there are none
  private final ProjectingInternalRow otherColumns;
  private final int capacity;
  private int rows;
  private long bytes;

  public RowBatch(Schema schema) {
    allocator = ArrowUtils.rootAllocator().newChildAllocator("headrace rows to send", 0, Long.MAX_VALUE);
    root = VectorSchemaRoot.create(schema, allocator);
    unloader = new VectorUnloader(root);
    List<ColumnWriter> written = new ArrayList<>();
    List<FieldVector> left = new ArrayList<>();
    List<Object> ordinals = new ArrayList<>();
    int fields = root.getFieldVectors().size();
    capacity = (int) Math.min(MAX_ROWS, MAX_BYTES / (8L * Math.max(1, fields)) + 1); // a field has 8 bytes of a row
    boolean made = false;
    try {
      for (int i = 0; i < fields; i++) {
        FieldVector vector = root.getVector(i);
        ColumnWriter writer = ColumnWriter.of(i, vector, capacity);
        if (writer != null) {
          written.add(writer);
        } else {
          left.add(vector);
          ordinals.add(i);
        }
      }
      VectorSchemaRoot rest = new VectorSchemaRoot(left);
      others = left.isEmpty() ? null : ArrowWriter.create(rest);
      otherColumns =
          new ProjectingInternalRow(
              ArrowUtils.fromArrowSchema(rest.getSchema()),
              CollectionConverters.asScala(ordinals).toIndexedSeq());
      made = true;
    } finally {
      if (!made) {
        close();
      }
    }
    columns = written.toArray(new ColumnWriter[0]);
    texts = written.stream().filter(TextWriter.class::isInstance).toArray(TextWriter[]::new);
    fixed = written.stream().filter(FixedWriter.class::isInstance).toArray(FixedWriter[]::new);
  }

  /** Whether batches of columns can be added where rows have this schema. */
  public static boolean takesColumns(Schema schema) {
    return schema.getFields().stream()
        .allMatch(field -> ColumnWriter.writes(Types.getMinorTypeForArrowType(field.getType())));
  }

  /** To be called while the batch is not full: columns have no room for more, and are written by address. */
  public void add(InternalRow row) {
    if (rows == capacity) {
      throw new IllegalStateException("the batch is full");
    }
    if (row instanceof UnsafeRow unsafe && !unsafe.anyNull()) {
      for (ColumnWriter column : columns) {
        column.writeValue(row, rows);
      }
    } else {
      for (ColumnWriter column : columns) {
        column.write(row, rows);
      }
    }
    if (others != null) {
      otherColumns.project(row);
      others.write(otherColumns);
    }
    rows++;
    bytes += row instanceof UnsafeRow unsafe ? unsafe.getSizeInBytes() : 8L * row.numFields();
  }

  /**
   * Adds rows of {@code source}, from row {@code from} on, until it has no more or the batch is full. To be called where
   * {@link #takesColumns} and while the batch is not full.
   *
   * @return how many rows it added
   */
  public int add(ColumnarBatch source, int from) {
    int count = Math.min(source.numRows() - from, capacity - rows);
    if (texts.length > 0) {
      count = addTexts(source, from, count);
    }
    for (FixedWriter column : fixed) {
      column.copy(source, from, count, rows);
    }
    rows += count;
    bytes += 8L * columns.length * count;
    return count;
  }

  /** Each column gets a share of the room, so that large values of one end the batch; the others go back to its rows. */
  private int addTexts(ColumnarBatch source, int from, int count) {
    long before = textBytes();
    long share = Math.max(1, (MAX_BYTES - bytes) / texts.length);
    int taken = count;
    for (TextWriter text : texts) {
      taken = text.copy(source, from, taken, rows, share);
    }
    if (taken < count) {
      for (TextWriter text : texts) {
        text.takeBack(rows + taken, rows + count);
      }
    }
    bytes += textBytes() - before;
    return taken;
  }

  private long textBytes() {
    long sum = 0;
    for (TextWriter text : texts) {
      sum += text.bytes();
    }
    return sum;
  }

  public boolean isEmpty() {
    return rows == 0;
  }

  public boolean isFull() {
    return rows == capacity || bytes >= MAX_BYTES;
  }

  /** Sends all rows as one batch; none are left. */
  public void send(BatchSender sender) {
    for (ColumnWriter column : columns) {
      column.end(rows);
    }
    if (others != null) {
      others.finish();
    }
    root.setRowCount(rows);
    try (ArrowRecordBatch batch = unloader.getRecordBatch()) {
      sender.send(batch);
    }
    for (ColumnWriter column : columns) {
      column.next();
    }
    if (others != null) {
      others.reset();
    }
    rows = 0;
    bytes = 0;
  }

  /** What to tell of rows that do not fit: their error, as it is, would end the whole JVM. */
  public static HeadraceException tooLarge(Place place, Throwable e) {
    return HeadraceException.transport(
        place,
        String.format(
            "%s has rows that do not fit in the memory of this JVM (%s). Select less of them, or"
                + " give Spark more: spark.executor.memory, or spark.driver.memory where Spark runs in the driver",
            place, e));
  }

  @Override
  public void close() {
    root.close();
    allocator.close();
  }
}
