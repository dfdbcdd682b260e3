package org.headrace.spark.transport;

import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ByteChannel;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.charset.StandardCharsets;
import org.apache.spark.TaskContext;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;
import org.headrace.spark.Versions;
import org.headrace.spark.planner.Planners;

/**
 * Reads frames from a non-blocking channel and can stop anywhere and be resumed for draining; executor JVM.
 *
 * <p>Non-blocking with a selector, because a blocking read that is interrupted closes its channel, and an open
 * channel is needed to stop the Python side gently. See headrace/transport/frames.py for the format.
 */
public final class FrameInput {
  public static final int PROTOCOL_VERSION = 1;
  public static final int SCHEMA = 1;
  public static final int BATCH = 2;
  public static final int END = 3;
  public static final int ERROR = 4;
  private static final byte RECEIPT = 1;
  private static final byte ASKING = 0;
  private static final int TOLD_WHEN_READ = 1;
  private static final long MAX_METADATA_BYTES = 256L << 20;
  private static final long MAX_BODY_BYTES = 64L << 30;
  private static final int DRAIN_BYTES = 256 << 10;
  private static final int WRITE_BYTES = 256 << 10;

  private final Place place;
  private final ByteChannel channel;
  private final Selector selector;
  private final SelectionKey key;
  private final ByteBuffer header = ByteBuffer.allocateDirect(16).order(ByteOrder.LITTLE_ENDIAN);
  private int kind;
  private int firstLength;
  private long secondLength;
  private long pending;
  private long bytesRead;
  private long waitingNanos;
  private Runnable beforeWaiting = () -> {};
  private boolean toldWhenRead;
  private volatile boolean cancelled;

  FrameInput(Place place, ByteChannel channel, Selector selector, SelectionKey key) {
    this.place = place;
    this.channel = channel;
    this.selector = selector;
    this.key = key;
  }

  /** Reads the next frame's header and returns its kind. Throws EOFException where the stream was cut. */
  public int next() throws IOException {
    if (pending != 0) {
      throw HeadraceException.transport(
          place, "a frame of kind " + kind + " has " + pending + " bytes more than such a frame has");
    }
    readFully(header);
    header.flip();
    kind = header.get() & 0xff;
    int version = header.get() & 0xff;
    int flags = header.getShort();
    firstLength = header.getInt();
    secondLength = header.getLong();
    header.clear();
    if (version != PROTOCOL_VERSION
        || kind < SCHEMA
        || kind > ERROR
        || firstLength < 0
        || firstLength > MAX_METADATA_BYTES
        || secondLength < 0
        || secondLength > MAX_BODY_BYTES) {
      throw HeadraceException.transport(
          place,
          String.format(
              "not a Headrace frame (kind %d, version %d, lengths %d and %d)",
              kind, version, firstLength, secondLength));
    }
    if (kind == SCHEMA) {
      toldWhenRead = flags == TOLD_WHEN_READ;
    }
    pending = firstLength + secondLength;
    return kind;
  }

  /** The first part: IPC metadata, totals or an error's JSON. */
  public ByteBuffer readFirst() throws IOException {
    ByteBuffer first = ByteBuffer.allocate(firstLength).order(ByteOrder.LITTLE_ENDIAN);
    read(first);
    return first.flip();
  }

  public long secondLength() {
    return secondLength;
  }

  /** Fills {@code target} with the next bytes of the frame. */
  public void read(ByteBuffer target) throws IOException {
    int wanted = target.remaining();
    try {
      readFully(target);
    } finally {
      pending -= wanted - target.remaining();
    }
  }

  /** Reads and drops everything up to and including the END or ERROR frame, wherever reading stopped before. */
  void drain() throws IOException {
    ByteBuffer scratch = ByteBuffer.allocateDirect(DRAIN_BYTES);
    if (header.position() == 0 && pending == 0 && isLast()) {
      return;
    }
    boolean inFrame = pending > 0;
    while (true) {
      if (!inFrame) {
        next();
      }
      while (pending > 0) {
        scratch.clear().limit((int) Math.min(scratch.capacity(), pending));
        read(scratch);
      }
      if (isLast()) {
        return;
      }
      inFrame = false;
    }
  }

  private boolean isLast() {
    return kind == END || kind == ERROR;
  }

