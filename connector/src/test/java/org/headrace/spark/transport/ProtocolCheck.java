package org.headrace.spark.transport;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.EOFException;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.NamedChecks;

/** Checks Java's half of the protocol against the golden bytes; run by tests with the path of golden.json. */
public final class ProtocolCheck {
  private static final HexFormat HEX = HexFormat.of();
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Set<String> KINDS =
      Set.of("SCHEMA", "BATCH", "END", "ERROR", "DICTIONARY", "QUESTION", "ANSWER", "MESSAGE");

  private ProtocolCheck() {}

  public static void main(String[] args) throws Exception {
    JsonNode golden = JSON.readTree(Files.readString(Path.of(args[0])));
    NamedChecks.run("numbers", () -> checkConstants(golden.get("constants"), golden.get("kinds")));
    for (JsonNode message : golden.get("messages")) {
      String name = message.get("name").asText();
      byte[] bytes = HEX.parseHex(message.get("hex").asText());
      NamedChecks.run(name, () -> checkMessage(name, message.get("fields"), bytes));
    }
  }

  private static void checkConstants(JsonNode constants, JsonNode kinds) throws IllegalAccessException {
    Set<String> found = new TreeSet<>();
    for (Field field : Protocol.class.getDeclaredFields()) {
      if (!Modifier.isPublic(field.getModifiers())) {
        continue;
      }
      long value = ((Number) field.get(null)).longValue();
      JsonNode expected = (KINDS.contains(field.getName()) ? kinds : constants).get(field.getName());
      check(expected != null, field.getName() + " is not in the golden file");
      check(value == number(expected), field.getName() + " is " + value + ", the golden file has " + expected);
      found.add(field.getName());
    }
    List<String> missing = new ArrayList<>();
    constants.fieldNames().forEachRemaining(missing::add);
    kinds.fieldNames().forEachRemaining(missing::add);
    missing.removeAll(found);
    check(missing.isEmpty(), "Protocol lacks " + missing);
  }

  /** A number, or four letters that are one. */
  private static long number(JsonNode value) {
    return value.isTextual()
        ? ByteBuffer.wrap(value.asText().getBytes(StandardCharsets.US_ASCII)).order(ByteOrder.LITTLE_ENDIAN).getInt()
        : value.asLong();
  }

