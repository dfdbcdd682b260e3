package org.headrace.spark.stream;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.ref.Cleaner;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;

/**
 * The offsets of one stream that a query reads, as Python tells them; driver JVM.
 *
 * <p>An idle query of Spark's asks for the latest offset ninety times a second. Python is asked once, and then, on a thread
 * of its own, when it is time to ask again: until that answer comes there is nothing new. Nothing is lost meanwhile, as each
 * answer says how often the provider had advanced before it was asked, and Python answers at once where that is history.
 */
final class StreamOffsets {
  private static final Cleaner CLEANER = Cleaner.create();
  private static final ExecutorService BACKGROUND =
      Executors.newCachedThreadPool(
          runnable -> {
            Thread thread = new Thread(runnable, "headrace-stream");
            thread.setDaemon(true);
            return thread;
          });

  private final String context;
  private final String table;
  private final String id = UUID.randomUUID().toString();
  private final Cleaner.Cleanable end;
  private Future<?> quiet; // ends when there may be something after quietAt
  private String quietAt;
  private String behindOf; // the offset of the answer behind
  private OptionalLong behind = OptionalLong.empty();

  StreamOffsets(String context, String table) {
    this.context = context;
    this.table = table;
    this.end = CLEANER.register(this, ending(context, table, id));
  }

  /** Where a query without a checkpoint starts. */
  String initial() {
    return ask(Words.STREAM_INITIAL, question()).get(Words.START).asText();
  }

  /** How far a micro-batch that starts there can go; null where there is nothing new. One call at a time. */
  String latest(String start, ReadLimit limit, boolean availableNow) {
    if (quiet != null && !quiet.isDone() && start.equals(quietAt)) {
      return null;
    }
    ObjectNode question = question().put(Words.START, start);
    question.put(Words.MAX_ROWS, StreamOptions.maxRows(limit));
    question.put(Words.MAX_BYTES, StreamOptions.maxBytes(limit));
    question.put(Words.AVAILABLE_NOW, availableNow);
    JsonNode answer = ask(Words.STREAM_LATEST, question);
    String latest = answer.get(Words.END).asText();
    if (!latest.equals(start)) {
      return latest;
    }
    ObjectNode waiting = question();
    waiting.set(Words.ADVANCES, answer.get(Words.ADVANCES));
    quietAt = start;
    quiet = BACKGROUND.submit(() -> Planners.ask(context, Words.STREAM_WAIT, waiting)); // an error comes up when asked again
    return null;
  }

  void commit(String end) {
    ask(Words.STREAM_COMMIT, question().put(Words.END, end));
  }

  /** How many rows come after an offset, where that is known. Asked once per offset: idle queries ask all the time. */
  OptionalLong rowsBehind(String offset) {
    if (!offset.equals(behindOf)) {
      JsonNode rows = ask(Words.STREAM_BEHIND, question().put(Words.END, offset)).get(Words.ROWS);
      behind = rows.isNull() ? OptionalLong.empty() : OptionalLong.of(rows.asLong());
      behindOf = offset;
    }
    return behind;
  }

  /** The query has stopped. Python learns of it soon: who stops a query may be interrupted. Idempotent. */
  void end() {
    end.clean();
  }

  private ObjectNode question() {
    return Planners.JSON.createObjectNode().put(Words.STREAM, id).put(Words.TABLE, table);
  }

  private JsonNode ask(String operation, ObjectNode question) {
    return Planners.interruptible(() -> Planners.ask(context, operation, question));
  }

  /** Static: what the cleaner runs must not hold what it waits for. */
  private static Runnable ending(String context, String table, String id) {
    ObjectNode question = Planners.JSON.createObjectNode().put(Words.STREAM, id).put(Words.TABLE, table);
    return () ->
        BACKGROUND.execute(
            () -> {
              if (Planners.isLive(context)) {
                Planners.ask(context, Words.STREAM_END, question);
              }
            });
  }
}
