package org.headrace.spark.push;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.scheduler.JobFailed;
import org.apache.spark.scheduler.JobSucceeded$;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.headrace.spark.planner.Planners;

/**
 * Tells Python when a query is over; driver JVM, Spark's listener thread.
 *
 * <p>A streaming table's partitions whose tasks never ran (a LIMIT that the first ones satisfied, a query that failed)
 * have no reader that could tell their producers. toLocalIterator is the exception: for Spark it is over as soon as
 * the iterator exists, while its jobs run afterwards, one for each partition; it is over when one of them fails.
 */
public final class QueryEndListener extends SparkListener {
  private static final String EXECUTION = "spark.sql.execution.id";

  private final String context;
  private final Set<Long> iterated = new HashSet<>();
  private final Map<Integer, Long> jobs = new HashMap<>();

  public QueryEndListener(String context) {
    this.context = context;
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SparkListenerSQLExecutionStart start && isIterated(start)) {
      iterated.add(start.executionId());
    } else if (event instanceof SparkListenerSQLExecutionEnd end) {
      String error = end.errorMessage().isDefined() ? end.errorMessage().get() : "";
      if (!error.isEmpty() || !iterated.contains(end.executionId())) {
        tell(end.executionId(), error);
      }
    }
  }

  @Override
  public void onJobStart(SparkListenerJobStart start) {
    String execution = start.properties() == null ? null : start.properties().getProperty(EXECUTION);
    if (execution != null && iterated.contains(Long.parseLong(execution))) {
      jobs.put(start.jobId(), Long.parseLong(execution));
    }
  }

  @Override
  public void onJobEnd(SparkListenerJobEnd end) {
    Long execution = jobs.remove(end.jobId());
    if (execution != null && end.jobResult() != JobSucceeded$.MODULE$) {
      tell(execution, end.jobResult() instanceof JobFailed failed ? failed.exception().getMessage() : "");
    }
  }

  /** Spark's name for an action is the method that was called, which the call site begins with. */
  private static boolean isIterated(SparkListenerSQLExecutionStart start) {
    return start.details().contains(".toPythonIterator(") || start.details().contains(".toLocalIterator(");
  }

  private void tell(long execution, String error) {
    iterated.remove(execution);
    if (Planners.isLive(context)) {
      try {
        Planners.ask(context, "query_end", Map.of("execution", execution, "error", error));
      } catch (RuntimeException e) {
        // The Python process is ending, and its producers with it.
      }
    }
  }
}
