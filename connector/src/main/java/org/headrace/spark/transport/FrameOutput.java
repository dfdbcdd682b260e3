package org.headrace.spark.transport;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import org.headrace.spark.HeadraceException;

/**
 * Writes frames to a connection: small pieces are put together, large ones go out from where they lie; executor
 * JVM, one thread.
 *
 * <p>As a channel it takes everything it is given, and waits for the other side where it must.
 */
public final class FrameOutput implements WritableByteChannel {
  private static final int BUFFER_BYTES = 64 << 10;

  private final FrameInput connection;
  private final ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);

  public FrameOutput(FrameInput connection) {
    this.connection = connection;
  }

  /** Begins a frame, whose second part is to follow. */
  public void begin(int kind, ByteBuffer first, long second) throws IOException {
    if (first.remaining() > Protocol.MAX_FIRST_BYTES || second > Protocol.MAX_SECOND_BYTES) {
      throw HeadraceException.transport(
          connection.place(), String.format("a row has %d bytes, and can have at most %d", second, Protocol.MAX_SECOND_BYTES));
    }
    write(connection.start(kind, first, second));
  }

  @Override
  public int write(ByteBuffer bytes) throws IOException {
    int count = bytes.remaining();
    if (count > buffer.remaining()) {
      flush();
    }
    if (count > buffer.remaining()) {
      connection.write(bytes);
    } else {
      buffer.put(bytes);
    }
    return count;
  }

  /** Ends a frame: sends what was put together. */
  public void flush() throws IOException {
    buffer.flip();
    try {
      connection.write(buffer);
    } finally {
      buffer.clear();
    }
  }

  @Override
  public boolean isOpen() {
    return true;
  }

  @Override
  public void close() {}
}
