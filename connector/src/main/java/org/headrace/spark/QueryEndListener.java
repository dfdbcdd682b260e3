package org.headrace.spark;

import java.util.Map;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;

/**
 * Tells Python when a query is over; driver JVM, Spark's listener thread.
 *
 * <p>A streaming table's partitions whose tasks never ran (a LIMIT that the first ones satisfied, a query that failed)
 * have no reader that could tell their producers.
 */
public final class QueryEndListener extends SparkListener {
  private final String context;

  public QueryEndListener(String context) {
    this.context = context;
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SparkListenerSQLExecutionEnd end && Planners.isLive(context)) {
      Planners.ask(context, "query_end", Map.of("execution", end.executionId()));
    }
  }
}
