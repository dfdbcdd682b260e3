package org.headrace.spark.send;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.IpcOption;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.TaskContext;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;
import org.headrace.spark.Versions;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.transport.FrameOutput;
import org.headrace.spark.transport.PartitionConnection;
import org.headrace.spark.transport.PartitionOrigin;
import org.headrace.spark.transport.Protocol;
import org.headrace.spark.transport.SilenceException;

/**
 * Sends one partition's batches to a Python worker or the driver's Python process, and waits for its message; executor
 * JVM, one task's thread.
 *
 * <p>Blocks while the other side is slower than this partition. Every failure is a HeadraceException: the other side's own
 * where that says why.
 */
public final class BatchSender implements AutoCloseable {
  private static final int MAX_REASON_CHARS = 4096;
  private static final int IPC_CONTINUATION = -1;

  private final Place place;
  private final PartitionConnection connection;
  private final FrameOutput out;
  private long rows;
  private long batches;
  private long bytes;
  private boolean left;

  private BatchSender(Place place, PartitionConnection connection) {
    this.place = place;
    this.connection = connection;
    this.out = new FrameOutput(connection.frames());
  }

  /** Opens the partition and sends the schema. */
  public static BatchSender open(PartitionOrigin origin, int partition, Schema schema) {
    BatchSender sender = new BatchSender(origin.place(partition), origin.openToSend(partition));
    boolean begun = false;
    try {
      TaskContext task = TaskContext.get();
      if (task != null) {
        Versions.onInterrupt(task, sender.connection.frames()::cancel);
      }
      sender.write(Protocol.SCHEMA, ByteBuffer.wrap(serialized(schema)));
      begun = true;
    } finally {
      if (!begun) {
        sender.close();
      }
    }
    return sender;
  }

  /** Sends a batch from where it lies in memory. Throws the error of the other side if that has failed meanwhile. */
  public void send(ArrowRecordBatch batch) {
    try {
      if (connection.frames().isAnswered()) {
        connection.frames().awaitMessage();
        throw connection.frames().distrust(place + " was answered before its end");
      }
      ByteBuffer metadata = MessageSerializer.serializeMetadata(batch, IpcOption.DEFAULT);
      int padded = (metadata.remaining() + 7) / 8 * 8;
      ByteBuffer message = ByteBuffer.allocate(8 + padded).order(ByteOrder.LITTLE_ENDIAN);
      message.putInt(IPC_CONTINUATION).putInt(padded).put(metadata).rewind();
      long body = batch.computeBodyLength();
      out.begin(Protocol.BATCH, message, body);
      MessageSerializer.writeBatchBuffers(new WriteChannel(out), batch);
      out.flush();
      bytes += message.limit() + body;
    } catch (IOException e) {
      throw broken(e);
    }
    rows += batch.getLength();
    batches++;
  }

  /** All batches were sent: waits until the other side has dealt with them, and returns its message. */
  public byte[] end() {
    write(Protocol.END, Protocol.totals(rows, batches));
    try {
      byte[] message = connection.frames().awaitMessage();
      left = true;
      connection.finish();
      return message;
    } catch (IOException e) {
      throw broken(e);
    }
  }

  /** The rows end here because of {@code error}, which the other side is told. Never blocks. */
  public void fail(Throwable error) {
    byte[] message = failure(error).getBytes(StandardCharsets.UTF_8);
    try {
      connection.frames().tryWrite(connection.frames().start(Protocol.ERROR, ByteBuffer.wrap(message), 0));
    } catch (IOException e) {
      error.addSuppressed(e);
    }
  }

  public long rows() {
    return rows;
  }

  public long batches() {
    return batches;
  }

  /** Of the batches' messages. */
  public long bytes() {
    return bytes;
  }

  /** Breaks off what has not come to its end; the other side's code is stopped. Idempotent. */
  @Override
  public void close() {
    if (!left) {
      left = true;
      connection.abandon("");
    }
  }

  private void write(int kind, ByteBuffer message) {
    try {
      out.begin(kind, message, 0);
      out.flush();
    } catch (IOException e) {
      throw broken(e);
    }
  }

  /** The connection broke, or the task was cancelled; what the other side said before it closed is the reason. */
  private RuntimeException broken(IOException e) {
    if (e instanceof InterruptedIOException) {
      return HeadraceException.of("HeadraceError", place, "the query was cancelled while it sent " + place);
    }
    if (e instanceof SilenceException) {
      return HeadraceException.transport(
          place,
          "the driver's Python process takes no more of " + place + " and is not heard of: its host, or the network to it,"
              + " is gone (" + e.getMessage() + ")");
    }
    try {
      connection.frames().awaitMessage();
    } catch (IOException nothingSaid) {
      e.addSuppressed(nothingSaid);
    } catch (HeadraceException refusal) {
      return refusal;
    }
    left = true;
    return connection.lost();
  }

  /** The JSON of an ERROR frame: Python's own record of an error that came from there, else a text. */
  private static String failure(Throwable error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof HeadraceException own && own.failure() != null) {
        return own.failure();
      }
    }
    String text = String.valueOf(error);
    String clipped = text.length() > MAX_REASON_CHARS ? text.substring(0, MAX_REASON_CHARS) + "..." : text;
    return Planners.JSON.createObjectNode().put("text", clipped).toString();
  }

  /** The schema as an IPC message. */
  public static byte[] serialized(Schema schema) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try {
      MessageSerializer.serialize(new WriteChannel(Channels.newChannel(bytes)), schema);
    } catch (IOException e) {
      throw new UncheckedIOException(e); // from a stream in memory
    }
    return bytes.toByteArray();
  }
}
