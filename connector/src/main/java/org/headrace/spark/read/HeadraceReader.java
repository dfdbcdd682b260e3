package org.headrace.spark.read;

import io.netty.util.internal.PlatformDependent;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.OutOfMemoryException;
import org.apache.arrow.vector.VectorLoader;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskFailureListener;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;
import org.headrace.spark.Versions;
import org.headrace.spark.results.ResultSender;
import org.headrace.spark.transport.FrameInput;
import org.headrace.spark.transport.PartitionConnection;
import org.headrace.spark.transport.PartitionOrigin;
import org.headrace.spark.transport.Protocol;
import org.headrace.spark.vectors.ArrowColumns;

/**
 * One partition's frames as Spark's columnar batches; executor JVM, one task's thread.
 *
 * <p>Owns all Arrow memory: a batch is valid until the next call of {@link #next} or {@link #close}.
 */
final class HeadraceReader implements PartitionReader<ColumnarBatch> {
  private static final int IPC_PREFIX_BYTES = 8;
  private static final int MAX_READ_BYTES = 1 << 30;

  /** What Netty, from which Arrow has its memory, takes outside of the heap at most. */
  private static final long MAX_ARROW_BYTES = PlatformDependent.maxDirectMemory();

  private final Place place;
  private final StructType schema;
  private final BufferAllocator allocator;
  private final PartitionConnection connection;
  private final FrameInput frames;
  private VectorSchemaRoot root;
  private VectorLoader loader;
  private ColumnarBatch current;
  private long rows;
  private long batches;
  private boolean ended;
  private boolean closed;
  private volatile String taskError;

  HeadraceReader(PartitionOrigin origin, int partition, StructType schema) {
    this.place = origin.place(partition);
    this.schema = schema;
    try {
      this.connection = origin.open(partition);
    } catch (IOException e) {
      throw HeadraceException.transport(place, "cannot open " + place + ": " + e);
    }
    this.frames = connection.frames();
    frames.beforeWaiting(ResultSender::sendPending);
    this.allocator = childAllocator();
    TaskContext task = TaskContext.get();
    if (task != null) {
      Versions.onInterrupt(task, frames::cancel);
      TaskFailureListener remember = (context, error) -> taskError = String.valueOf(error);
      task.addTaskFailureListener(remember);
    }
  }

  private BufferAllocator childAllocator() {
    boolean made = false;
    try {
      BufferAllocator child =
          ArrowUtils.rootAllocator()
              .newChildAllocator("headrace " + place, 0, MAX_ARROW_BYTES);
      made = true;
      return child;
    } finally {
      if (!made) { // nobody will close a reader whose constructor threw
        connection.abandon("the executor is out of memory");
      }
    }
  }

  @Override
  public boolean next() throws IOException {
    if (ended) {
      return false;
    }
    try {
      while (true) {
        switch (frames.next()) {
          case Protocol.SCHEMA -> readSchema();
          case Protocol.BATCH -> {
            readBatch();
            if (current.numRows() > 0) {
              return true;
            }
          }
          case Protocol.END -> {
            readEnd();
            return false;
          }
          case Protocol.ERROR -> throw readError().inTask();
          default -> throw new IllegalStateException("FrameInput lets no other kind pass");
        }
      }
    } catch (InterruptedIOException e) {
      throw e;
    } catch (IOException e) { // the end of the stream, or a connection that was reset
      ended = true;
      throw connection.lost();
    }
  }

