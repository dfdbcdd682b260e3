package org.headrace.spark.send;

import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.VectorUnloader;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.util.ArrowUtils;

/** Rows that were not sent yet, as Arrow; executor JVM, one task's thread. */
public final class RowBatch implements AutoCloseable {
  private static final int MAX_ROWS = 64 * 1024;
  private static final long MAX_BYTES = 4L << 20;

  private final BufferAllocator allocator;
  private final VectorSchemaRoot root;
  private final VectorUnloader unloader;
  private final ArrowWriter writer;
  private int rows;
  private long bytes;

  public RowBatch(Schema schema) {
    allocator = ArrowUtils.rootAllocator().newChildAllocator("headrace rows to send", 0, Long.MAX_VALUE);
    root = VectorSchemaRoot.create(schema, allocator);
    unloader = new VectorUnloader(root);
    writer = ArrowWriter.create(root);
  }

  public void add(InternalRow row) {
    writer.write(row);
    rows++;
    bytes += row instanceof UnsafeRow unsafe ? unsafe.getSizeInBytes() : 8L * row.numFields();
  }

  public boolean isEmpty() {
    return rows == 0;
  }

  public boolean isFull() {
    return rows >= MAX_ROWS || bytes >= MAX_BYTES;
  }

  /** Sends all rows as one batch; none are left. */
  public void send(BatchSender sender) {
    writer.finish();
    try (ArrowRecordBatch batch = unloader.getRecordBatch()) {
      sender.send(batch);
    }
    writer.reset();
    rows = 0;
    bytes = 0;
  }

  @Override
  public void close() {
    root.close();
    allocator.close();
  }
}
