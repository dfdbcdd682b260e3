package org.headrace.spark.transport;

import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.function.BooleanSupplier;
import org.apache.spark.TaskContext;
import org.headrace.spark.Versions;

/**
 * The bytes of a connection and every wait for them: one ends when the task is killed, when the process at the other end is
 * gone, or when that is silent for too long; executor JVM, one task's thread.
 *
 * <p>Non-blocking with a selector, because a blocking read that is interrupted closes its channel, and an open
 * channel is needed to stop the Python side gently.
 */
final class PeerChannel {
  private static final int WRITE_BYTES = 256 << 10;
  private static final int NOTHING = Integer.MIN_VALUE;

  /** How often a reader that waits looks whether the process at the other end is alive; changed by tests alone. */
  static volatile long lookMillis = 1_000;

  /** How long a frame that has begun may pause; changed by tests alone. */
  static volatile long stallMillis = Protocol.STALL_SECONDS * 1000L;

  /** How long the other side may be silent where it has to give signs of life; changed by tests alone. */
  static volatile long silenceMillis = Protocol.SILENCE_SECONDS * 1000L;

  private final ByteChannel channel;
  private final Selector selector;
  private final SelectionKey key;
  private final BooleanSupplier isAlive;
  private long bytesRead;
  private long waitingNanos;
  private Runnable beforeWaiting = () -> {};
  private boolean signsOfLife;
  private int said = NOTHING;
  private volatile boolean cancelled;

  /** {@code isAlive} tells whether the process at the other end is: others may keep its connection open. */
  PeerChannel(ByteChannel channel, Selector selector, SelectionKey key, BooleanSupplier isAlive) {
    this.channel = channel;
    this.selector = selector;
    this.key = key;
    this.isAlive = isAlive;
  }

  /** No byte of a frame that has begun has come for {@link #stallMillis}. */
  static final class StallException extends IOException {
    private static final long serialVersionUID = 1L;
  }

  /**
   * Fills {@code target}. {@code begun}: it is part of a frame, whose other parts have come. {@code asks}: the other side
   * is told when this one begins to wait.
   */
  void read(ByteBuffer target, boolean begun, boolean asks) throws IOException {
    long quietSince = 0;
    while (target.hasRemaining()) {
      int count = readOnce(target);
      bytesRead += count;
      if (count > 0) {
        quietSince = 0;
        continue;
      }
      beforeWaiting.run();
      if (begun || target.position() > 0) {
        long now = System.nanoTime();
        quietSince = quietSince == 0 ? now : quietSince;
        long left = stallMillis - (now - quietSince) / 1_000_000;
        if (left <= 0) {
          throw new StallException();
        }
        await(SelectionKey.OP_READ, left);
      } else {
        if (asks) {
          ask();
        }
        await(SelectionKey.OP_READ, 0);
      }
    }
  }

  private int readOnce(ByteBuffer target) throws IOException {
    int count = channel.read(target);
    if (count < 0) {
      throw new EOFException();
    }
    return count;
  }

  private void ask() {
    try {
      channel.write(ByteBuffer.wrap(new byte[] {Protocol.ASKING}));
    } catch (IOException e) {
      // The other side has sent its last frame and closed, or broke off: reading on tells which.
      return;
    }
  }

  /** Fills {@code target} within a time, before any frame. */
  void readWithin(ByteBuffer target, long timeoutMillis) throws IOException {
    long deadline = System.nanoTime() + timeoutMillis * 1_000_000;
    while (target.hasRemaining()) {
      if (readOnce(target) == 0) {
        long left = (deadline - System.nanoTime()) / 1_000_000;
        if (left <= 0) {
          throw new IOException("no answer to the handshake within " + timeoutMillis + " ms");
        }
        await(SelectionKey.OP_READ, left);
      }
    }
  }

  /** Whether there is nothing to be read, not even the end of the connection. */
  boolean isQuiet() throws IOException {
    return said == NOTHING && channel.read(ByteBuffer.allocate(1)) == 0;
  }

  /** Waits until the connection is closed, by this side or the other, which has nothing more to say. */
  void awaitEnd() {
    try {
      key.interestOps(SelectionKey.OP_READ);
      while (isQuiet()) {
        selector.select();
        selector.selectedKeys().clear();
      }
    } catch (IOException | CancelledKeyException | ClosedSelectorException e) {
      return; // closed
    }
  }

  /** Has to be called where the other side may vanish without a word, and says ALIVE while it takes nothing. */
  void expectSignsOfLife() {
    signsOfLife = true;
  }

  /** Writes all, however long the other side takes to read it, as long as it gives signs of life where it has to. */
  void write(ByteBuffer bytes) throws IOException {
    if (!signsOfLife) {
      writeWithin(bytes, 0);
      return;
    }
    int end = bytes.limit();
    long heard = System.nanoTime();
    while (bytes.position() < end) {
      bytes.limit(Math.min(end, bytes.position() + WRITE_BYTES));
      if (channel.write(bytes) > 0 || hears()) {
        heard = System.nanoTime();
      } else {
        awaitSign(SelectionKey.OP_WRITE, heard);
      }
    }
  }

