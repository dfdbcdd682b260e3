package org.headrace.spark.transport;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkException;
import org.apache.spark.api.python.PythonWorker;
import scala.Option;
import scala.Tuple2;

/**
 * Spark's Python workers of one kind, and before them those that have just served a task, which wait a moment for the next
 * one; executor JVM, any thread.
 *
 * <p>Spark opens a selector for each task and asks the system whether the process is alive, which takes as long as to
 * read a small partition. A worker that died is noticed by whoever asks it next.
 */
record WorkerPool(String python, scala.collection.immutable.Map<String, String> env) {
  private static final String WORKER_MODULE = "headrace.worker.task";
  private static final String DAEMON_MODULE = "headrace.worker.daemon";
  private static final long KEPT_MILLIS = 500;

  private static final Map<WorkerPool, ConcurrentLinkedDeque<Kept>> KEPT = new ConcurrentHashMap<>();
  private static final AtomicBoolean SWEEPING = new AtomicBoolean();

  /** A worker and its process, which Spark does not tell for every kind of worker. */
  record Worker(SparkEnv spark, PythonWorker connection, Option<?> process) {}

  private record Kept(Worker worker, long since) {}

  /** One that waits, or one of Spark's. Throws an IOException that tells why none could be started. */
  Worker take() throws IOException {
    SparkEnv spark = SparkEnv.get();
    ConcurrentLinkedDeque<Kept> waiting = KEPT.get(this);
    for (Kept kept = poll(waiting); kept != null; kept = poll(waiting)) {
      if (kept.worker.spark == spark) {
        return kept.worker;
      }
      kept.worker.connection.stop(); // of a Spark that was stopped
    }
    try {
      Tuple2<PythonWorker, ? extends Option<?>> created =
          spark.createPythonWorker(python, WORKER_MODULE, DAEMON_MODULE, env, true);
      return new Worker(spark, created._1(), created._2());
    } catch (Exception e) { // Scala declares none
      if (e instanceof SparkException) {
        throw new IOException(
            String.format(
                "no Python worker could be started with %s (%s). Executors need a Python of the same minor version as"
                    + " the process whose tables these are, with pyarrow; set PYSPARK_PYTHON, where Spark is started, to"
                    + " one that has it",
                python, lastWords(String.valueOf(e.getMessage()))),
            e);
      }
      throw e;
    }
  }

  /** The exception with which Python ended, below its traceback in Spark's message; all of that where there is none. */
  private static String lastWords(String message) {
    String said = message.split("\nPYTHONPATH was:", 2)[0].strip();
    return said.substring(said.lastIndexOf('\n') + 1).strip();
  }

  private static Kept poll(ConcurrentLinkedDeque<Kept> waiting) {
    return waiting == null ? null : waiting.pollFirst();
  }

  /** The worker has served its task and can serve another one at once. */
  void keep(Worker worker) {
    KEPT.computeIfAbsent(this, kind -> new ConcurrentLinkedDeque<>()).addFirst(new Kept(worker, System.nanoTime()));
    if (SWEEPING.compareAndSet(false, true)) {
      sweepLater();
    }
  }

  /** Gives the worker back to Spark. */
  void release(Worker worker) {
    if (worker.spark == SparkEnv.get()) {
      worker.spark.releasePythonWorker(python, WORKER_MODULE, DAEMON_MODULE, env, worker.connection);
    } else {
      worker.connection.stop();
    }
  }

  /** Ends the worker's process. */
  void destroy(Worker worker) {
    if (worker.spark == SparkEnv.get()) {
      worker.spark.destroyPythonWorker(python, WORKER_MODULE, DAEMON_MODULE, env, worker.connection);
    } else {
      worker.connection.stop();
    }
  }

  private static void sweepLater() {
    CompletableFuture.delayedExecutor(KEPT_MILLIS, TimeUnit.MILLISECONDS).execute(WorkerPool::sweep);
  }

  /** Those that have waited long enough go back to Spark. */
  private static void sweep() {
    long now = System.nanoTime();
    boolean any = false;
    for (Map.Entry<WorkerPool, ConcurrentLinkedDeque<Kept>> entry : KEPT.entrySet()) {
      ConcurrentLinkedDeque<Kept> waiting = entry.getValue();
      for (Kept last = waiting.pollLast(); last != null; last = waiting.pollLast()) {
        if (now - last.since < KEPT_MILLIS * 1_000_000) {
          waiting.addLast(last);
          break;
        }
        entry.getKey().release(last.worker);
      }
      any |= !waiting.isEmpty();
    }
    if (any) {
      sweepLater();
      return;
    }
    SWEEPING.set(false);
    if (KEPT.values().stream().anyMatch(waiting -> !waiting.isEmpty()) && SWEEPING.compareAndSet(false, true)) {
      sweepLater(); // one came meanwhile, and left it to this sweep
    }
  }
}
