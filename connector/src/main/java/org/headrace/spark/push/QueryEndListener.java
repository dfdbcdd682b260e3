package org.headrace.spark.push;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.JobFailed;
import org.apache.spark.scheduler.JobSucceeded$;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;

/**
 * Tells Python when a query is over; driver JVM, Spark's listener thread.
 *
 * <p>A push table's partitions whose tasks never ran (a LIMIT that the first ones satisfied, a query that failed or
 * was cancelled) have no reader that could tell their producers. toLocalIterator is the exception: for Spark it is over
 * as soon as the iterator exists, while its jobs run afterwards, one for each partition; it is over when one of them
 * fails, or when the thread that serves it ends, because the iterator came to its end or was dropped.
 *
 * <p>A client of a Spark Connect server hears of its own session's queries alone: errors of others are not for it.
 */
public final class QueryEndListener extends SparkListener {
  private static final String EXECUTION = "spark.sql.execution.id";
  private static final String SERVED = ".toPythonIterator(";
  private static final String ITERATOR_THREAD = "serve toLocalIterator";
  private static final String ITERATOR_DROPPED = "the query's iterator (toLocalIterator) was dropped";
  private static final long LOOK_MILLIS = 200;
  private static final ScheduledExecutorService WATCH =
      Executors.newSingleThreadScheduledExecutor(
          runnable -> daemon(runnable, "headrace-iterators"));

  private final String context;
  private final SparkSession session; // whose queries it is told of; null: those of every session
  private final ExecutorService telling; // a Python process that answers late keeps no other listener waiting
  private final Map<Long, Boolean> iterated = new ConcurrentHashMap<>(); // and whether a thread serves it
  private final Map<Integer, Long> jobs = new HashMap<>();

  private QueryEndListener(String context, SparkSession session) {
    this.context = context;
    this.session = Planners.isRemote(context) ? session : null;
    this.telling = Executors.newSingleThreadExecutor(runnable -> daemon(runnable, "headrace-query-ends"));
  }

  /** Tells the context of every query that ends from now on, until it leaves. */
  public static void install(String context) {
    Planners.install(
        context,
        "query ends",
        () -> {
          SparkSession session = SparkSession.active();
          SparkContext spark = session.sparkContext();
          QueryEndListener listener = new QueryEndListener(context, session);
          spark.addSparkListener(listener);
          return () -> {
            spark.removeSparkListener(listener);
            listener.telling.shutdownNow();
          };
        });
  }

  private static Thread daemon(Runnable runnable, String name) {
    Thread thread = new Thread(runnable, name);
    thread.setDaemon(true);
    return thread;
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SparkListenerSQLExecutionStart start && isIterated(start)) {
      iterated.put(start.executionId(), start.details().contains(SERVED));
    } else if (event instanceof SparkListenerSQLExecutionEnd end && isToldOf(end.qe())) {
      String error = end.errorMessage().isDefined() ? end.errorMessage().get() : "";
      Set<String> tables = pushTables(end.qe());
      Boolean served = iterated.get(end.executionId());
      if (!error.isEmpty() || served == null) {
        tell(end.executionId(), error, "", tables);
      } else if (served) {
        // Other iterators may be among them; this one is, or has ended already.
        watch(end.executionId(), tables, iteratorThreads());
      }
    }
  }

  private boolean isToldOf(QueryExecution query) {
    return session == null || (query != null && query.sparkSession() == session);
  }

  @Override
  public void onJobStart(SparkListenerJobStart start) {
    String execution = start.properties() == null ? null : start.properties().getProperty(EXECUTION);
    if (execution != null && iterated.containsKey(Long.parseLong(execution))) {
      jobs.put(start.jobId(), Long.parseLong(execution));
    }
  }

  @Override
  public void onJobEnd(SparkListenerJobEnd end) {
    Long execution = jobs.remove(end.jobId());
    if (execution != null && end.jobResult() != JobSucceeded$.MODULE$) {
      String error = end.jobResult() instanceof JobFailed failed ? failed.exception().getMessage() : "";
      tell(execution, error, "", Set.of());
    }
  }

  /** Spark is being stopped: no query will end any more, and none will begin. */
  @Override
  public void onApplicationEnd(SparkListenerApplicationEnd end) {
    ask(Words.APPLICATION_END, Map.of());
  }

  /**
   * Spark's name for an action is the method that was called, which the call site begins with. Of an iterator in the JVM
   * nobody can tell when it is dropped: PySpark's is served by a thread. A Connect server has none of them.
   */
  private boolean isIterated(SparkListenerSQLExecutionStart start) {
    String details = start.details();
    return session == null && (details.contains(SERVED) || details.contains(".toLocalIterator("));
  }

  private static List<Thread> iteratorThreads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().startsWith(ITERATOR_THREAD))
        .toList();
  }

  private void watch(long execution, Set<String> tables, List<Thread> serving) {
    WATCH.schedule(
        () -> {
          if (!iterated.containsKey(execution) || !Planners.isLive(context)) {
            return;
          }
          if (serving.stream().anyMatch(Thread::isAlive)) {
            watch(execution, tables, serving);
          } else {
            tell(execution, "", ITERATOR_DROPPED, tables);
          }
        },
        LOOK_MILLIS,
        TimeUnit.MILLISECONDS);
  }

  /** The push tables that a query was planned to scan; none where it was not planned, or refused. */
  private static Set<String> pushTables(QueryExecution query) {
    try {
      return query == null || !query.tracker().phases().contains("optimization")
          ? Set.of()
          : SingleScanRule.pushTables(query.optimizedPlan());
    } catch (RuntimeException e) {
      return Set.of(); // its planning failed, with this
    }
  }

  private void tell(long execution, String error, String reason, Set<String> tables) {
    iterated.remove(execution);
    ask(Words.QUERY_END, Map.of(Words.EXECUTION, execution, Words.ERROR, error, Words.REASON, reason, Words.TABLES, tables));
  }

  private void ask(String operation, Map<String, ?> question) {
    try {
      telling.execute(() -> tell(operation, question));
    } catch (RejectedExecutionException e) {
      return; // the context has left
    }
  }

  private void tell(String operation, Map<String, ?> question) {
    try {
      if (Planners.isLive(context)) {
        Planners.ask(context, operation, question);
      }
    } catch (Exception e) { // what fails while planning is an AnalysisException, which is a checked one
      return; // the Python process is ending, and its producers with it
    }
  }
}
