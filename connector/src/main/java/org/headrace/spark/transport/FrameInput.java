package org.headrace.spark.transport;

import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ByteChannel;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.function.BooleanSupplier;
import org.apache.spark.TaskContext;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;
import org.headrace.spark.Versions;

/**
 * Reads frames from a non-blocking channel and can stop anywhere and be resumed for draining; executor JVM.
 *
 * <p>Non-blocking with a selector, because a blocking read that is interrupted closes its channel, and an open
 * channel is needed to stop the Python side gently. See docs/protocol.md for the format.
 */
public final class FrameInput {
  private static final int DRAIN_BYTES = 256 << 10;
  private static final int WRITE_BYTES = 256 << 10;
  private static final int NOTHING = Integer.MIN_VALUE;
  private static final int MAX_ANSWER_BYTES = Integer.MAX_VALUE - 64;

  /** How often a reader that waits looks whether the process at the other end is alive; changed by tests alone. */
  static volatile long lookMillis = 1_000;

  /** How long a frame that has begun may pause; changed by tests alone. */
  static volatile long stallMillis = Protocol.STALL_SECONDS * 1000L;

  private final Place place;
  private final ByteChannel channel;
  private final Selector selector;
  private final SelectionKey key;
  private final long nonce;
  private final BooleanSupplier isAlive;
  private final ByteBuffer header =
      ByteBuffer.allocateDirect(Protocol.FRAME_HEADER_BYTES).order(ByteOrder.LITTLE_ENDIAN);
  private int kind;
  private int firstLength;
  private long secondLength;
  private long pending;
  private long bytesRead;
  private long waitingNanos;
  private Runnable beforeWaiting = () -> {};
  private boolean toldWhenRead;
  private boolean distrusted;
  private boolean signsOfLife;
  private FrameSeal sending;
  private FrameSeal receiving;
  private int said = NOTHING;
  private volatile boolean cancelled;

  /**
   * {@code nonce} stands for this side's request: no frame without it is accepted. {@code isAlive} tells whether the
   * process at the other end is: others may keep its connection open.
   */
  FrameInput(
      Place place, ByteChannel channel, Selector selector, SelectionKey key, long nonce, BooleanSupplier isAlive) {
    this.place = place;
    this.channel = channel;
    this.selector = selector;
    this.key = key;
    this.nonce = nonce;
    this.isAlive = isAlive;
  }

  /** From now on frames have tags, both ways. */
  void seal(FrameSeal sending, FrameSeal receiving) {
    this.sending = sending;
    this.receiving = receiving;
  }

  /**
   * Reads the next frame's header and returns its kind. Of a frame with tags nothing is sure before {@link #readFirst}
   * has returned. Throws EOFException where the stream was cut.
   */
  public int next() throws IOException {
    return next(Protocol.SCHEMA, Protocol.DICTIONARY);
  }

  /**
   * Asks a planner at the other end and returns its answer, both JSON. Throws EOFException where that went away. Waits
   * as long as the planner takes: the system tells of a host that vanished.
   */
  public String ask(String operation, String question) throws IOException {
    ByteBuffer second = ByteBuffer.wrap(question.getBytes(StandardCharsets.UTF_8));
    write(start(Protocol.QUESTION, StandardCharsets.UTF_8.encode(operation + "\n"), second.remaining()));
    write(second.duplicate());
    if (sending != null) {
      write(ByteBuffer.wrap(sending.tag(second)));
    }
    next(Protocol.ANSWER, Protocol.ANSWER);
    readFirst();
    if (secondLength > MAX_ANSWER_BYTES) {
      throw distrust("an answer of " + secondLength + " bytes");
    }
    ByteBuffer answer = ByteBuffer.allocate((int) secondLength + tagBytes());
    read(answer);
    return StandardCharsets.UTF_8.decode(checked(answer.flip())).toString();
  }

