/* An executor's end of connections whose driver goes silent; says what it sees. Runs in a plain JVM without Spark. */
package org.headrace.spark.transport;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.send.BatchSender;

public final class SilentDriverCheck {
  private SilentDriverCheck() {}

  private static final Schema SCHEMA =
      new Schema(List.of(Field.nullable("a", new ArrowType.Int(64, true))));

  /**
   * Arguments: "read" (frames that come), "send" (bytes without an end), "await" (the answer to a stream) or "hold" (a
   * stream without going on), and the endpoint's address as JSON.
   */
  public static void main(String[] args) throws Exception {
    PartitionConnection connection = PartitionOrigin.ofAddress(Planners.JSON.readTree(args[1])).openToSend(0);
    say("reading");
    try {
      if (args[0].equals("read")) {
        read(connection.frames());
      } else if (!args[0].equals("send")) {
        FrameOutput out = new FrameOutput(connection.frames());
        out.begin(Protocol.SCHEMA, ByteBuffer.wrap(BatchSender.serialized(SCHEMA)), 0);
        if (args[0].equals("await")) {
          out.begin(Protocol.END, Protocol.totals(0, 0), 0);
        }
        out.flush();
        if (args[0].equals("hold")) {
          Thread.sleep(Long.MAX_VALUE);
        }
        connection.frames().awaitMessage();
      } else {
        ByteBuffer bytes = ByteBuffer.allocate(1 << 20);
        while (true) {
          connection.frames().write(bytes.clear());
        }
      }
    } catch (IOException e) {
      say("lost");
    }
  }

  private static void read(FrameInput frames) throws IOException {
    while (true) {
      frames.next();
      frames.readFirst();
      frames.read(ByteBuffer.allocate((int) frames.secondLength()));
    }
  }

  private static void say(String event) {
    System.out.println("{\"event\": \"" + event + "\"}");
    System.out.flush();
  }
}
