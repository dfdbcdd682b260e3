package org.headrace.spark.transport;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.headrace.spark.planner.Planners;

/**
 * Holds a connection to the driver's Python process while this JVM lives, so that Python learns of its end; driver JVM.
 */
public final class Lifeline {
  private static final Map<String, PartitionConnection> HELD = new ConcurrentHashMap<>();

  private Lifeline() {}

  /** Called from Python when a session context opens, with the endpoint's address as JSON. */
  public static void hold(String context, String address) throws JsonProcessingException {
    HELD.put(context, PartitionOrigin.ofAddress(Planners.JSON.readTree(address)).open(0));
  }

  /** Called from Python when a session context closes. */
  public static void release(String context) {
    PartitionConnection held = HELD.remove(context);
    if (held != null) {
      held.finish();
    }
  }
}
