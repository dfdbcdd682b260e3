package org.headrace.spark.catalog;

import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.sql.SparkSession;
import org.headrace.spark.planner.Planners;

/**
 * Hears of the ends of a Spark Connect server's sessions and operations; driver JVM, Spark's listener thread.
 *
 * <p>When a session closes, its contexts leave. When an operation is cancelled, Spark cancels the jobs that run at that
 * moment; adaptive execution may submit one more from another thread. This listener cancels that job too: no client can
 * reach it, and it would read its providers to their end. When a client is gone that did not close its context, the jobs
 * of the operations that use the context's tables are cancelled: Spark would run them for minutes.
 */
final class ConnectSessions extends SparkListener {
  private static final String TAGS = "spark.job.tags";
  private static final String OPERATION = "SparkConnect_OperationTag_";
  private static final int REMEMBERED = 1000;
  private static final long LATE_SECONDS = 5; // after a context has left its queries are planned no further
  private static final Map<SparkContext, ConnectSessions> LISTENING = new HashMap<>();

  private final SparkContext spark;
  private final Map<String, Client> clients = new HashMap<>(); // of each context that is there, or has just left
  private final Set<String> cancelled = newest();

  /** {@code isNamed}: whether settings still name the context, which a client takes back when it closes one. */
  private record Client(String session, BooleanSupplier isNamed, Set<String> operations) {}

  private ConnectSessions(SparkContext spark) {
    this.spark = spark;
  }

  /** Listens for a context of this session, until it and every other has left. */
  static void listen(SparkContext spark, String session, String context, BooleanSupplier isNamed) {
    Planners.install(
        context,
        "session",
        () -> {
          synchronized (LISTENING) {
            ConnectSessions listening = LISTENING.get(spark);
            if (listening == null) {
              listening = new ConnectSessions(spark);
              LISTENING.put(spark, listening);
              spark.addSparkListener(listening);
            }
            listening.clients.put(context, new Client(session, isNamed, newest()));
            return listening.forgettingSoon(context);
          }
        });
  }

  /** The operation that this thread plans reads or writes a table of the context. */
  static void uses(String context) {
    if (!Planners.isRemote(context)) {
      return;
    }
    SparkContext spark = SparkSession.active().sparkContext();
    String tags = spark.getLocalProperty(TAGS);
    synchronized (LISTENING) {
      ConnectSessions listening = LISTENING.get(spark);
      Client client = listening == null ? null : listening.clients.get(context);
      if (client != null && tags != null) {
        Stream.of(tags.split(",")).filter(tag -> tag.startsWith(OPERATION)).forEach(client.operations::add);
      }
    }
  }

  private static Set<String> newest() {
    return Collections.newSetFromMap(
        new LinkedHashMap<>() {
          @Override
          protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
            return size() > REMEMBERED;
          }
        });
  }

  private Runnable forgettingSoon(String context) {
    return () ->
        CompletableFuture.delayedExecutor(LATE_SECONDS, TimeUnit.SECONDS).execute(() -> forget(context));
  }

  private void forget(String context) {
    synchronized (LISTENING) {
      Client client = Planners.isLive(context) ? null : clients.remove(context);
      if (client == null) {
        return;
      }
      if (client.isNamed.getAsBoolean()) {
        client.operations.forEach(spark::cancelJobsWithTag);
      }
      if (clients.isEmpty()) {
        LISTENING.remove(spark);
        spark.removeSparkListener(this);
      }
    }
  }

  @Override
  public void onJobStart(SparkListenerJobStart job) {
    Properties properties = job.properties();
    String tags = properties == null ? null : properties.getProperty(TAGS);
    if (tags != null) {
      for (String tag : tags.split(",")) {
        if (cancelled.contains(tag)) {
          spark.cancelJobsWithTag(tag);
        }
      }
    }
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    String tag = ConnectEvents.cancelledOperation(event);
    if (tag != null) {
      cancelled.add(tag);
      spark.cancelJobsWithTag(tag); // one may have started since Spark cancelled those that ran
    }
    String closed = ConnectEvents.closedSession(event);
    if (closed != null) {
      contextsOf(closed).forEach(Planners::unregister);
    }
  }

  private List<String> contextsOf(String session) {
    synchronized (LISTENING) {
      return clients.keySet().stream().filter(context -> clients.get(context).session.equals(session)).toList();
    }
  }
}
