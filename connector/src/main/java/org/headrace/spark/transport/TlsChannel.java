package org.headrace.spark.transport;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.SocketChannel;
import java.security.GeneralSecurityException;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import java.util.Arrays;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

/**
 * TLS over a non-blocking channel, to a peer known by its very certificate; executor JVM, one thread.
 *
 * <p>Like the channel below, it reads and writes as much as it can at once and 0 bytes where it would have to wait. The
 * handshake happens inside of that.
 */
final class TlsChannel implements ByteChannel {
  private final SocketChannel channel;
  private final SSLEngine engine;
  private final ByteBuffer encryptedIn;
  private final ByteBuffer encryptedOut;
  private final ByteBuffer plainIn;

  TlsChannel(SocketChannel channel, byte[] certificate) throws IOException {
    this.channel = channel;
    try {
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(null, new TrustManager[] {new ThisCertificate(certificate)}, null);
      engine = context.createSSLEngine();
    } catch (GeneralSecurityException e) {
      throw new IOException("TLS cannot be used: " + e.getMessage(), e);
    }
    engine.setUseClientMode(true);
    encryptedIn = ByteBuffer.allocateDirect(engine.getSession().getPacketBufferSize()).flip();
    encryptedOut = ByteBuffer.allocateDirect(engine.getSession().getPacketBufferSize()).flip();
    plainIn = ByteBuffer.allocateDirect(engine.getSession().getApplicationBufferSize()).flip();
    engine.beginHandshake();
  }

  @Override
  public int read(ByteBuffer target) throws IOException {
    while (!plainIn.hasRemaining()) {
      if (!handshakeOutput()) {
        return 0;
      }
      plainIn.clear();
      SSLEngineResult result;
      try {
        result = engine.unwrap(encryptedIn, plainIn);
      } finally {
        plainIn.flip();
      }
      switch (result.getStatus()) {
        case OK -> {}
        case BUFFER_UNDERFLOW -> {
          encryptedIn.compact();
          int count = channel.read(encryptedIn);
          encryptedIn.flip();
          if (count <= 0) {
            return count;
          }
        }
        case CLOSED -> {
          return -1;
        }
        default -> throw new IOException("TLS: " + result);
      }
    }
    int count = Math.min(target.remaining(), plainIn.remaining());
    target.put(plainIn.slice().limit(count));
    plainIn.position(plainIn.position() + count);
    return count;
  }

  @Override
  public int write(ByteBuffer source) throws IOException {
    if (!flush()) {
      return 0;
    }
    int before = source.remaining();
    wrap(source);
    flush();
    return before - source.remaining();
  }

  /** Does all of the handshake that needs no input; false while the socket takes no more output. */
  private boolean handshakeOutput() throws IOException {
    while (true) {
      HandshakeStatus status = engine.getHandshakeStatus();
      if (status == HandshakeStatus.NEED_TASK) {
        engine.getDelegatedTask().run();
      } else if (status == HandshakeStatus.NEED_WRAP) {
        if (!flush()) {
          return false;
        }
        wrap(ByteBuffer.allocate(0));
      } else {
        return flush();
      }
    }
  }

  private void wrap(ByteBuffer source) throws IOException {
    encryptedOut.clear();
    try {
      engine.wrap(source, encryptedOut);
    } finally {
      encryptedOut.flip();
    }
  }

  private boolean flush() throws IOException {
    while (encryptedOut.hasRemaining()) {
      if (channel.write(encryptedOut) == 0) {
        return false;
      }
    }
    return true;
  }

  @Override
  public boolean isOpen() {
    return channel.isOpen();
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }

  /** Trusts one certificate, whoever signed it and whatever name it bears. */
  private record ThisCertificate(byte[] encoded) implements X509TrustManager {
    @Override
    public void checkClientTrusted(X509Certificate[] chain, String authType) throws CertificateException {
      throw new CertificateException("this side is the client");
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String authType) throws CertificateException {
      if (!Arrays.equals(chain[0].getEncoded(), encoded)) {
        throw new CertificateException("the driver shows another certificate than the one this query was planned with");
      }
    }

    @Override
    public X509Certificate[] getAcceptedIssuers() {
      return new X509Certificate[0];
    }
  }
}
