package org.headrace.spark.transport;

import java.util.function.Supplier;
import org.headrace.spark.planner.Planners;

/**
 * Holds a connection to the Python process of a session context, so that each learns of the other's end; driver JVM.
 *
 * <p>When Python is gone, or has closed the connection, the context leaves this JVM with all that was installed for it.
 */
final class Lifeline {
  private Lifeline() {}

  static void hold(String context, Supplier<PartitionConnection> open) {
    Planners.install(
        context,
        "lifeline",
        () -> {
          PartitionConnection held = open.get();
          Thread watching = new Thread(() -> watch(context, held), "headrace-lifeline");
          watching.setDaemon(true);
          watching.start();
          return held::finish;
        });
  }

  private static void watch(String context, PartitionConnection held) {
    held.frames().awaitEnd();
    Planners.unregister(context);
  }
}
