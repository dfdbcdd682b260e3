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
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.Set;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import jdk.net.ExtendedSocketOptions;
import org.apache.spark.TaskContext;
import org.headrace.spark.HeadraceException;

/**
 * A partition served by the endpoint in the driver's Python process; executor JVM.
 *
 * <p>The endpoint opens with a random challenge; the answer names ticket and partition and proves the session's
 * secret over both, so it cannot be replayed. Closing the connection is how the producer is told to stop.
 */
final class EndpointConnection implements PartitionConnection {
  private static final byte[] MAGIC = "HDRC".getBytes(StandardCharsets.US_ASCII);
  private static final int CHALLENGE_BYTES = 32;
  private static final int PROOF_BYTES = 32;
  private static final byte LEAVING = 1;
  private static final int MAX_REASON_CHARS = 300;
  private static final int SEND_BUFFER_BYTES = 1 << 20;
  private static final int TIMEOUT_MILLIS = 10_000;
  private static final int KEEPALIVE_IDLE_SECONDS = 10;
  private static final int KEEPALIVE_INTERVAL_SECONDS = 5;
  private static final int KEEPALIVE_PROBES = 3;
  private static final long FIRST_PAUSE_MILLIS = 50;
  private static final long LONGEST_PAUSE_MILLIS = 1_000;

  private final SocketChannel channel;
  private final Selector selector;
  private final FrameInput frames;

  private EndpointConnection(SocketChannel channel, byte[] certificate) throws IOException {
    this.channel = channel;
    channel.setOption(StandardSocketOptions.SO_SNDBUF, SEND_BUFFER_BYTES);
    channel.configureBlocking(false);
    this.selector = Selector.open();
    SelectionKey key = channel.register(selector, SelectionKey.OP_READ);
    boolean encrypted = certificate.length > 0 && !(channel.getRemoteAddress() instanceof UnixDomainSocketAddress);
    this.frames = new FrameInput(encrypted ? new TlsChannel(channel, certificate) : channel, selector, key);
  }

  static EndpointConnection open(
      String socketPath, String host, int port, byte[] secret, byte[] ticket, byte[] certificate, int partition)
      throws IOException {
    SocketChannel channel = connect(socketPath, host, port);
    EndpointConnection connection = null;
    boolean open = false;
    try {
      connection = new EndpointConnection(channel, certificate);
      ByteBuffer challenge = ByteBuffer.allocate(MAGIC.length + 4 + CHALLENGE_BYTES);
      connection.frames.readHandshake(challenge, TIMEOUT_MILLIS);
      connection.frames.write(answer(challenge.array(), secret, ticket, partition));
      open = true;
    } catch (EOFException e) {
      throw new HeadraceException(
          "TransportError: the driver's Python process closed the connection during the handshake", null);
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

  private static SocketChannel connect(String socketPath, String host, int port) throws IOException {
    try {
      if (!socketPath.isEmpty() && Files.exists(Path.of(socketPath))) {
        return SocketChannel.open(UnixDomainSocketAddress.of(socketPath));
      }
      if (port != 0) {
        return connectPatiently(new InetSocketAddress(host, port));
      }
    } catch (IOException e) {
      String where = port == 0 ? socketPath : socketPath + " or " + host + ":" + port;
      throw new HeadraceException(
          "TransportError: cannot reach the driver's Python process at " + where + ": " + e.getMessage(), null);
    }
    throw new HeadraceException(
        "TransportError: the driver's Python process is gone, or its session context was closed (no socket at "
            + socketPath + ")", null);
  }

  /** A driver that refuses for a few seconds, or cannot be reached, must not cost all attempts of a task. */
  private static SocketChannel connectPatiently(InetSocketAddress address) throws IOException {
    long deadline = System.nanoTime() + TIMEOUT_MILLIS * 1_000_000L;
    long pause = FIRST_PAUSE_MILLIS;
    while (true) {
      long left = Math.max(1, (deadline - System.nanoTime()) / 1_000_000);
      try {
        return connectOnce(address, (int) left);
      } catch (InterruptedIOException | ClosedByInterruptException e) {
        if (!(e instanceof SocketTimeoutException)) {
          throw e;
        }
        throw new IOException("no answer within " + TIMEOUT_MILLIS + " ms", e);
      } catch (IOException e) {
        if (System.nanoTime() + pause * 1_000_000 > deadline) {
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

  private static ByteBuffer answer(byte[] challenge, byte[] secret, byte[] ticket, int partition) {
    ByteBuffer claim =
        ByteBuffer.allocate(MAGIC.length + ticket.length + 16 + PROOF_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    TaskContext task = TaskContext.get();
    String execution = task == null ? null : task.getLocalProperty("spark.sql.execution.id");
    claim.put(MAGIC).put(ticket).putInt(partition);
    claim.putInt(task == null ? 0 : task.attemptNumber()).putLong(execution == null ? -1 : Long.parseLong(execution));
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret, "HmacSHA256"));
      mac.update(challenge);
      mac.update(claim.array(), 0, claim.position());
      return claim.put(mac.doFinal()).flip();
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public FrameInput frames() {
    return frames;
  }

  @Override
  public void finish() {
    close();
  }

  @Override
  public void abandon(String reason) {
    String text = reason.length() > MAX_REASON_CHARS ? reason.substring(0, MAX_REASON_CHARS) + "..." : reason;
    try {
      byte[] words = text.getBytes(StandardCharsets.UTF_8);
      frames.tryWrite(ByteBuffer.allocate(1 + words.length).put(LEAVING).put(words).flip());
    } catch (IOException e) {
      // The other side is gone already: it needs no reason.
    } finally {
      close();
    }
  }

  @Override
  public String lost(String table, int partition) {
    close();
    return String.format(
        "TransportError: the driver's Python process broke off partition %d of table '%s' before its end: it died, or"
            + " its session context was closed while the query ran", partition, table);
  }

  private void close() {
    try (SocketChannel c = channel; Selector s = selector) {
      frames.cancel();
    } catch (IOException e) {
      // Closing a socket that is already broken: there is nothing left to release.
      return;
    }
  }
}
