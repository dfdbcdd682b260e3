package org.headrace.spark.results;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.VectorUnloader;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.util.ArrowUtils;

/** The rows of a result that were not sent yet, as Arrow; executor JVM, one task's thread. */
final class ResultBatch implements AutoCloseable {
  private static final int MAX_ROWS = 64 * 1024;
  private static final long MAX_BYTES = 4L << 20;

  private final BufferAllocator allocator;
  private final VectorSchemaRoot root;
  private final VectorUnloader unloader;
  private final ArrowWriter writer;
  private int rows;
  private long bytes;

  ResultBatch(Schema schema) {
    allocator = ArrowUtils.rootAllocator().newChildAllocator("headrace result", 0, Long.MAX_VALUE);
    root = VectorSchemaRoot.create(schema, allocator);
    unloader = new VectorUnloader(root);
    writer = ArrowWriter.create(root);
  }

  void add(InternalRow row) {
    writer.write(row);
    rows++;
    bytes += row instanceof UnsafeRow unsafe ? unsafe.getSizeInBytes() : 8L * row.numFields();
  }

  int rows() {
    return rows;
  }

  boolean isEmpty() {
    return rows == 0;
  }

  boolean isFull() {
    return rows >= MAX_ROWS || bytes >= MAX_BYTES;
  }

  /** All rows as one IPC message; none are left. */
  byte[] take() throws IOException {
    writer.finish();
    ByteArrayOutputStream message = new ByteArrayOutputStream((int) Math.min(2 * bytes + 1024, 2 * MAX_BYTES));
    try (ArrowRecordBatch batch = unloader.getRecordBatch()) {
      MessageSerializer.serialize(new WriteChannel(Channels.newChannel(message)), batch);
    }
    writer.reset();
    rows = 0;
    bytes = 0;
    return message.toByteArray();
  }

  @Override
  public void close() {
    root.close();
    allocator.close();
  }
}
