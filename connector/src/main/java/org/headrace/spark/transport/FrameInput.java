package org.headrace.spark.transport;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;

/**
 * The frames of a connection, one after the other: reads them, can stop anywhere and be resumed for draining, and begins
 * those that this side sends; executor JVM. See docs/protocol.md for the format, {@link PeerChannel} for all waiting.
 */
public final class FrameInput {
  private static final int DRAIN_BYTES = 256 << 10;
  private static final int MAX_ANSWER_BYTES = Integer.MAX_VALUE - 64;

  private final Place place;
  private final PeerChannel channel;
  private final long nonce;
  private final ByteBuffer header =
      ByteBuffer.allocateDirect(Protocol.FRAME_HEADER_BYTES).order(ByteOrder.LITTLE_ENDIAN);
  private int kind;
  private int firstLength;
  private long secondLength;
  private long pending;
  private boolean toldWhenRead;
  private boolean distrusted;
  private FrameSeal sending;
  private FrameSeal receiving;

  /** {@code nonce} stands for this side's request: no frame without it is accepted. */
  FrameInput(Place place, PeerChannel channel, long nonce) {
    this.place = place;
    this.channel = channel;
    this.nonce = nonce;
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
    ByteBuffer start = start(Protocol.QUESTION, StandardCharsets.UTF_8.encode(operation + "\n"), second.remaining());
    byte[] tag = sending == null ? new byte[0] : sending.tag(second.duplicate());
    // In one piece: three small ones wake the other side three times, which took half as long again.
    write(ByteBuffer.allocate(start.remaining() + second.remaining() + tag.length).put(start).put(second).put(tag).flip());
    next(Protocol.ANSWER, Protocol.ANSWER);
    readFirst();
    if (secondLength > MAX_ANSWER_BYTES) {
      throw distrust("an answer of " + secondLength + " bytes");
    }
    ByteBuffer answer = ByteBuffer.allocate((int) secondLength + tagBytes());
    read(answer);
    ByteBuffer text = checked(answer.flip());
    return new String(text.array(), text.arrayOffset(), text.remaining(), StandardCharsets.UTF_8); // a plan may be large
  }

  /**
   * Waits for the message with which the other side answers a stream that it has received up to its end. Throws the error
   * that it sent instead.
   */
  public byte[] awaitMessage() throws IOException {
    header.clear().put(channel.awaitWord());
    if (next(Protocol.SCHEMA, Protocol.MESSAGE) == Protocol.ERROR) {
      throw error();
    }
    if (kind != Protocol.MESSAGE || firstLength > Protocol.MAX_MESSAGE_BYTES) {
      throw distrust("a frame of kind " + kind + " and " + firstLength + " bytes instead of a message");
    }
    ByteBuffer message = readFirst();
    byte[] bytes = new byte[message.remaining()];
    message.get(bytes);
    return bytes;
  }

  /** Whether the other side has begun to answer the stream that this one sends: before its end, only an error can come. */
  public boolean isAnswered() throws IOException {
    return channel.hasSpoken();
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

  private void readFully(ByteBuffer target, boolean begun) throws IOException {
    try {
      channel.read(target, begun, toldWhenRead && target == header);
    } catch (PeerChannel.StallException e) {
      throw distrust(
          String.format(
              "a frame of kind %d stopped before its end: %d bytes are missing and none has come for %d ms",
              kind, Math.max(pending, target.remaining()), PeerChannel.stallMillis));
    }
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
    return !distrusted && pending == 0 && header.position() == 0 && isLast() && channel.isQuiet();
  }

  /** Waits until the connection is closed, by this side or the other, which has nothing more to say. */
  void awaitEnd() {
    channel.awaitEnd();
  }

  /** The first part: IPC metadata, totals, a message or an error's JSON. */
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
    return kind == Protocol.END || kind == Protocol.ERROR || kind == Protocol.MESSAGE;
  }

  /** A frame that this side sends, up to its second part. It has to be sent before the next one is made. */
  public ByteBuffer start(int kind, ByteBuffer first, long second) {
    ByteBuffer header = Protocol.frameHeader(kind, 0, first.remaining(), second, nonce);
    byte[] tag = sending == null ? new byte[0] : sending.tag(header, first);
    ByteBuffer start = ByteBuffer.allocate(header.remaining() + first.remaining() + tag.length);
    return start.put(header).put(first).put(tag).flip();
  }

  /** Writes all of it, see {@link PeerChannel#write}. */
  public void write(ByteBuffer bytes) throws IOException {
    channel.write(bytes);
  }

  /** Writes what can be written at once. */
  public void tryWrite(ByteBuffer bytes) throws IOException {
    channel.tryWrite(bytes);
  }

  /** The ERROR frame whose header was just read, as an exception. */
  public HeadraceException error() throws IOException {
    String failure = StandardCharsets.UTF_8.decode(readFirst()).toString();
    HeadraceException received = HeadraceException.received(failure);
    return received == null ? distrust("an error that cannot be read: " + failure) : received;
  }

  /** Makes a thread that waits give up; any thread. */
  public void cancel() {
    channel.cancel();
  }

  /** Sets what is to be done before waiting for the other side. */
  public void beforeWaiting(Runnable action) {
    channel.beforeWaiting(action);
  }

  public long bytesRead() {
    return channel.bytesRead();
  }

  public long waitingNanos() {
    return channel.waitingNanos();
  }
}
