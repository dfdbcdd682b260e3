package org.headrace.spark.transport;

import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.InetSocketAddress;
import java.net.SocketOption;
import java.net.SocketTimeoutException;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ByteChannel;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Set;
import jdk.net.ExtendedSocketOptions;
import org.apache.spark.TaskContext;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;

/**
 * A partition served by the endpoint in the driver's Python process; executor JVM.
 *
 * <p>The endpoint opens with a random challenge; the answer names ticket and partition and proves the session's
 * secret over both, so it cannot be replayed. The endpoint proves the same before it sends anything else, so that nobody
 * else is believed or sent rows. From then on the frames have tags, keyed by that handshake. Closing the connection is how the producer is told to stop.
 */
final class EndpointConnection implements PartitionConnection {
  private static final int SEND_BUFFER_BYTES = 1 << 20;
  private static final SecureRandom RANDOM = new SecureRandom();
  private static final int CONNECT_MILLIS = Protocol.CONNECT_SECONDS * 1000;
  private static final int KEEPALIVE_IDLE_SECONDS = 10;
  private static final int KEEPALIVE_INTERVAL_SECONDS = 5;
  private static final int KEEPALIVE_PROBES = 3;
  private static final long FIRST_PAUSE_MILLIS = 50;
  private static final long LONGEST_PAUSE_MILLIS = 1_000;

  private final Place place;
  private final SocketChannel channel;
  private final Selector selector;
  private final PeerChannel peer;
  private final FrameInput frames;
  private final boolean sends;

  private EndpointConnection(Place place, SocketChannel channel, byte[] certificate, long nonce, boolean sends)
      throws IOException {
    this.place = place;
    this.sends = sends;
    this.channel = channel;
    channel.setOption(StandardSocketOptions.SO_SNDBUF, SEND_BUFFER_BYTES);
    channel.configureBlocking(false);
    this.selector = Selector.open();
    SelectionKey key = channel.register(selector, SelectionKey.OP_READ);
    boolean remote = !(channel.getRemoteAddress() instanceof UnixDomainSocketAddress);
    ByteChannel bytes = remote && certificate.length > 0 ? new TlsChannel(channel, certificate) : channel;
    this.peer = new PeerChannel(bytes, selector, key, () -> true);
    this.frames = new FrameInput(place, peer, nonce);
    if (remote) {
      peer.expectSignsOfLife();
    }
  }

  static EndpointConnection open(
      Place place,
      String socketPath,
      String host,
      int port,
      byte[] secret,
      byte[] ticket,
      byte[] certificate,
      boolean sends)
      throws IOException {
    SocketChannel channel = connect(place, socketPath, host, port);
    EndpointConnection connection = null;
    boolean open = false;
    try {
      long nonce = RANDOM.nextLong();
      connection = new EndpointConnection(place, channel, certificate, nonce, sends);
      ByteBuffer greeting = ByteBuffer.allocate(Protocol.GREETING_BYTES).order(ByteOrder.LITTLE_ENDIAN);
      connection.peer.readWithin(greeting, CONNECT_MILLIS);
      check(place, greeting.getInt(0), greeting.getInt(4));
      byte[] claim = claim(greeting.array(), secret, ticket, place.partition(), nonce);
      connection.peer.write(ByteBuffer.wrap(claim));
      ByteBuffer answer = ByteBuffer.allocate(Protocol.PROOF_BYTES);
      connection.peer.readWithin(answer, CONNECT_MILLIS);
      if (!MessageDigest.isEqual(answer.array(), Protocol.answer(greeting.array(), secret, claim))) {
        throw HeadraceException.transport(
            place, "what listens at the address of the driver's Python process does not know this session's secret");
      }
      connection.frames.seal(
          new FrameSeal(Protocol.tagKey(Protocol.TO_ENDPOINT, greeting.array(), secret, claim)),
          new FrameSeal(Protocol.tagKey(Protocol.FROM_ENDPOINT, greeting.array(), secret, claim)));
      open = true;
    } catch (EOFException e) {
      throw HeadraceException.transport(
          place, "the driver's Python process closed the connection during the handshake");
    } finally {
      if (!open) {
        if (connection == null) {
          channel.close();
        } else {
          connection.close();
        }
      }
    }
    return connection;
  }

  private static SocketChannel connect(Place place, String socketPath, String host, int port) throws IOException {
    try {
      if (!socketPath.isEmpty() && Files.exists(Path.of(socketPath))) {
        return SocketChannel.open(UnixDomainSocketAddress.of(socketPath));
      }
      if (port != 0) {
        return connectPatiently(new InetSocketAddress(host, port));
      }
    } catch (IOException e) {
      String where = port == 0 ? socketPath : socketPath + " or " + host + ":" + port;
      throw HeadraceException.transport(
          place, "cannot reach the driver's Python process at " + where + ": " + e.getMessage());
    }
    throw HeadraceException.transport(
        place,
        "the driver's Python process is gone, or its session context was closed (no socket at " + socketPath + ")");
  }

