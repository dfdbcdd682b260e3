package org.headrace.spark.transport;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;
import org.headrace.spark.read.HeadracePartition;
import org.headrace.spark.read.HeadraceReaderFactory;

/** Bytes as a connection that ends after them, and what was written to it, for checks without sockets. */
final class MemoryChannel implements ByteChannel {
  private static final Place PLACE = new Place("checked", 0);

  private final ByteBuffer bytes;

  final ByteArrayOutputStream written = new ByteArrayOutputStream();

  MemoryChannel(byte[] bytes) {
    this.bytes = ByteBuffer.wrap(bytes);
  }

  static FrameInput frames(byte[] bytes, long nonce) {
    return new MemoryChannel(bytes).frames(nonce);
  }

  FrameInput frames(long nonce) {
    return new FrameInput(PLACE, new PeerChannel(this, null, null, () -> true), nonce);
  }

  /** The connector's own reader over {@code bytes}. */
  static PartitionReader<ColumnarBatch> reader(byte[] bytes, long nonce, StructType schema) {
    return reader(frames(bytes, nonce), schema);
  }

  static PartitionReader<ColumnarBatch> reader(FrameInput frames, StructType schema) {
    PartitionOrigin origin =
        new PartitionOrigin("checked") {
          @Override
          PartitionConnection connect(int partition, boolean sends) {
            return new Connection(frames);
          }
        };
    return new HeadraceReaderFactory(null, origin, schema, false).createColumnarReader(new HeadracePartition(0));
  }

  @Override
  public int read(ByteBuffer target) {
    if (!bytes.hasRemaining()) {
      return -1;
    }
    int count = Math.min(target.remaining(), bytes.remaining());
    target.put(bytes.slice().limit(count));
    bytes.position(bytes.position() + count);
    return count;
  }

  @Override
  public int write(ByteBuffer source) {
    byte[] taken = new byte[source.remaining()];
    source.get(taken);
    written.writeBytes(taken);
    return taken.length;
  }

  @Override
  public boolean isOpen() {
    return true;
  }

  @Override
  public void close() {}

  private record Connection(FrameInput frames) implements PartitionConnection {
    @Override
    public boolean isQuiet() {
      return false;
    }

    @Override
    public void finish() {}

    @Override
    public void abandon(String reason) {}

    @Override
    public HeadraceException lost() {
      return HeadraceException.transport(PLACE, PLACE + " was cut");
    }
  }
}