  private static void checkMessage(String name, JsonNode fields, byte[] golden) throws IOException {
    long nonce = Long.parseUnsignedLong(fields.path("nonce").asText("0"), 16);
    switch (name) {
      case "header of SCHEMA", "header of BATCH", "header of DICTIONARY", "header of ERROR" -> {
        int first = fields.get("first").asInt();
        long second = fields.get("second").asLong();
        int kind = fields.get("kind").asInt();
        same(name, Protocol.frameHeader(kind, fields.get("flags").asInt(), first, second, nonce), golden);
        FrameInput input = MemoryChannel.frames(golden, nonce);
        check(input.next() == kind && input.secondLength() == second, name + " is read as something else");
        refusesAnotherNonce(name, golden, nonce);
      }
      case "frame END" -> {
        ByteBuffer totals = Protocol.totals(fields.get("rows").asLong(), fields.get("batches").asLong());
        same(name, joined(Protocol.frameHeader(Protocol.END, 0, totals.remaining(), 0, nonce), totals), golden);
        refusesAnotherNonce(name, golden, nonce);
      }
      case "frame ERROR" -> {
        FrameInput input = MemoryChannel.frames(golden, nonce);
        check(input.next() == Protocol.ERROR, name + " is no error");
        JsonNode record = JSON.readTree(input.error().failure());
        check(record.equals(JSON.readTree(fields.get("json").asText())), name + " has another record: " + record);
      }
      case "frame MESSAGE" -> checkMessageFrame(name, fields, MemoryChannel.frames(golden, nonce));
      case "sealed message" -> {
        FrameInput frames = MemoryChannel.frames(golden, nonce);
        frames.seal(null, new FrameSeal(bytes(fields, "key")));
        checkMessageFrame(name, fields, frames);
      }
      case "frame QUESTION" -> {
        byte[] first = (fields.get("operation").asText() + "\n").getBytes(StandardCharsets.UTF_8);
        byte[] second = fields.get("question").asText().getBytes(StandardCharsets.UTF_8);
        ByteBuffer header = Protocol.frameHeader(Protocol.QUESTION, 0, first.length, second.length, nonce);
        same(name, joined(joined(header, ByteBuffer.wrap(first)), ByteBuffer.wrap(second)), golden);
      }
      case "frame ANSWER" -> {
        String answer = MemoryChannel.frames(golden, nonce).ask("list", "{}");
        check(answer.equals(fields.get("answer").asText()), name + " is read as " + answer);
      }
      case "challenge" -> {
        check(golden.length == Protocol.GREETING_BYTES, name + " has another length");
        ByteBuffer challenge = ByteBuffer.wrap(golden).order(ByteOrder.LITTLE_ENDIAN);
        check(challenge.getInt(0) == Protocol.MAGIC, name + " has another magic number");
        check(challenge.getInt(4) == Protocol.PROTOCOL_VERSION, name + " has another version");
      }
      case "claim" -> {
        ByteBuffer greeting = ByteBuffer.allocate(Protocol.GREETING_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        greeting.putInt(Protocol.MAGIC).putInt(Protocol.PROTOCOL_VERSION).put(bytes(fields, "random"));
        ByteBuffer claim =
            Protocol.claim(
                greeting.array(),
                bytes(fields, "secret"),
                bytes(fields, "ticket"),
                fields.get("partition").asInt(),
                fields.get("attempt").asInt(),
                fields.get("task").asLong(),
                fields.get("execution").asLong(),
                nonce);
        same(name, claim, golden);
      }
      case "answer" ->
          same(
              name,
              ByteBuffer.wrap(
                  Protocol.answer(bytes(fields, "challenge"), bytes(fields, "secret"), bytes(fields, "claim"))),
              golden);
      case "request", "request to receive" ->
          same(
              name,
              Protocol.request(
                  nonce,
                  fields.get("partition").asInt(),
                  fields.get("direction").asInt(),
                  fields.get("facts").asText().getBytes(StandardCharsets.UTF_8),
                  bytes(fields, "task")),
              golden);
      case "stream" -> checkStream(fields.get("rows"), golden, nonce, FrameFuzz.FLAT);
      case "stream of columns as they are" -> checkStream(fields.get("rows"), golden, nonce, FrameFuzz.AS_THEY_ARE);
      case "nested stream" ->
          check(!FrameFuzz.isRefused(golden, nonce, FrameFuzz.NESTED), "the nested stream is not read");
      case "tag key HDRE", "tag key HDRX" ->
          same(
              name,
              ByteBuffer.wrap(
                  Protocol.tagKey(
                      (int) number(fields.get("direction")),
                      bytes(fields, "challenge"),
                      bytes(fields, "secret"),
                      bytes(fields, "claim"))),
              golden);
      case "sealed questions" -> {
        MemoryChannel channel = new MemoryChannel(new byte[0]);
        FrameInput frames = channel.frames(nonce);
        frames.seal(new FrameSeal(bytes(fields, "key")), null);
        for (int i = 0; i < 2; i++) {
          try {
            frames.ask(fields.get("operation").asText(), fields.get("question").asText());
          } catch (EOFException e) {
            continue; // nobody answers
          }
        }
        same(name, ByteBuffer.wrap(channel.written.toByteArray()), golden);
      }
      case "sealed answers" -> {
        FrameInput frames = MemoryChannel.frames(golden, nonce);
        frames.seal(null, new FrameSeal(bytes(fields, "key")));
        for (int i = 0; i < 2; i++) {
          String answer = frames.ask("list", "{}");
          check(answer.equals(fields.get("answer").asText()), name + " are read as " + answer);
        }
      }
      case "sealed stream" -> {
        FrameInput frames = MemoryChannel.frames(golden, nonce);
        frames.seal(null, new FrameSeal(bytes(fields, "key")));
        checkRows(fields.get("rows"), MemoryChannel.reader(frames, FrameFuzz.FLAT), FrameFuzz.FLAT);
      }
      default -> throw new AssertionError("nothing checks the message '" + name + "'");
    }
  }

  private static void checkMessageFrame(String name, JsonNode fields, FrameInput frames) throws IOException {
    String message = new String(frames.awaitMessage(), StandardCharsets.UTF_8);
    check(message.equals(fields.get("message").asText()), name + " is read as " + message);
  }

  private static void refusesAnotherNonce(String name, byte[] golden, long nonce) throws IOException {
    try {
      MemoryChannel.frames(golden, nonce + 1).next();
    } catch (HeadraceException e) {
      check(e.getMessage().contains("another request"), name + " with another nonce: " + e.getMessage());
      return;
    }
    throw new AssertionError(name + " was accepted with another nonce");
  }

  private static void checkStream(JsonNode rows, byte[] golden, long nonce, StructType schema) throws IOException {
    checkRows(rows, MemoryChannel.reader(golden, nonce, schema), schema);
  }

  private static void checkRows(JsonNode rows, PartitionReader<ColumnarBatch> opened, StructType schema)
      throws IOException {
    List<String> found = new ArrayList<>();
    try (PartitionReader<ColumnarBatch> reader = opened) {
      while (reader.next()) {
        reader.get().rowIterator().forEachRemaining(row -> found.add(text(row, 0, schema) + " " + text(row, 1, schema)));
      }
    }
    List<String> expected = new ArrayList<>();
    rows.forEach(row -> expected.add(text(row.get(0)) + " " + text(row.get(1))));
    check(found.equals(expected), "the stream has the rows " + found + ", expected " + expected);
  }

  private static String text(InternalRow row, int column, StructType schema) {
    return String.valueOf(row.isNullAt(column) ? null : row.get(column, schema.fields()[column].dataType()));
  }

  private static String text(JsonNode value) {
    return value.isNull() ? "null" : value.asText();
  }

  private static byte[] bytes(JsonNode fields, String name) {
    return HEX.parseHex(fields.get(name).asText());
  }

  private static ByteBuffer joined(ByteBuffer first, ByteBuffer second) {
    return ByteBuffer.allocate(first.remaining() + second.remaining()).put(first).put(second).flip();
  }

  private static void same(String name, ByteBuffer made, byte[] golden) {
    byte[] found = new byte[made.remaining()];
    made.get(found);
    check(Arrays.equals(found, golden), name + " is\n" + HEX.formatHex(found) + ", expected\n" + HEX.formatHex(golden));
  }

  private static void check(boolean condition, String message) {
    if (!condition) {
      throw new AssertionError(message);
    }
  }
}
