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
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.headrace.spark.planner.Planners;

/**
 * Hears of the ends of a Spark Connect server's sessions and operations; driver JVM, Spark's listener thread.
 *
 * <p>When a session closes, its contexts leave. When an operation is cancelled, Spark cancels the jobs that run at that
 * moment; adaptive execution may submit one more from another thread. This listener cancels that job too: no client can
 * reach it, and it would read its providers to their end.
 */
final class ConnectSessions extends SparkListener {
  private static final String TAGS = "spark.job.tags";
  private static final int REMEMBERED = 1000;
  private static final long LATE_SECONDS = 5; // after a context has left its queries are planned no further
  private static final Map<SparkContext, ConnectSessions> LISTENING = new HashMap<>();

  private final SparkContext spark;
  private final Map<String, String> sessions = new HashMap<>(); // of each context that is there, or has just left
  private final Set<String> cancelled =
      Collections.newSetFromMap(
          new LinkedHashMap<>() {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
              return size() > REMEMBERED;
            }
          });

  private ConnectSessions(SparkContext spark) {
    this.spark = spark;
  }

  /** Listens for a context of this session, until it and every other has left. */
  static void listen(SparkContext spark, String session, String context) {
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
            listening.sessions.put(context, session);
            return listening.forgettingSoon(context);
          }
        });
  }

  private Runnable forgettingSoon(String context) {
    return () ->
        CompletableFuture.delayedExecutor(LATE_SECONDS, TimeUnit.SECONDS).execute(() -> forget(context));
  }

  private void forget(String context) {
    synchronized (LISTENING) {
      if (!Planners.isLive(context) && sessions.remove(context) != null && sessions.isEmpty()) {
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
      return sessions.keySet().stream().filter(context -> sessions.get(context).equals(session)).toList();
    }
  }
}