  /**
   * A driver that refuses for a few seconds, or cannot be reached, must not cost all attempts of a task. Outside of one
   * somebody waits for the query to be planned, and a refusal is told at once.
   */
  private static SocketChannel connectPatiently(InetSocketAddress address) throws IOException {
    long deadline = System.nanoTime() + CONNECT_MILLIS * 1_000_000L;
    long pause = FIRST_PAUSE_MILLIS;
    while (true) {
      long left = Math.max(1, (deadline - System.nanoTime()) / 1_000_000);
      try {
        return connectOnce(address, (int) left);
      } catch (InterruptedIOException | ClosedByInterruptException e) {
        if (!(e instanceof SocketTimeoutException)) {
          throw e;
        }
        throw new IOException("no answer within " + CONNECT_MILLIS + " ms", e);
      } catch (IOException e) {
        if (TaskContext.get() == null || System.nanoTime() + pause * 1_000_000 > deadline) {
          throw e;
        }
      }
      pause(pause);
      pause = Math.min(2 * pause, LONGEST_PAUSE_MILLIS);
    }
  }

  private static SocketChannel connectOnce(InetSocketAddress address, int timeoutMillis) throws IOException {
    SocketChannel channel = SocketChannel.open();
    boolean connected = false;
    try {
      channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
      keepAlive(channel);
      channel.socket().connect(address, timeoutMillis);
      connected = true;
    } finally {
      if (!connected) {
        channel.close();
      }
    }
    return channel;
  }

  /** A driver whose host or network vanished is noticed within 25 s; see silence.py. */
  private static void keepAlive(SocketChannel channel) throws IOException {
    channel.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
    Set<SocketOption<?>> supported = channel.supportedOptions();
    if (supported.contains(ExtendedSocketOptions.TCP_KEEPIDLE)) {
      channel.setOption(ExtendedSocketOptions.TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS);
      channel.setOption(ExtendedSocketOptions.TCP_KEEPINTERVAL, KEEPALIVE_INTERVAL_SECONDS);
      channel.setOption(ExtendedSocketOptions.TCP_KEEPCOUNT, KEEPALIVE_PROBES);
    }
  }

  private static void pause(long millis) throws IOException {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("the task was cancelled while it connected");
    }
    TaskContext task = TaskContext.get();
    if (task != null) {
      task.killTaskIfInterrupted();
    }
  }

  private static void check(Place place, int magic, int version) {
    if (magic != Protocol.MAGIC || version != Protocol.PROTOCOL_VERSION) {
      throw HeadraceException.transport(
          place,
          magic != Protocol.MAGIC
              ? "what listens at the address of the driver's Python process is not Headrace"
              : String.format(
                  "the driver's Python process speaks protocol %d, this connector %d; both must be of one release of"
                      + " Headrace", version, Protocol.PROTOCOL_VERSION));
    }
  }

  private static byte[] claim(byte[] greeting, byte[] secret, byte[] ticket, int partition, long nonce) {
    TaskContext task = TaskContext.get();
    String execution = task == null ? null : task.getLocalProperty("spark.sql.execution.id");
    return Protocol.claim(
        greeting,
        secret,
        ticket,
        partition,
        task == null ? 0 : task.attemptNumber(),
        task == null ? 0 : task.taskAttemptId(),
        execution == null ? Protocol.NO_EXECUTION : Long.parseLong(execution),
        nonce).array();
  }

  @Override
  public FrameInput frames() {
    return frames;
  }

  @Override
  public boolean isQuiet() {
    try {
      return peer.isQuiet();
    } catch (IOException e) {
      return false; // the other side is gone
    }
  }

  @Override
  public void finish() {
    close();
  }

  @Override
  public void abandon(String reason) {
    if (sends) { // a reason would be in the midst of its frames
      if (place.table() != null) { // who receives a result reads on by itself, and may have been told something
        PeerChannel.resetWhenClosed(channel);
      }
      close();
      return;
    }
    try {
      byte[] words = reason.getBytes(StandardCharsets.UTF_8);
      int length = Math.min(words.length, Protocol.MAX_REASON_BYTES - 1);
      frames.tryWrite(ByteBuffer.allocate(1 + length).put(Protocol.LEAVING).put(words, 0, length).flip());
    } catch (IOException e) {
      // The other side is gone already: it needs no reason.
    } finally {
      close();
    }
  }

  @Override
  public HeadraceException lost() {
    close();
    if (place.table() == null) {
      return HeadraceException.transport(
          place,
          "the driver's Python process reads no more of " + place
              + " (its ResultStream was closed, or another attempt of this task sends it)");
    }
    return HeadraceException.transport(
        place,
        "the driver's Python process broke off " + place + " before its end: it died, or its session context was"
            + " closed while the query ran");
  }

  private void close() {
    try (channel; selector) {
      peer.cancel();
    } catch (IOException e) {
      // Closing a socket that is already broken: there is nothing left to release.
      return;
    }
  }
}
