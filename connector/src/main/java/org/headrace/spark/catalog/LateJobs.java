package org.headrace.spark.catalog;

import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobStart;

/**
 * Cancels jobs that start after the operation of a Spark Connect session to which they belong was cancelled; driver JVM.
 *
 * <p>Spark cancels the jobs that run at that moment. Adaptive execution submits jobs on other threads, so that one more may
 * come; no client can reach it then, and it would read its providers to their end.
 */
final class LateJobs extends SparkListener {
  private static final String TAGS = "spark.job.tags";
  private static final int REMEMBERED = 1000;
  private static final Map<SparkContext, LateJobs> INSTALLED = new LinkedHashMap<>();

  private final SparkContext spark;
  private final Set<String> sessions = new HashSet<>();
  private final Set<String> cancelled =
      Collections.newSetFromMap(
          new LinkedHashMap<>() {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
              return size() > REMEMBERED;
            }
          });

  private LateJobs(SparkContext spark) {
    this.spark = spark;
  }

  /** Watches until this session, and every other that asked for it, is closed. */
  static void watch(SparkContext spark, String session) {
    synchronized (INSTALLED) {
      LateJobs watching = INSTALLED.get(spark);
      if (watching == null) {
        watching = new LateJobs(spark);
        INSTALLED.put(spark, watching);
        spark.addSparkListener(watching);
      }
      watching.sessions.add(session);
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
    String session = ConnectEvents.closedSession(event);
    if (session != null) {
      forget(session);
    }
  }

  private void forget(String session) {
    synchronized (INSTALLED) {
      if (sessions.remove(session) && sessions.isEmpty()) {
        INSTALLED.remove(spark);
        spark.removeSparkListener(this);
      }
    }
  }
}
