package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.ref.Cleaner;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.internal.SQLConf;
import org.headrace.spark.planner.Planners;

/**
 * The JVM's end of one scan that is negotiated with Python: an id, under which Python keeps all that was offered,
 * answered and planned; driver JVM.
 *
 * <p>Held by the scan's builder, the scan and its reader factory (an RDD may outlive the scan). When all of them are
 * garbage, and nothing in the driver JVM can go on with the negotiation or run its plan any more, Python is told.
 */
final class Negotiation {
  private static final Cleaner CLEANER = Cleaner.create();
  private static final String SOURCE_FILTERS = "spark.sql.python.filterPushdown.enabled";

  private final String context;
  private final String table;
  private final String id = UUID.randomUUID().toString();
  private ObjectNode unsent = Planners.JSON.createObjectNode();
  private boolean begun;

  Negotiation(String context, String table) {
    this.context = context;
    this.table = table;
  }

  String id() {
    return id;
  }

  /** Differs for each registration, of whatever context. */
  String table() {
    return table;
  }

  /** Whether Python is another process than the one that started this JVM. */
  boolean isRemote() {
    return Planners.isRemote(context);
  }

  /** Offers something to which Spark needs no answer: it travels with the next question. The last one counts. */
  void tell(String kind, JsonNode value) {
    unsent.set(kind, value);
  }

  /** Offers something and returns Python's answer to it. */
  JsonNode offer(String kind, JsonNode value) {
    tell(kind, value);
    return ask("offer").get(kind);
  }

  /** Asks for a plan of all that was offered. */
  JsonNode plan() {
    return ask("plan");
  }

  /** Whether both are known to the same Python. */
  boolean isWith(Negotiation other) {
    return context.equals(other.context);
  }

  private JsonNode ask(String operation) {
    return Planners.ask(context, operation, question());
  }

  /** What tells Python which negotiation is meant, and what it has not been told yet. */
  ObjectNode question() {
    ObjectNode question = Planners.JSON.createObjectNode();
    question.put("scan", id);
    question.put("table", table);
    question.set("offers", unsent);
    question.put("source_filters_off", areSourceFiltersOff());
    unsent = Planners.JSON.createObjectNode();
    if (!begun) {
      begun = true;
      CLEANER.register(this, release(context, id));
    }
    return question;
  }

  /** Whether this session says so in so many words: by default it is off, which nobody meant. */
  private static boolean areSourceFiltersOff() {
    return !Boolean.parseBoolean(SQLConf.get().getConfString(SOURCE_FILTERS, "true"));
  }

  private static Runnable release(String context, String id) {
    return () -> {
      if (Planners.isLive(context)) {
        Planners.ask(context, "release", Map.of("scan", id));
      }
    };
  }
}