  private int next(int least, int most) throws IOException {
    if (distrusted) {
      throw HeadraceException.transport(place, "nothing more is read from this connection");
    }
    if (pending != 0) {
      throw distrust("a frame of kind " + kind + " has " + pending + " bytes more than such a frame has");
    }
    readFully(header, false);
    header.flip();
    kind = header.get() & 0xff;
    int version = header.get() & 0xff;
    int flags = header.getShort();
    firstLength = header.getInt();
    secondLength = header.getLong();
    long found = header.getLong();
    header.clear();
    if (version != Protocol.PROTOCOL_VERSION
        || kind < least
        || kind > most
        || firstLength < 0
        || firstLength > Protocol.MAX_FIRST_BYTES
        || secondLength < 0
        || secondLength > Protocol.MAX_SECOND_BYTES) {
      throw distrust(
          String.format(
              "not a Headrace frame (kind %d, version %d, lengths %d and %d)",
              kind, version, firstLength, secondLength));
    }
    if (found != nonce) {
      throw distrust(
          String.format(
              "a frame of another request (kind %d, nonce %016x, expected %016x): something else than Headrace wrote"
                  + " to this connection", kind, found, nonce));
    }
    if (kind == Protocol.SCHEMA) {
      toldWhenRead = flags == Protocol.TOLD_WHEN_READ;
    }
    pending = firstLength + tagBytes() + secondLength + (kind == Protocol.ANSWER ? tagBytes() : 0);
    return kind;
  }

  /** What came is not what Python's half sends: nothing that follows is believed. Returns what to throw. */
  public HeadraceException distrust(String why) {
    distrusted = true;
    return HeadraceException.transport(place, why);
  }

  Place place() {
    return place;
  }

  boolean isDistrusted() {
    return distrusted;
  }

  /** Whether the other side can be asked again: its last frame was read, and nothing but it came. */
  boolean isReusable() throws IOException {
    return !distrusted && pending == 0 && header.position() == 0 && isLast() && isQuiet();
  }

