package org.headrace.spark.transport;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.Deque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.TimeUnit;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.planner.Planner;

/**
 * A planner in a process that Py4J does not lead to, asked over its endpoint: a Spark Connect client's; driver JVM.
 *
 * <p>A connection serves one question at a time. Afterwards it waits for the next one, but not for long: nobody tells
 * this JVM when a client is done.
 */
public final class RemotePlanner implements Planner {
  private static final long IDLE_SECONDS = 30;

  private final JsonNode address;
  private final PartitionOrigin origin;
  private final Deque<PartitionConnection> idle = new ConcurrentLinkedDeque<>();

  /** {@code address} is that of the endpoint with the ticket for questions. Nothing is connected yet. */
  public RemotePlanner(JsonNode address) {
    int version = address.path("planner_version").asInt();
    if (version != Protocol.PLANNER_VERSION) {
      throw HeadraceException.transport(
          null,
          String.format(
              "the Spark Connect server has loaded a Headrace connector whose planner speaks version %d, the client's"
                  + " speaks %d; remove the other headrace-connector.jar from the server's classpath",
              Protocol.PLANNER_VERSION, version));
    }
    this.address = address;
    this.origin = PartitionOrigin.ofAddress(address);
  }

  @Override
  public String call(String operation, String question) {
    PartitionConnection connection = connection();
    boolean answered = false;
    try {
      String answer = connection.frames().ask(operation, question);
      answered = true;
      return answer;
    } catch (InterruptedIOException e) {
      throw HeadraceException.of("ScanEndedError", null, "the query was cancelled while its provider planned");
    } catch (IOException e) {
      throw HeadraceException.transport(
          null,
          "the Python process whose tables these are broke off while it planned: it ended, or closed its session"
              + " context (" + e + ")");
    } finally {
      if (answered) {
        keep(connection);
      } else {
        connection.finish();
      }
    }
  }

  private PartitionConnection connection() {
    for (PartitionConnection waiting = idle.poll(); waiting != null; waiting = idle.poll()) {
      if (waiting.isQuiet()) {
        return waiting;
      }
      waiting.finish();
    }
    return open(origin);
  }

  /** Has the context leave this JVM when the process is gone; holds a connection for that. Throws where it cannot. */
  public void holdLifeline(String context) {
    Lifeline.hold(context, () -> open(PartitionOrigin.ofAddress(address.get("lifeline"))));
  }

  private PartitionConnection open(PartitionOrigin origin) {
    try {
      return origin.open(0);
    } catch (HeadraceException e) {
      throw HeadraceException.transport(
          null,
          String.format(
              "the Spark Connect server cannot reach the Python process whose tables these are, at %s:%d (%s). That has"
                  + " ended or closed its session context; or no connection leads there: set spark.headrace.host to an"
                  + " address of it that server and executors can reach, or do without one, with"
                  + " SessionContext(spark, planning=\"server\") or hr.as_data_source(provider, name)",
              address.path("host").asText(), address.path("port").asInt(), e.getMessage()));
    }
  }

  private void keep(PartitionConnection connection) {
    idle.push(connection);
    CompletableFuture.delayedExecutor(IDLE_SECONDS, TimeUnit.SECONDS)
        .execute(
            () -> {
              if (idle.remove(connection)) {
                connection.finish();
              }
            });
  }
}
