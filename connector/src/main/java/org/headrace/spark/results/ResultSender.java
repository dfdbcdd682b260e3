package org.headrace.spark.results;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import org.apache.arrow.memory.OutOfMemoryException;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.arrow.vector.util.OversizedAllocationException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;
import org.headrace.spark.Versions;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.transport.FrameInput;
import org.headrace.spark.transport.FrameOutput;
import org.headrace.spark.transport.PartitionConnection;
import org.headrace.spark.transport.PartitionOrigin;
import org.headrace.spark.transport.Protocol;
import org.headrace.spark.transport.SilenceException;

/**
 * Sends one partition of a query's result as frames; executor JVM, one task's thread.
 *
 * <p>Rows go out in large batches, but never wait for more: before a reader in the same task waits for its source, it
 * lets what there is be sent.
 */
public final class ResultSender {
  private static final int MAX_REASON_CHARS = 4096;
  private static final ThreadLocal<ResultSender> SENDING = new ThreadLocal<>();

  private final Place place;
  private final FrameInput frames;
  private final FrameOutput out;
  private final ResultBatch batch;
  private long rows;
  private long batches;

  private ResultSender(Place place, FrameInput frames, ResultBatch batch) {
    this.place = place;
    this.frames = frames;
    this.out = new FrameOutput(frames);
    this.batch = batch;
  }

  /**
   * Blocks while the caller in Python is slower than this partition.
   *
   * @param limit after so many rows it asks for no more: the next one may never come
   * @return how many rows it sent
   */
  static long send(PartitionOrigin origin, int partition, Schema schema, Iterator<InternalRow> rows, long limit) {
    PartitionConnection connection = open(origin, partition);
    boolean sent = false;
    try (ResultBatch batch = new ResultBatch(schema)) {
      Versions.onInterrupt(TaskContext.get(), connection.frames()::cancel);
      ResultSender sender = new ResultSender(origin.place(partition), connection.frames(), batch);
      SENDING.set(sender);
      sender.sendAll(schema, rows, limit);
      sent = true;
      return sender.rows;
    } finally {
      SENDING.remove();
      if (sent) {
        connection.finish();
      } else {
        connection.abandon("");
      }
    }
  }

  /** Sends what this thread's result has so far; called before the thread waits for a source. */
  public static void sendPending() {
    ResultSender sender = SENDING.get();
    if (sender != null && !sender.batch.isEmpty()) {
      sender.sendBatch();
    }
  }

  private static PartitionConnection open(PartitionOrigin origin, int partition) {
    try {
      return origin.open(partition);
    } catch (IOException e) {
      Place place = origin.place(partition);
      throw HeadraceException.transport(place, "cannot reach the driver's Python process to send " + place + ": " + e);
    }
  }

  private void sendAll(Schema schema, Iterator<InternalRow> source, long limit) {
    try {
      byte[] message = serialized(schema);
      write(Protocol.SCHEMA, message);
      for (long taken = 0; taken < limit && source.hasNext(); taken++) {
        batch.add(source.next());
        if (batch.isFull()) {
          sendBatch();
        }
      }
      sendPending();
    } catch (OutOfMemoryError | OutOfMemoryException | OversizedAllocationException e) {
      HeadraceException tooLarge = tooLarge(e); // as an Error it would end the whole JVM
      tellWhy(tooLarge);
      throw tooLarge;
    } catch (RuntimeException | Error e) {
      tellWhy(e);
      throw e;
    }
    write(Protocol.END, Protocol.totals(rows, batches).array());
    try {
      frames.awaitReceipt();
    } catch (IOException e) {
      throw broken(e);
    }
  }

  private void sendBatch() {
    rows += batch.rows();
    batches++;
    try {
      batch.send(out);
    } catch (IOException e) {
      throw broken(e);
    }
  }

  private void write(int kind, byte[] message) {
    try {
      out.begin(kind, ByteBuffer.wrap(message), 0);
      out.flush();
    } catch (IOException e) {
      throw broken(e);
    }
  }

  private HeadraceException tooLarge(Throwable e) {
    return HeadraceException.transport(
        place,
        String.format(
            "partition %d of the result has rows that do not fit in the memory of this JVM (%s). Select less of them, or"
                + " give Spark more: spark.executor.memory, or spark.driver.memory where Spark runs in the driver",
            place.partition(), e));
  }

  /** The connection broke, or the task was cancelled; what the other side said before it closed is the reason. */
  private RuntimeException broken(IOException e) {
    if (e instanceof InterruptedIOException) {
      return HeadraceException.of("HeadraceError", place, "the query was cancelled while it sent its result");
    }
    if (e instanceof SilenceException) {
      return HeadraceException.transport(
          place,
          "the driver's Python process takes no more of " + place + " and is not heard of: its host, or the network to it,"
              + " is gone (" + e.getMessage() + ")");
    }
    try {
      frames.awaitReceipt();
    } catch (IOException nothingSaid) {
      e.addSuppressed(nothingSaid);
    } catch (HeadraceException refusal) {
      return refusal;
    }
    return HeadraceException.transport(
        place,
        "the driver's Python process reads no more of " + place
            + " (its ResultStream was closed, or another attempt of this task sends it): " + e);
  }

  /** The query failed here: if the task is run again, the other side can say why. Never blocks. */
  private void tellWhy(Throwable error) {
    byte[] message = failure(error).getBytes(StandardCharsets.UTF_8);
    try {
      frames.tryWrite(frames.start(Protocol.ERROR, ByteBuffer.wrap(message), 0));
    } catch (IOException e) {
      error.addSuppressed(e);
    }
  }

  /** What Python said of it, where it came from there; else only a text. */
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

  static byte[] serialized(Schema schema) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try {
      MessageSerializer.serialize(new WriteChannel(Channels.newChannel(bytes)), schema);
    } catch (IOException e) {
      throw new UncheckedIOException(e); // from a stream in memory
    }
    return bytes.toByteArray();
  }
}
