package org.headrace.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The live Python planners of this driver JVM, one per session context, and how to ask them. */
public final class Planners {
  static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, Planner> LIVE = new ConcurrentHashMap<>();

  private Planners() {}

  /** Called from Python when a session context opens. */
  public static void register(String context, Planner planner) {
    LIVE.put(context, planner);
  }

  /** Called from Python when a session context closes. */
  public static void unregister(String context) {
    LIVE.remove(context);
  }

  /** Asks a context's planner; its failures are thrown as {@link HeadraceException}. */
  static JsonNode ask(String context, String operation, Object payload) {
    Planner planner = LIVE.get(context);
    if (planner == null) {
      throw new HeadraceException(
          "the Headrace session context behind this table is closed; register the table again in a live one", null);
    }
    JsonNode answer;
    try {
      answer = JSON.readTree(planner.call(operation, JSON.writeValueAsString(payload)));
    } catch (JsonProcessingException e) {
      throw new HeadraceException("Python answered '" + operation + "' with what is not JSON: " + e.getMessage(), null);
    }
    JsonNode failure = answer.get("failure");
    if (failure != null) {
      throw new HeadraceException(failure.path("text").asText(), failure.toString());
    }
    return answer;
  }

  static boolean isLive(String context) {
    return LIVE.containsKey(context);
  }
}