  /** Whether there is nothing to be read, not even the end of the connection. */
  boolean isQuiet() throws IOException {
    return channel.read(ByteBuffer.allocate(1)) == 0;
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

  /** The first part: IPC metadata, totals or an error's JSON. */
  public ByteBuffer readFirst() throws IOException {
    ByteBuffer first = ByteBuffer.allocate(firstLength + tagBytes()).order(ByteOrder.LITTLE_ENDIAN);
    read(first);
    return checked(first.flip(), header.duplicate());
  }

  /** {@code received} without its tag, which is over {@code before}, too. */
  private ByteBuffer checked(ByteBuffer received, ByteBuffer... before) {
    ByteBuffer tag = received.duplicate().position(received.limit() - tagBytes());
    received.limit(tag.position());
    ByteBuffer[] parts = Arrays.copyOf(before, before.length + 1);
    parts[before.length] = received;
    if (receiving != null && !receiving.matches(tag, parts)) {
      throw distrust("a frame was changed, lost, repeated or added on its way: its tag is wrong");
    }
    return received;
  }

  private int tagBytes() {
    return receiving == null ? 0 : Protocol.TAG_BYTES;
  }

  public long secondLength() {
    return secondLength;
  }

  /** Fills {@code target} with the next bytes of the frame. */
  public void read(ByteBuffer target) throws IOException {
    int wanted = target.remaining();
    try {
      readFully(target, true);
    } finally {
      pending -= wanted - target.remaining();
    }
  }

  /** Reads and drops everything up to and including the END or ERROR frame, wherever reading stopped before. */
  void drain() throws IOException {
    ByteBuffer scratch = ByteBuffer.allocateDirect(DRAIN_BYTES);
    if (!distrusted && header.position() == 0 && pending == 0 && isLast()) {
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
    return kind == Protocol.END || kind == Protocol.ERROR;
  }

  /** A frame that this side sends, up to its second part. It has to be sent before the next one is made. */
  public ByteBuffer start(int kind, ByteBuffer first, long second) {
    ByteBuffer header = Protocol.frameHeader(kind, 0, first.remaining(), second, nonce);
    byte[] tag = sending == null ? new byte[0] : sending.tag(header, first);
    ByteBuffer start = ByteBuffer.allocate(header.remaining() + first.remaining() + tag.length);
    return start.put(header).put(first).put(tag).flip();
  }

  /** Has to be called where the other side may vanish without a word, and says ALIVE while it takes nothing. */
  void expectSignsOfLife() {
    signsOfLife = true;
  }

  /** Writes all, however long the other side takes to read it, as long as it gives signs of life. */
  public void write(ByteBuffer bytes) throws IOException {
    if (!signsOfLife) {
      write(bytes, 0);
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

  /** Takes in what was said meanwhile; true if any of it was a sign of life. What is none is kept for awaitReceipt. */
  private boolean hears() throws IOException {
    ByteBuffer one = ByteBuffer.allocate(1);
    boolean heard = false;
    while (said == NOTHING) {
      int count = channel.read(one.clear());
      if (count < 0) {
        throw new EOFException();
      }
      if (count == 0) {
        return heard;
      }
      heard = true;
      if (one.get(0) != Protocol.ALIVE) {
        said = one.get(0);
      }
    }
    return heard;
  }

  private void awaitSign(int operation, long heard) throws IOException {
    long left = Protocol.SILENCE_SECONDS * 1000L - (System.nanoTime() - heard) / 1_000_000;
    if (left <= 0) {
      throw new SilenceException();
    }
    await(said == NOTHING ? operation | SelectionKey.OP_READ : operation, left);
  }

  /** Writes to a side that has nothing else to do than to read it. */
  void writeRequest(ByteBuffer bytes) throws IOException {
    write(bytes, stallMillis);
  }

  /** Writes in slices: the JDK copies a heap buffer whole for every attempt, however little the socket takes. */
  private void write(ByteBuffer bytes, long timeoutMillis) throws IOException {
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
    long heard = System.nanoTime();
    while (signsOfLife && said == NOTHING) {
      if (hears()) {
        heard = System.nanoTime();
      } else {
        awaitSign(SelectionKey.OP_READ, heard);
      }
    }
    if (said == NOTHING) {
      ByteBuffer first = ByteBuffer.allocate(1);
      readFully(first, false);
      said = first.get(0);
    }
    byte first = (byte) said;
    said = NOTHING;
    if (first == Protocol.RECEIPT) {
      return;
    }
    header.clear().put(first);
    if (next() != Protocol.ERROR) {
      throw distrust("a frame of kind " + kind + " instead of a receipt");
    }
    throw error();
  }

  /** The ERROR frame whose header was just read, as an exception. */
  public HeadraceException error() throws IOException {
    String failure = StandardCharsets.UTF_8.decode(readFirst()).toString();
    HeadraceException received = HeadraceException.received(failure);
    return received == null ? distrust("an error that cannot be read: " + failure) : received;
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

  /** {@code begun}: it is part of a frame, whose other parts have come. */
  private void readFully(ByteBuffer target, boolean begun) throws IOException {
    long quietSince = 0;
    while (target.hasRemaining()) {
      int count = channel.read(target);
      if (count < 0) {
        throw new EOFException();
      }
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
          throw distrust(
              String.format(
                  "a frame of kind %d stopped before its end: %d bytes are missing and none has come for %d ms",
                  kind, Math.max(pending, target.remaining()), stallMillis));
        }
        await(SelectionKey.OP_READ, left);
      } else {
        if (toldWhenRead && target == header) {
          ask();
        }
        await(SelectionKey.OP_READ, 0);
      }
    }
  }

  private void ask() {
    try {
      channel.write(ByteBuffer.wrap(new byte[] {Protocol.ASKING}));
    } catch (IOException e) {
      // The other side has sent its last frame and closed, or broke off: reading on tells which.
      return;
    }
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
