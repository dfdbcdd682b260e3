package org.headrace.spark.read;

import io.netty.util.internal.PlatformDependent;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.util.function.BiConsumer;
import org.apache.arrow.flatbuf.DictionaryBatch;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.MessageHeader;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.OutOfMemoryException;
import org.apache.arrow.vector.ipc.message.ArrowDictionaryBatch;
import org.apache.arrow.vector.ipc.message.ArrowMessage;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskFailureListener;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.HeadraceMetric;
import org.headrace.spark.Place;
import org.headrace.spark.Versions;
import org.headrace.spark.transport.FrameInput;
import org.headrace.spark.transport.PartitionConnection;
import org.headrace.spark.transport.PartitionOrigin;
import org.headrace.spark.transport.PendingOutput;
import org.headrace.spark.transport.Protocol;

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
  private SentColumns columns;
  private ColumnarBatch current;
  private long rows;
  private long rowsOfProvider;
  private long batches;
  private boolean ended;
  private boolean closed;
  private volatile String taskError;

  HeadraceReader(PartitionOrigin origin, int partition, StructType schema) {
    this.place = origin.place(partition);
    this.schema = schema;
    this.connection = origin.open(partition);
    this.frames = connection.frames();
    frames.beforeWaiting(PendingOutput::send);
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
        connection.abandon("failed\nthe executor is out of memory");
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
          case Protocol.DICTIONARY -> readDictionary();
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
    return HeadraceMetric.scanned(
        Math.max(rows, rowsOfProvider), rows, batches, frames.bytesRead(), frames.waitingNanos() / 1_000_000);
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
      if (columns != null) {
        columns.close();
      }
      allocator.close();
    }
  }

  /** A killed task does not know whether its query was cancelled, failed or has enough rows: Spark says that to Python. */
  private String whyStopped() {
    TaskContext task = TaskContext.get();
    if (task != null && task.isInterrupted()) {
      return "lost\nits task was killed";
    }
    return taskError == null
        ? "limit\nthe query needs no more rows (its limit was reached)"
        : "failed\nthe query failed: " + taskError;
  }

  /** The first frame, and another one wherever the columns begin to be sent in another way. */
  private void readSchema() throws IOException {
    ByteBuffer message = frames.readFirst();
    if (columns != null) {
      columns.close();
      columns = null;
    }
    try {
      Schema sent = MessageSerializer.deserializeSchema(Message.getRootAsMessage(withoutPrefix(message)));
      if (!SentColumns.areReadAs(sent.getFields(), schema)) {
        throw damaged("the columns " + sent.getFields() + " where " + schema.catalogString() + " were planned", null);
      }
      columns = new SentColumns(sent, schema, allocator);
    } catch (Exception e) { // Arrow, flatbuffers and Spark throw whatever a broken message makes them throw
      throw e instanceof HeadraceException named ? named : damaged("a schema that cannot be read", e);
    }
  }

  private static ByteBuffer withoutPrefix(ByteBuffer message) {
    return message.position(IPC_PREFIX_BYTES).slice();
  }

  private void readDictionary() throws IOException {
    read("a dictionary", HeadraceReader::decodedDictionary, (received, body) -> columns.take(received, body));
  }

  /** As MessageSerializer does it, but id and flag first: where they are damaged it would keep the batch's memory. */
  private static ArrowDictionaryBatch decodedDictionary(Message message, ArrowBuf body) throws IOException {
    if (message.headerType() != MessageHeader.DictionaryBatch) {
      throw new IOException("a message of kind " + message.headerType());
    }
    DictionaryBatch header = (DictionaryBatch) message.header(new DictionaryBatch());
    long id = header.id();
    boolean isDelta = header.isDelta();
    return new ArrowDictionaryBatch(id, MessageSerializer.deserializeRecordBatch(header.data(), body), isDelta);
  }

  private void readBatch() throws IOException {
    read(
        "a batch",
        MessageSerializer::deserializeRecordBatch,
        (batch, body) -> current = new ColumnarBatch(columns.load(batch, body), columns.rowCount()));
    rows += columns.rowCount();
    batches++;
  }

  private interface Decoding<T> {
    T decoded(Message message, ArrowBuf body) throws IOException;
  }

  /** Reads an Arrow message of the current frame and hands it on; it is closed afterwards. */
  @SuppressWarnings("try") // AutoCloseable.close may be interrupted; that of Arrow's messages is not
  private <T extends ArrowMessage> void read(String what, Decoding<T> decoding, BiConsumer<T, ArrowBuf> taking)
      throws IOException {
    if (columns == null) {
      throw damaged(what + " before the schema", null);
    }
    columns.clear();
    ByteBuffer message = frames.readFirst();
    ArrowBuf body = readBody(frames.secondLength());
    try (T received = decoded(what, message, body, decoding)) {
      taking.accept(received, body);
    } catch (OutOfMemoryError | OutOfMemoryException e) {
      throw noMemory(frames.secondLength());
    } catch (BatchCheck.Broken e) {
      throw HeadraceException.of("SchemaMismatchError", place, place + " sent a broken batch: " + e.getMessage());
    } catch (HeadraceException e) {
      throw e;
    } catch (Exception e) {
      throw damaged(what + " that cannot be read", e);
    }
  }

  /** Takes over {@code body}. Arrow's decoder has counted references to it before some damage stops it. */
  private <T> T decoded(String what, ByteBuffer message, ArrowBuf body, Decoding<T> decoding) {
    try {
      return decoding.decoded(Message.getRootAsMessage(withoutPrefix(message)), body);
    } catch (IOException | RuntimeException e) {
      int references = body.refCnt();
      if (references > 0) {
        body.getReferenceManager().release(references);
      }
      throw damaged(what + " that cannot be read", e);
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
    if (columns == null) {
      throw damaged("an end before the schema", null);
    }
    ByteBuffer totals = frames.readFirst();
    if (totals.remaining() != 2 * Long.BYTES && totals.remaining() != 3 * Long.BYTES) {
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
    rowsOfProvider = totals.hasRemaining() ? totals.getLong() : rows;
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
