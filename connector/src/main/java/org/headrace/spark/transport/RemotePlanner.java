package org.headrace.spark.transport;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.Deque;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.TimeUnit;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.planner.Planner;
import org.headrace.spark.planner.Planners;

/**
 * A planner, asked over the endpoint of its process: the one that started this JVM, a Spark Connect client, or the process
 * beside a server; driver JVM.
 *
 * <p>A connection serves one question at a time, and then waits for the next one: as many are made as threads ever ask at
 * once. Those of Spark Connect do not wait for long, as nobody tells this JVM when a client is done.
 */
public final class RemotePlanner implements Planner {
  private static final long IDLE_SECONDS = 30;

  private final JsonNode address;
  private final boolean isRemote;
  private final PartitionOrigin origin;
  private final Deque<PartitionConnection> idle = new ConcurrentLinkedDeque<>();
  private final Set<PartitionConnection> asking = ConcurrentHashMap.newKeySet();
  private volatile boolean closed;

  private RemotePlanner(JsonNode address, boolean isRemote) {
    this.address = address;
    this.isRemote = isRemote;
    this.origin = PartitionOrigin.ofAddress(address);
  }

  /** For Spark Connect. {@code address} is that of the endpoint with the ticket for questions. Nothing is connected yet. */
  public RemotePlanner(JsonNode address) {
    this(address, true);
    int version = address.path("planner_version").asInt();
    if (version != Protocol.PLANNER_VERSION) {
      throw HeadraceException.transport(
          null,
          String.format(
              "the Spark Connect server has loaded a Headrace connector whose planner speaks version %d, the client's"
                  + " speaks %d; remove the other headrace-connector.jar from the server's classpath",
              Protocol.PLANNER_VERSION, version));
    }
  }

  /** Called from Python when a context of a classic session opens, with the address as JSON. Its connector is ours. */
  public static void attach(String context, String address) throws JsonProcessingException {
    RemotePlanner planner = new RemotePlanner(Planners.JSON.readTree(address), false);
    Planners.connect(context, planner, false);
    Planners.install(context, "planner", () -> planner::close);
    boolean held = false;
    try {
      planner.holdLifeline(context);
      held = true;
    } finally {
      if (!held) {
        Planners.unregister(context);
      }
    }
  }

  @Override
  public String call(String operation, String question) {
    PartitionConnection connection = connection();
    asking.add(connection);
    try {
      return ask(connection, operation, question);
    } finally {
      asking.remove(connection);
    }
  }

  @Override
  public String tell(String operation, String question) {
    return ask(connection(), operation, question);
  }

  private String ask(PartitionConnection connection, String operation, String question) {
    boolean answered = false;
    try {
      if (closed) { // before close() could see this connection
        throw Planners.closed();
      }
      String answer = connection.frames().ask(operation, question);
      answered = true;
      return answer;
    } catch (InterruptedIOException e) {
      throw Thread.currentThread().isInterrupted() || !closed ? cancelled() : Planners.closed();
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

  private static HeadraceException cancelled() {
    return HeadraceException.of("ScanEndedError", null, "the query was cancelled while its provider planned");
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
      if (Thread.currentThread().isInterrupted()) {
        throw cancelled();
      }
      if (closed) {
        throw Planners.closed();
      }
      if (!isRemote) {
        throw e;
      }
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
    if (closed) {
      finishIdle();
    } else if (isRemote) {
      CompletableFuture.delayedExecutor(IDLE_SECONDS, TimeUnit.SECONDS)
          .execute(
              () -> {
                if (idle.remove(connection)) {
                  connection.finish();
                }
              });
    }
  }

  /** The context leaves: those who asked wait no longer, those who told something still get their answer. */
  private void close() {
    closed = true;
    asking.forEach(connection -> connection.frames().cancel());
    finishIdle();
  }

  private void finishIdle() {
    for (PartitionConnection waiting = idle.poll(); waiting != null; waiting = idle.poll()) {
      waiting.finish();
    }
  }
}
