package org.headrace.spark.transport;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Every number that both ends of a connection must agree on, and the messages of fixed layout; executor JVM.
 *
 * <p>Python's half is headrace/transport/protocol.py, where each is explained. Both are tested against
 * connector/protocol/golden.json: the numbers by their names, the messages byte by byte.
 */
public final class Protocol {
  public static final int PROTOCOL_VERSION = 6;
  public static final int PLANNER_VERSION = 4;

  public static final int SCHEMA = 1;
  public static final int BATCH = 2;
  public static final int END = 3;
  public static final int ERROR = 4;
  public static final int DICTIONARY = 5;
  public static final int QUESTION = 6;
  public static final int ANSWER = 7;
  public static final int MESSAGE = 8;
  public static final int FRAME_HEADER_BYTES = 24;
  public static final int TOTALS_BYTES = 16;
  public static final int TOLD_WHEN_READ = 1;
  public static final int MAX_FIRST_BYTES = 16 << 20;
  public static final int MAX_MESSAGE_BYTES = 1 << 20;
  public static final long MAX_SECOND_BYTES = 2L << 30;
  public static final int SPLIT_BYTES = 64 << 20;
  public static final int STALL_SECONDS = 60;

  public static final byte ASKING = 0;
  public static final byte LEAVING = 1;
  public static final int MAX_REASON_BYTES = 1024;
  public static final byte ALIVE = 0;
  public static final int ALIVE_SECONDS = 5;
  public static final int SILENCE_SECONDS = 25;
  public static final byte STOP = 2;

  public static final int MAGIC = 0x43524448; // "HDRC"
  public static final int TICKET_BYTES = 32;
  public static final int CHALLENGE_BYTES = 32;
  public static final int PROOF_BYTES = 32;
  public static final long NO_EXECUTION = -1;
  public static final int HANDSHAKE_SECONDS = 5;
  public static final int CONNECT_SECONDS = 10;

  public static final int TASK_MAGIC = 0x54524448; // "HDRT"
  public static final int SENDS = 0;
  public static final int RECEIVES = 1;

  public static final int TAG_BYTES = 16;
  public static final int FROM_ENDPOINT = 0x45524448; // "HDRE"
  public static final int TO_ENDPOINT = 0x58524448; // "HDRX"

  static final int GREETING_BYTES = 8 + CHALLENGE_BYTES;

  private Protocol() {}

  /** The header of a frame, ready to be written. */
  public static ByteBuffer frameHeader(int kind, int flags, int first, long second, long nonce) {
    ByteBuffer header = buffer(FRAME_HEADER_BYTES);
    header.put((byte) kind).put((byte) PROTOCOL_VERSION).putShort((short) flags);
    return header.putInt(first).putLong(second).putLong(nonce).flip();
  }

  /** The first part of an END frame. */
  public static ByteBuffer totals(long rows, long batches) {
    return buffer(TOTALS_BYTES).putLong(rows).putLong(batches).flip();
  }

  /** What a worker is asked: what it may know of its task, as JSON, and the pickled task are part of it. */
  static ByteBuffer request(long nonce, int partition, int direction, byte[] facts, byte[] task) {
    ByteBuffer request = buffer(32 + facts.length + task.length);
    request.putInt(TASK_MAGIC).putInt(PROTOCOL_VERSION).putLong(nonce).putInt(partition).putInt(direction);
    return request.putInt(facts.length).putInt(task.length).put(facts).put(task).flip();
  }

  /** The answer to the endpoint's greeting: what is wanted, and the proof of the session's secret. */
  static ByteBuffer claim(
      byte[] greeting,
      byte[] secret,
      byte[] ticket,
      int partition,
      int attempt,
      long task,
      long execution,
      long nonce) {
    ByteBuffer claim = buffer(4 + TICKET_BYTES + 32 + PROOF_BYTES);
    claim.putInt(MAGIC).put(ticket).putInt(partition).putInt(attempt).putLong(task).putLong(execution).putLong(nonce);
    byte[] unproven = Arrays.copyOf(claim.array(), claim.position());
    return claim.put(hmac(secret, greeting, unproven)).flip();
  }

  /** What the endpoint sends first to whoever made that claim: the proof that it knows the secret too. */
  static byte[] answer(byte[] greeting, byte[] secret, byte[] claim) {
    return hmac(secret, claim, greeting);
  }

  /** The key for the tags of one direction of the connection on which that greeting got that claim. */
  static byte[] tagKey(int direction, byte[] greeting, byte[] secret, byte[] claim) {
    Mac mac = hmac(secret);
    mac.update(buffer(Integer.BYTES).putInt(direction).flip());
    mac.update(greeting);
    return mac.doFinal(claim);
  }

  /** What a tag begins with: which one of its direction it is, from 0. */
  static ByteBuffer sequence(long count) {
    return buffer(Long.BYTES).putLong(count).flip();
  }

  private static byte[] hmac(byte[] secret, byte[] first, byte[] second) {
    Mac mac = hmac(secret);
    mac.update(first);
    return mac.doFinal(second);
  }

  static Mac hmac(byte[] key) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      return mac;
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e); // every Java has HmacSHA256
    }
  }

  private static ByteBuffer buffer(int length) {
    return ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
  }
}