  /**
   * Writes all. Throws where the other side reads nothing for so long; 0 is no limit. Writes slices, because the JDK copies
   * a heap buffer whole for every attempt, however little the socket takes.
   */
  void writeWithin(ByteBuffer bytes, long timeoutMillis) throws IOException {
    int end = bytes.limit();
    long quietSince = System.nanoTime();
    while (bytes.position() < end) {
      bytes.limit(Math.min(end, bytes.position() + WRITE_BYTES));
      if (channel.write(bytes) > 0) {
        quietSince = System.nanoTime();
        continue;
      }
      long left = timeoutMillis == 0 ? 0 : timeoutMillis - (System.nanoTime() - quietSince) / 1_000_000;
      if (left < 0 || timeoutMillis > 0 && left == 0) {
        throw new IOException("the other side has read nothing for " + timeoutMillis + " ms");
      }
      await(SelectionKey.OP_WRITE, left);
    }
  }

  /** Writes what can be written at once. */
  void tryWrite(ByteBuffer bytes) throws IOException {
    channel.write(bytes);
  }

  /** Whether a side that is sent a stream has begun to answer. Never waits. */
  boolean hasSpoken() throws IOException {
    hears();
    return said != NOTHING;
  }

  /** Waits for the first byte with which the other side answers a stream, and takes it. */
  byte awaitWord() throws IOException {
    long heard = System.nanoTime();
    while (said == NOTHING) {
      if (hears()) {
        heard = System.nanoTime();
      } else if (signsOfLife) {
        awaitSign(SelectionKey.OP_READ, heard);
      } else {
        await(SelectionKey.OP_READ, 0);
      }
    }
    byte word = (byte) said;
    said = NOTHING;
    return word;
  }

  /** Takes in what was said meanwhile; true if there was something. A byte that is no mere sign of life is kept. */
  private boolean hears() throws IOException {
    ByteBuffer one = ByteBuffer.allocate(1);
    boolean heard = false;
    while (said == NOTHING && readOnce(one.clear()) > 0) {
      heard = true;
      if (!signsOfLife || one.get(0) != Protocol.ALIVE) {
        said = one.get(0);
      }
    }
    return heard;
  }

  private void awaitSign(int operation, long heard) throws IOException {
    long left = silenceMillis - (System.nanoTime() - heard) / 1_000_000;
    if (left <= 0) {
      throw new SilenceException();
    }
    await(said == NOTHING ? operation | SelectionKey.OP_READ : operation, left);
  }

  /**
   * Has closing reset the connection, so that the other side learns of it at once. Over TCP an orderly end comes behind all
   * that was written, and a busy side does not read that.
   */
  static void resetWhenClosed(SocketChannel channel) {
    try {
      if (channel.supportedOptions().contains(StandardSocketOptions.SO_LINGER)) {
        channel.setOption(StandardSocketOptions.SO_LINGER, 0);
      }
    } catch (IOException | UnsupportedOperationException e) {
      return; // it is closed already, or a Unix socket, where the end is seen at once
    }
  }

  /** Sets what is to be done before waiting for the other side's frames. */
  void beforeWaiting(Runnable action) {
    beforeWaiting = action;
  }

  /** Makes a thread that waits give up; any thread. */
  void cancel() {
    cancelled = true;
    selector.wakeup();
  }

  /** Lets the connection be used after a cancel. */
  void resume() {
    cancelled = false;
  }

  long bytesRead() {
    return bytesRead;
  }

  long waitingNanos() {
    return waitingNanos;
  }

  /**
   * Returns when the channel may be ready or the time is up; 0 is no limit. Throws if the task was killed, and
   * EOFException if the process at the other end has ended. What that wrote last is given another moment to arrive.
   */
  private void await(int operation, long timeoutMillis) throws IOException {
    TaskContext task = TaskContext.get();
    long untilKilled = task == null ? 0 : Versions.longestWaitMillis();
    long look = untilKilled == 0 ? lookMillis : untilKilled;
    long start = System.nanoTime();
    long left = timeoutMillis;
    boolean ended = false;
    while (!select(operation, timeoutMillis == 0 ? look : Math.min(look, left), task)) {
      left = timeoutMillis - (System.nanoTime() - start) / 1_000_000;
      if (timeoutMillis > 0 && left <= 0) {
        return;
      }
      if (ended) {
        throw new EOFException();
      }
      ended = !isAlive.getAsBoolean();
    }
  }

  private boolean select(int operation, long timeoutMillis, TaskContext task) throws IOException {
    long start = System.nanoTime();
    boolean ready;
    try {
      key.interestOps(operation);
      ready = selector.select(timeoutMillis) > 0;
      selector.selectedKeys().clear();
    } catch (ClosedSelectorException | CancelledKeyException e) {
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