  @Override
  public ColumnarBatch get() {
    return current;
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return ScanMetric.values(rows, batches, frames.bytesRead(), frames.waitingNanos() / 1_000_000);
  }

  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    try {
      if (!ended) {
        ended = true;
        connection.abandon(whyStopped());
      }
    } finally {
      if (root != null) {
        root.close();
      }
      allocator.close();
    }
  }

  private String whyStopped() {
    TaskContext task = TaskContext.get();
    if (task != null && task.isInterrupted()) {
      return "the query was cancelled";
    }
    return taskError == null
        ? "the query needs no more rows (its limit was reached)"
        : "the query failed: " + taskError;
  }

  private void readSchema() throws IOException {
    ByteBuffer message = frames.readFirst();
    if (root != null) {
      throw damaged("a second schema", null);
    }
    try {
      Schema sent = MessageSerializer.deserializeSchema(Message.getRootAsMessage(withoutPrefix(message)));
      checkSchema(sent);
      root = VectorSchemaRoot.create(sent, allocator);
    } catch (Exception e) { // Arrow, flatbuffers and Spark throw whatever a broken message makes them throw
      throw e instanceof HeadraceException named ? named : damaged("a schema that cannot be read", e);
    }
    loader = new VectorLoader(root);
  }

  /** Columns are read by position and nested ones unchecked, so all of it must be what was planned. */
  private void checkSchema(Schema sent) {
    List<Field> fields = sent.getFields();
    boolean same = fields.size() == schema.length();
    for (int i = 0; same && i < fields.size(); i++) {
      StructField planned = schema.fields()[i];
      same =
          planned.name().equals(fields.get(i).getName())
              && DataType.equalsIgnoreNullability(ArrowUtils.fromArrowField(fields.get(i)), planned.dataType());
    }
    if (!same) {
      throw damaged("the columns " + fields + " where " + schema.catalogString() + " were planned", null);
    }
  }

  private static ByteBuffer withoutPrefix(ByteBuffer message) {
    return message.position(IPC_PREFIX_BYTES).slice();
  }

  private void readBatch() throws IOException {
    if (root == null) {
      throw damaged("a batch before the schema", null);
    }
    root.clear();
    ByteBuffer message = frames.readFirst();
    ArrowBuf body = readBody(frames.secondLength());
    ColumnVector[] columns = new ColumnVector[schema.length()];
    try (ArrowRecordBatch batch = decoded(message, body)) {
      check(batch, body);
      loader.load(batch);
      for (int i = 0; i < columns.length; i++) {
        columns[i] = ArrowColumns.of(root.getVector(i), schema.fields()[i].dataType());
      }
    } catch (OutOfMemoryError | OutOfMemoryException e) {
      throw noMemory(frames.secondLength());
    } catch (Exception e) {
      throw e instanceof HeadraceException named ? named : damaged("a batch that cannot be read", e);
    }
    current = new ColumnarBatch(columns, root.getRowCount());
    rows += root.getRowCount();
    batches++;
  }

  private void check(ArrowRecordBatch batch, ArrowBuf body) {
    try {
      BatchCheck.check(batch, body, root.getSchema());
    } catch (IllegalArgumentException e) {
      throw HeadraceException.of("SchemaMismatchError", place, place + " sent a broken batch: " + e.getMessage());
    }
  }

  /** Takes over {@code body}. */
  private ArrowRecordBatch decoded(ByteBuffer message, ArrowBuf body) {
    try {
      return MessageSerializer.deserializeRecordBatch(Message.getRootAsMessage(withoutPrefix(message)), body);
    } catch (IOException | RuntimeException e) {
      if (body.refCnt() > 0) {
        body.close();
      }
      throw damaged("a batch that cannot be read", e);
    }
  }

  private ArrowBuf readBody(long length) throws IOException {
    ArrowBuf body = allocated(length);
    boolean read = false;
    try {
      for (long offset = 0; offset < length; offset += MAX_READ_BYTES) {
        frames.read(body.nioBuffer(offset, (int) Math.min(MAX_READ_BYTES, length - offset)));
      }
      body.writerIndex(length);
      read = true;
    } finally {
      if (!read) {
        body.close();
      }
    }
    return body;
  }

  private ArrowBuf allocated(long length) {
    try {
      return allocator.buffer(length);
    } catch (OutOfMemoryError | OutOfMemoryException e) {
      throw noMemory(length);
    }
  }

  /** As an Error, and Netty's is one, lack of memory would end the whole JVM. */
  private HeadraceException noMemory(long length) {
    return frames.distrust(
        String.format(
            "%s sent a batch of %d bytes, which this JVM has no memory for (%d of %d bytes are in"
                + " use). A batch of that size has one large row: give Spark more memory (spark.executor.memory, or"
                + " spark.driver.memory where Spark runs in the driver), or use fewer cores per executor",
            place, length, ArrowUtils.rootAllocator().getAllocatedMemory(), MAX_ARROW_BYTES));
  }

  private void readEnd() throws IOException {
    if (root == null) {
      throw damaged("an end before the schema", null);
    }
    ByteBuffer totals = frames.readFirst();
    if (totals.remaining() != 2 * Long.BYTES) {
      throw damaged("an end without totals", null);
    }
    long sentRows = totals.getLong();
    long sentBatches = totals.getLong();
    if (sentRows != rows || sentBatches != batches) {
      throw frames.distrust(
          String.format(
              "%s was sent as %d rows in %d batches, %d in %d arrived",
              place, sentRows, sentBatches, rows, batches));
    }
    ended = true;
    connection.finish();
  }

  private HeadraceException readError() throws IOException {
    HeadraceException error = frames.error();
    ended = true;
    connection.finish();
    return error;
  }

  private HeadraceException damaged(String what, Exception e) {
    return frames.distrust(place + " sent " + what + (e == null ? "" : ": " + e));
  }
}
