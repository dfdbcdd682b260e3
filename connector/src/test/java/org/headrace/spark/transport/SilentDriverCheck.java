/* An executor's end of connections whose driver goes silent; says what it sees. Runs in a plain JVM without Spark. */
package org.headrace.spark.transport;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.headrace.spark.planner.Planners;

public final class SilentDriverCheck {
  private SilentDriverCheck() {}

  /** Arguments: "read" or "send", and the endpoint's address as JSON. */
  public static void main(String[] args) throws Exception {
    PartitionConnection connection = PartitionOrigin.ofAddress(Planners.JSON.readTree(args[1])).openToSend(0);
    say("reading");
    try {
      if (args[0].equals("read")) {
        read(connection.frames());
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
