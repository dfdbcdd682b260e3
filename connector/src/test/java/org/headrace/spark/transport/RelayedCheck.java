/* An executor's end of connections on which somebody changes frames; says what came of each. Runs in a plain JVM. */
package org.headrace.spark.transport;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.read.HeadracePartition;
import org.headrace.spark.read.HeadraceReaderFactory;

public final class RelayedCheck {
  private RelayedCheck() {}

  /** Arguments: "read", "ask" or "send", the endpoint's address as JSON, golden.json. Does it once for each line of input. */
  public static void main(String[] args) throws Exception {
    JsonNode address = Planners.JSON.readTree(args[1]);
    byte[] stream = stream(Planners.JSON.readTree(Files.readString(Path.of(args[2]))));
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    while (input.readLine() != null) {
      ObjectNode outcome = Planners.JSON.createObjectNode();
      try {
        switch (args[0]) {
          case "read" -> outcome.put("rows", rows(address));
          case "ask" -> outcome.put("answer", new RemotePlanner(address).call("plan", "{}"));
          default -> outcome.put("message", send(address, stream));
        }
      } catch (HeadraceException e) {
        outcome.put("failure", e.failure());
      } catch (IOException e) {
        outcome.put("lost", String.valueOf(e));
      }
      System.out.println(outcome);
      System.out.flush();
    }
  }

  private static byte[] stream(JsonNode golden) {
    for (JsonNode message : golden.get("messages")) {
      if (message.get("name").asText().equals("stream")) {
        return HexFormat.of().parseHex(message.get("hex").asText());
      }
    }
    throw new AssertionError("the golden file has no stream");
  }

  private static long rows(JsonNode address) throws IOException {
    PartitionOrigin origin = PartitionOrigin.ofAddress(address);
    long rows = 0;
    try (PartitionReader<ColumnarBatch> reader =
        new HeadraceReaderFactory(null, origin, FrameFuzz.FLAT, false).createColumnarReader(new HeadracePartition(0))) {
      while (reader.next()) {
        rows += reader.get().numRows();
      }
    }
    return rows;
  }

  /** The golden stream; returns the message that answers it. */
  private static String send(JsonNode address, byte[] stream) throws IOException {
    PartitionConnection connection = PartitionOrigin.ofAddress(address).openToSend(0);
    try {
      FrameOutput out = new FrameOutput(connection.frames());
      ByteBuffer rest = ByteBuffer.wrap(stream).order(java.nio.ByteOrder.LITTLE_ENDIAN);
      while (rest.hasRemaining()) {
        int start = rest.position();
        int first = rest.getInt(start + 4);
        int second = (int) rest.getLong(start + 8);
        int body = start + Protocol.FRAME_HEADER_BYTES + first;
        out.begin(rest.get(start), rest.slice(start + Protocol.FRAME_HEADER_BYTES, first), second);
        out.write(rest.slice(body, second));
        out.flush();
        rest.position(body + second);
      }
      return new String(connection.frames().awaitMessage(), StandardCharsets.UTF_8);
    } finally {
      connection.finish();
    }
  }
}
