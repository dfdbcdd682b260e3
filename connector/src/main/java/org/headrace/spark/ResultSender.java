package org.headrace.spark;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.util.Iterator;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskInterruptListener;

/** Sends one partition of a query's result as frames; executor JVM (driver JVM for a small LIMIT). */
final class ResultSender {
  private static final int HEADER_BYTES = 16;

  private ResultSender() {}

  /** Blocks while the caller in Python is slower than this partition. */
  static void send(PartitionOrigin origin, int partition, Schema schema, Iterator<byte[]> batches) {
    PartitionConnection connection = null;
    boolean sent = false;
    try {
      connection = origin.open(partition);
      FrameInput frames = connection.frames();
      TaskContext task = TaskContext.get();
      if (task != null) {
        TaskInterruptListener giveUp = (context, reason) -> frames.cancel();
        task.addTaskInterruptListener(giveUp);
      }
      byte[] message = serialized(schema);
      write(frames, FrameInput.SCHEMA, message, message.length);
      long count = 0;
      while (batches.hasNext()) {
        byte[] batch = batches.next();
        int metadata = 8 + ByteBuffer.wrap(batch).order(ByteOrder.LITTLE_ENDIAN).getInt(4);
        write(frames, FrameInput.BATCH, batch, metadata);
        count++;
      }
      ByteBuffer totals = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN).putLong(0).putLong(count);
      write(frames, FrameInput.END, totals.array(), 16);
      frames.awaitReceipt();
      sent = true;
    } catch (java.io.InterruptedIOException e) {
      throw new HeadraceException("the query was cancelled while it sent its result", null);
    } catch (IOException e) {
      throw new HeadraceException(
          "TransportError: the driver's Python process reads no more of partition " + partition
              + " of the result (its ResultStream was closed, or this task had sent part of it before): " + e, null);
    } finally {
      if (connection != null) {
        if (sent) {
          connection.finish();
        } else {
          connection.abandon("");
        }
      }
    }
  }

  private static void write(FrameInput frames, int kind, byte[] message, int first) throws IOException {
    ByteBuffer header = ByteBuffer.allocate(HEADER_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    header.put((byte) kind).put((byte) FrameInput.PROTOCOL_VERSION).putShort((short) 0);
    header.putInt(first).putLong((long) message.length - first).flip();
    frames.write(header);
    frames.write(ByteBuffer.wrap(message));
  }

  static byte[] serialized(Schema schema) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    MessageSerializer.serialize(new WriteChannel(Channels.newChannel(bytes)), schema);
    return bytes.toByteArray();
  }
}
