package org.headrace.spark.transport;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.function.Supplier;
import org.headrace.spark.planner.Planners;

/**
 * Holds a connection to the Python process of a session context, so that each learns of the other's end; driver JVM.
 *
 * <p>When Python is gone, or has closed the connection, the context leaves this JVM with all that was installed for it.
 */
public final class Lifeline {
  private Lifeline() {}

  /** Called from Python when a session context opens, with the endpoint's address as JSON. */
  public static void hold(String context, String address) {
    hold(
        context,
        () -> {
          try {
            return PartitionOrigin.ofAddress(Planners.JSON.readTree(address)).open(0);
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          }
        });
  }

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
