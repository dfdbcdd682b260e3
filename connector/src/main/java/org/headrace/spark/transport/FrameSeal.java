package org.headrace.spark.transport;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.Arrays;
import javax.crypto.Mac;

/**
 * The tags of one direction of an endpoint's connection: makes them, or checks them, in their order; executor JVM, one
 * thread. Python's half is headrace/transport/seal.py.
 */
final class FrameSeal {
  private final Mac mac;
  private long count;

  FrameSeal(byte[] key) {
    this.mac = Protocol.hmac(key);
  }

  /** The next tag, over {@code parts} as they follow each other, which stay as they are. */
  byte[] tag(ByteBuffer... parts) {
    mac.update(Protocol.sequence(count++));
    for (ByteBuffer part : parts) {
      mac.update(part.duplicate());
    }
    return Arrays.copyOf(mac.doFinal(), Protocol.TAG_BYTES);
  }

  /** Whether {@code tag} is the next one, over {@code parts}. */
  boolean matches(ByteBuffer tag, ByteBuffer... parts) {
    byte[] found = new byte[tag.remaining()];
    tag.duplicate().get(found);
    return MessageDigest.isEqual(tag(parts), found);
  }
}
