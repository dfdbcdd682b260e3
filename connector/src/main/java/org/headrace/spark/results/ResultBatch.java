package org.headrace.spark.results;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.VectorUnloader;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.IpcOption;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.util.ArrowUtils;
import org.headrace.spark.transport.FrameOutput;
import org.headrace.spark.transport.Protocol;

/** The rows of a result that were not sent yet, as Arrow; executor JVM, one task's thread. */
final class ResultBatch implements AutoCloseable {
  private static final int MAX_ROWS = 64 * 1024;
  private static final long MAX_BYTES = 4L << 20;
  private static final int IPC_CONTINUATION = -1;

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

  /** Sends all rows as one frame, from where they lie in memory; none are left. */
  void send(FrameOutput out) throws IOException {
    writer.finish();
    try (ArrowRecordBatch batch = unloader.getRecordBatch()) {
      ByteBuffer metadata = MessageSerializer.serializeMetadata(batch, IpcOption.DEFAULT);
      int padded = (metadata.remaining() + 7) / 8 * 8;
      ByteBuffer message = ByteBuffer.allocate(8 + padded).order(ByteOrder.LITTLE_ENDIAN);
      message.putInt(IPC_CONTINUATION).putInt(padded).put(metadata).rewind();
      out.begin(Protocol.BATCH, message, batch.computeBodyLength());
      MessageSerializer.writeBatchBuffers(new WriteChannel(out), batch);
      out.flush();
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
