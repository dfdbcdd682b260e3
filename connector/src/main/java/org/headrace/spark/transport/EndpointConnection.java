package org.headrace.spark.transport;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.spark.TaskContext;
import org.headrace.spark.HeadraceException;

/**
 * A partition served by the endpoint in the driver's Python process; executor JVM.
 *
 * <p>The endpoint opens with a random challenge; the answer names ticket and partition and proves the session's
 * secret over both, so it cannot be replayed. Closing the connection is how the producer is told to stop.
 */
final class EndpointConnection implements PartitionConnection {
  private static final int SEND_BUFFER_BYTES = 1 << 20;
  private static final int CONNECT_MILLIS = Protocol.CONNECT_SECONDS * 1000;

  private final SocketChannel channel;
  private final Selector selector;
  private final FrameInput frames;

  private EndpointConnection(SocketChannel channel, byte[] certificate, long nonce) throws IOException {
    this.channel = channel;
    channel.setOption(StandardSocketOptions.SO_SNDBUF, SEND_BUFFER_BYTES);
    channel.configureBlocking(false);
    this.selector = Selector.open();
    SelectionKey key = channel.register(selector, SelectionKey.OP_READ);
    boolean encrypted = certificate.length > 0 && !(channel.getRemoteAddress() instanceof UnixDomainSocketAddress);
    this.frames = new FrameInput(encrypted ? new TlsChannel(channel, certificate) : channel, selector, key, nonce);
  }

  static EndpointConnection open(
      String socketPath, String host, int port, byte[] secret, byte[] ticket, byte[] certificate, int partition)
      throws IOException {
    SocketChannel channel = connect(socketPath, host, port);
    EndpointConnection connection = null;
    boolean open = false;
    try {
      long nonce = ThreadLocalRandom.current().nextLong();
      connection = new EndpointConnection(channel, certificate, nonce);
      ByteBuffer greeting = ByteBuffer.allocate(Protocol.GREETING_BYTES).order(ByteOrder.LITTLE_ENDIAN);
      connection.frames.readHandshake(greeting, CONNECT_MILLIS);
      check(greeting.getInt(0), greeting.getInt(4));
      connection.frames.write(answer(greeting.array(), secret, ticket, partition, nonce));
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
        SocketChannel channel = SocketChannel.open();
        boolean connected = false;
        try {
          channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
          channel.socket().connect(new InetSocketAddress(host, port), CONNECT_MILLIS);
          connected = true;
        } finally {
          if (!connected) {
            channel.close();
          }
        }
        return channel;
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

  private static void check(int magic, int version) {
    if (magic != Protocol.MAGIC || version != Protocol.PROTOCOL_VERSION) {
      throw new HeadraceException(
          magic != Protocol.MAGIC
              ? "TransportError: what listens at the address of the driver's Python process is not Headrace"
              : String.format(
                  "TransportError: the driver's Python process speaks protocol %d, this connector %d; both must be of"
                      + " one release of Headrace", version, Protocol.PROTOCOL_VERSION),
          null);
    }
  }

  private static ByteBuffer answer(byte[] greeting, byte[] secret, byte[] ticket, int partition, long nonce) {
    TaskContext task = TaskContext.get();
    String execution = task == null ? null : task.getLocalProperty("spark.sql.execution.id");
    return Protocol.claim(
        greeting,
        secret,
        ticket,
        partition,
        task == null ? 0 : task.attemptNumber(),
        execution == null ? Protocol.NO_EXECUTION : Long.parseLong(execution),
        nonce);
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