  /** Writes in slices: the JDK copies a heap buffer whole for every attempt, however little the socket takes. */
  public void write(ByteBuffer bytes) throws IOException {
    int end = bytes.limit();
    while (bytes.position() < end) {
      bytes.limit(Math.min(end, bytes.position() + WRITE_BYTES));
      if (channel.write(bytes) == 0) {
        await(SelectionKey.OP_WRITE, 0);
      }
    }
  }

  /** Writes what can be written at once. */
  public void tryWrite(ByteBuffer bytes) throws IOException {
    channel.write(bytes);
  }

  /** Reads handshake bytes, which come before any frame. */
  void readHandshake(ByteBuffer target, long timeoutMillis) throws IOException {
    long deadline = System.nanoTime() + timeoutMillis * 1_000_000;
    while (target.hasRemaining()) {
      int count = channel.read(target);
      if (count < 0) {
        throw new EOFException();
      }
      if (count == 0) {
        long left = (deadline - System.nanoTime()) / 1_000_000;
        if (left <= 0) {
          throw new IOException("no answer to the handshake within " + timeoutMillis + " ms");
        }
        await(SelectionKey.OP_READ, left);
      }
    }
  }

  /**
   * Waits for the one byte with which the other side says that it has received everything. Throws what it sent
   * instead, if that is an error.
   */
  public void awaitReceipt() throws IOException {
    ByteBuffer first = ByteBuffer.allocate(1);
    readFully(first);
    if (first.get(0) == RECEIPT) {
      return;
    }
    header.clear().put(first.get(0));
    if (next() != ERROR) {
      throw HeadraceException.transport(place, "a frame of kind " + kind + " instead of a receipt");
    }
    throw error();
  }

  /** The ERROR frame whose header was just read, as an exception. */
  public HeadraceException error() throws IOException {
    return HeadraceException.received(place, StandardCharsets.UTF_8.decode(readFirst()).toString());
  }

  /** Sets what is to be done before waiting for the other side. */
  public void beforeWaiting(Runnable action) {
    beforeWaiting = action;
  }

  /** Makes a reader that waits give up; any thread. */
  public void cancel() {
    cancelled = true;
    selector.wakeup();
  }

  /** Lets {@link #drain} run after a cancel. */
  void resume() {
    cancelled = false;
  }

  public long bytesRead() {
    return bytesRead;
  }

  public long waitingNanos() {
    return waitingNanos;
  }

  private void readFully(ByteBuffer target) throws IOException {
    while (target.hasRemaining()) {
      int count = channel.read(target);
      if (count < 0) {
        throw new EOFException();
      }
      bytesRead += count;
      if (count == 0) {
        beforeWaiting.run();
        if (toldWhenRead && target == header && header.position() == 0) {
          ask();
        }
        await(SelectionKey.OP_READ, 0);
      }
    }
  }

  private void ask() {
    try {
      channel.write(ByteBuffer.wrap(new byte[] {ASKING}));
    } catch (IOException e) {
      // The other side has sent its last frame and closed, or broke off: reading on tells which.
      return;
    }
  }

  /** Returns when the channel may be ready or the time is up; 0 is no limit. Throws if the task was killed. */
  private void await(int operation, long timeoutMillis) throws IOException {
    TaskContext task = TaskContext.get();
    long look = task == null ? 0 : Versions.longestWaitMillis();
    if (look == 0 || (timeoutMillis > 0 && timeoutMillis <= look)) {
      select(operation, timeoutMillis, task);
      return;
    }
    long deadline = System.nanoTime() + timeoutMillis * 1_000_000;
    while (!select(operation, look, task) && (timeoutMillis == 0 || System.nanoTime() < deadline)) {
      continue;
    }
  }

  private boolean select(int operation, long timeoutMillis, TaskContext task) throws IOException {
    long start = System.nanoTime();
    boolean ready;
    try {
      key.interestOps(operation);
      ready = selector.select(timeoutMillis) > 0;
      selector.selectedKeys().clear();
    } catch (ClosedSelectorException | java.nio.channels.CancelledKeyException e) {
      throw new EOFException();
    } finally {
      waitingNanos += System.nanoTime() - start;
    }
    if (task != null) {
      task.killTaskIfInterrupted();
    }
    if (cancelled || Thread.currentThread().isInterrupted()) {
      throw new InterruptedIOException("the task was cancelled while it waited for the provider");
    }
    return ready;
  }
}
