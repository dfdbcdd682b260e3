package org.headrace.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkException;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.sql.AnalysisException;
import scala.Option;
import scala.collection.immutable.Map;

/**
 * An error for Python to raise as one of its own; driver and executor JVM.
 *
 * <p>Wherever it arose, it has a record in JSON that Python rebuilds it from: {@code Failure} in
 * headrace/execute/failure.py. Who calls PySpark itself sees one of PySpark's exceptions, with a condition, because Spark
 * passes errors that have one on as they are: this one, or one that it is the cause of. It has no JVM stack trace: the
 * message holds the Python one, which is the one that helps.
 */
public final class HeadraceException extends SparkRuntimeException {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Spark knows no conditions but its own, and this is what it calls an error of a table made in Python. */
  private static final String CONDITION = "PYTHON_DATA_SOURCE_ERROR";

  /** The parameter that is the record; read by headrace/spark/connect/failures.py. */
  private static final String RECORD = "headrace";

  private final String text;
  private final String failure;

  private HeadraceException(String text, String failure) {
    super(CONDITION, parameters("run", text, failure), null, new QueryContext[0], "");
    this.text = text;
    this.failure = failure;
  }

  /** Connect sends a client the parameters of an error, as data; no text shows one that the condition does not name. */
  private static Map<String, String> parameters(String action, String text, String failure) {
    return new Map.Map4<>("action", action, "type", "table", "msg", text, RECORD, failure);
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

  /** As what fails while Spark plans is seen in PySpark: an AnalysisException. */
  public AnalysisException whilePlanning() {
    Option<Object> nowhere = Option.empty();
    Option<Throwable> cause = Option.apply(this);
    Map<String, String> parameters = parameters("plan", text, failure);
    return new AnalysisException(
        text, nowhere, nowhere, cause, Option.apply(CONDITION), parameters, new QueryContext[0]);
  }

  /** As what fails in a task is seen in PySpark: a PythonException if code of the user's raised, else this. */
  public RuntimeException inTask() {
    JsonNode record;
    try {
      record = JSON.readTree(failure);
    } catch (JsonProcessingException e) {
      return this;
    }
    String headline = record.path("headline").asText();
    if (!record.path("error").asText().equals("ProviderError") || headline.isEmpty() || !text.startsWith(headline)) {
      return this;
    }
    RuntimeException seen = Versions.pythonException(headline, text.substring(headline.length()).strip(), this);
    if (seen == null) {
      return this;
    }
    seen.setStackTrace(new StackTraceElement[0]); // Spark logs it: forty lines of Java would hide the Python traceback
    return seen;
  }

  /** As an exception of Spark's own, for a driver that knows no class of a session's jar. */
  public SparkException ofSpark() {
    SparkException own =
        new SparkException(text, null, Option.apply(CONDITION), parameters("run", text, failure), new QueryContext[0]);
    own.setStackTrace(new StackTraceElement[0]);
    return own;
  }

  /**
   * Throws {@code error}, or an exception of Spark's own where ours is it or its cause: the driver of a Spark Connect
   * session looks into no jar of that session when it reads what a task failed with. Java's compiler would have Spark's
   * exception declared, which Spark's interfaces do not.
   */
  @SuppressWarnings("unchecked")
  public static <E extends Exception> RuntimeException plain(Exception error) throws E {
    Throwable own = error instanceof HeadraceException ? error : error.getCause();
    throw (E) (own instanceof HeadraceException ours ? ours.ofSpark() : error);
  }

  /** The text alone, with which Python's own message begins; Spark would put its condition before it. */
  @Override
  public String getMessage() {
    return text;
  }

  /** Whether it is of this class of headrace.errors. */
  public boolean isOf(String error) {
    try {
      return JSON.readTree(failure).path("error").asText().equals(error);
    } catch (JsonProcessingException e) {
      return false;
    }
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
