package org.headrace.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * An error for Python to raise as one of its own; driver and executor JVM.
 *
 * <p>Wherever it arose, it has a record in JSON that Python rebuilds it from: {@code Failure} in
 * headrace/execute/failure.py. An IllegalArgumentException because PySpark turns that into a clean exception of its
 * own. It has no JVM stack trace: the message holds the Python one, which is the one that helps.
 */
public final class HeadraceException extends IllegalArgumentException {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper JSON = new ObjectMapper();
  private final String failure;

  private HeadraceException(String text, String failure) {
    super(text);
    this.failure = failure;
  }

  /** An error that arose in the JVM. {@code error} names a class of headrace.errors; {@code place} may be null. */
  public static HeadraceException of(String error, Place place, String message) {
    String text = error + ": " + message;
    ObjectNode failure = JSON.createObjectNode();
    failure.put("error", error).put("exception_type", "headrace.errors." + error).put("message", message);
    failure.put("table", place == null ? null : place.table());
    failure.put("partition", place == null ? null : place.partition());
    return new HeadraceException(text, failure.put("text", text).toString());
  }

  /** An error between the processes: a connection that broke, or bytes that are not what they should be. */
  public static HeadraceException transport(Place place, String message) {
    return of("TransportError", place, message);
  }

  /** An error that arose in Python, by its record. */
  public static HeadraceException from(JsonNode failure) {
    return new HeadraceException(failure.path("text").asText(), failure.toString());
  }

  /** An error that arose in Python, as it was received; null where that is none. */
  public static HeadraceException received(String failure) {
    try {
      JsonNode record = JSON.readTree(failure);
      if (record.hasNonNull("error")) {
        return from(record);
      }
    } catch (JsonProcessingException e) {
      return null;
    }
    return null;
  }

  /** The record; called from Python. */
  public String failure() {
    return failure;
  }

  @Override
  public synchronized Throwable fillInStackTrace() {
    return this;
  }
}
