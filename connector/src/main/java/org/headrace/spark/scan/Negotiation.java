package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.ref.Cleaner;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.internal.SQLConf;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;

/**
 * The JVM's end of one scan that is negotiated with Python: an id, under which Python keeps all that was offered,
 * answered and planned; driver JVM.
 *
 * <p>The scan's builder, the scan and the reader factories of its plans hold it (an RDD may outlive the scan). When all of
 * them are garbage, nothing in the driver JVM can go on with the negotiation or run a plan, and Python is told. When the
 * reader factory of a plan that was replaced is garbage, Python is told of that plan alone.
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
    return Planners.ask(context, Words.OFFER, question()).get(kind);
  }

  /** Asks for a plan of all that was offered. */
  JsonNode plan() {
    return Planners.ask(context, Words.PLAN, question());
  }

  /** Asks for a plan like the one with this id, which these runtime filters narrow. */
  JsonNode narrow(String plan, ArrayNode runtimeFilters) {
    ObjectNode question = question().put(Words.NARROWS, plan);
    question.set(Words.RUNTIME_FILTERS, runtimeFilters);
    return Planners.ask(context, Words.PLAN, question);
  }

  /** Asks for a plan of one range of a stream, from after {@code start} up to {@code end}: JSON of offsets. */
  JsonNode planBetween(String start, String end) {
    return Planners.ask(context, Words.PLAN, question().put(Words.START, start).put(Words.END, end));
  }

  /**
   * Python drops a plan that was replaced when {@code readers}, by which alone it can be read, are garbage; or earlier,
   * when what is returned is told to clean.
   */
  Cleaner.Cleanable releaseWith(Object readers, String plan) {
    return CLEANER.register(readers, telling(context, Words.RELEASE_PLAN, Map.of(Words.SCAN, id, Words.PLAN, plan)));
  }

  /** Whether Python was asked anything. */
  boolean hasBegun() {
    return begun;
  }

  /** Whom to ask. */
  String context() {
    return context;
  }

  /** Whether both are known to the same Python. */
  boolean isWith(Negotiation other) {
    return context.equals(other.context);
  }

  /** What tells Python which negotiation is meant, and what it has not been told yet. */
  ObjectNode question() {
    ObjectNode question = Planners.JSON.createObjectNode();
    question.put(Words.SCAN, id);
    question.put(Words.TABLE, table);
    question.set(Words.OFFERS, unsent);
    question.put(Words.SOURCE_FILTERS_OFF, areSourceFiltersOff());
    unsent = Planners.JSON.createObjectNode();
    if (!begun) {
      begun = true;
      CLEANER.register(this, telling(context, Words.RELEASE, Map.of(Words.SCAN, id)));
    }
    return question;
  }

  /** Whether this session says so in so many words: by default it is off, which nobody meant. */
  private static boolean areSourceFiltersOff() {
    return !Boolean.parseBoolean(SQLConf.get().getConfString(SOURCE_FILTERS, "true"));
  }

  /** Static: what the cleaner runs must not hold what it waits for. */
  private static Runnable telling(String context, String operation, Map<String, String> question) {
    return () -> {
      if (Planners.isLive(context)) {
        Planners.ask(context, operation, question);
      }
    };
  }
}
