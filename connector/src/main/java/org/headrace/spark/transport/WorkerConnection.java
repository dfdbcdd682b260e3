package org.headrace.spark.transport;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.python.PythonWorker;
import org.headrace.spark.Versions;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A partition produced by one of Spark's Python workers; executor JVM.
 *
 * <p>After the request the JVM writes exactly one more byte: DONE when the stream was read to its end, STOP
 * otherwise. A stopped worker closes the user's generator, ends its stream and goes back to the pool like any other;
 * one that does not manage that in time is killed.
 */
final class WorkerConnection implements PartitionConnection {
  private static final String WORKER_MODULE = "headrace.worker.task";
  private static final String DAEMON_MODULE = "headrace.worker.daemon";
  private static final long GRACE_SECONDS = 5;

  /** Threads that see stopped streams to their end, so that no task has to wait for one. */
  private static final Executor REAPERS =
      Executors.newCachedThreadPool(
          runnable -> {
            Thread thread = new Thread(runnable, "headrace-reaper");
            thread.setDaemon(true);
            return thread;
          });

  private final String python;
  private final scala.collection.immutable.Map<String, String> env;
  private final PythonWorker worker;
  private final Option<?> process;
  private final FrameInput frames;
  private boolean gone;

  private WorkerConnection(
      String python,
      scala.collection.immutable.Map<String, String> env,
      PythonWorker worker,
      Option<?> process,
      long nonce) {
    this.python = python;
    this.env = env;
    this.worker = worker;
    this.process = process;
    this.frames = new FrameInput(worker.channel(), worker.selector(), worker.selectionKey(), nonce);
  }

  static WorkerConnection open(String python, Map<String, String> env, int partition, byte[] task)
      throws IOException {
    scala.collection.immutable.Map<String, String> scalaEnv =
        scala.collection.immutable.Map.from(CollectionConverters.asScala(env));
    Tuple2<PythonWorker, ? extends Option<?>> created =
        SparkEnv.get().createPythonWorker(python, WORKER_MODULE, DAEMON_MODULE, scalaEnv, true);
    long nonce = ThreadLocalRandom.current().nextLong();
    WorkerConnection connection = new WorkerConnection(python, scalaEnv, created._1(), created._2(), nonce);
    boolean asked = false;
    try {
      connection.frames.write(Protocol.request(nonce, partition, task));
      asked = true;
    } finally {
      if (!asked) {
        connection.destroy();
      }
    }
    return connection;
  }

  @Override
  public FrameInput frames() {
    return frames;
  }

  @Override
  public void finish() {
    if (gone) {
      return;
    }
    try {
      frames.write(ByteBuffer.wrap(new byte[] {Protocol.DONE}));
      release();
    } catch (IOException e) {
      destroy(); // it died after its last frame: all rows have come, so that is no reason to fail
    }
  }

  @Override
  public void abandon(String reason) {
    if (gone) {
      return;
    }
    frames.cancel();
    Executor later = CompletableFuture.delayedExecutor(GRACE_SECONDS, TimeUnit.SECONDS, REAPERS);
    Future<?> kill = CompletableFuture.runAsync(this::destroyIfAlive, later);
    REAPERS.execute(
        () -> {
          try {
            frames.resume();
            frames.write(ByteBuffer.wrap(new byte[] {Protocol.STOP}));
            frames.drain();
            if (kill.cancel(false)) {
              release();
            }
          } catch (IOException | RuntimeException e) {
            // The worker is gone or talks nonsense. Close our side so that it notices; the kill timer does the rest.
            worker.stop();
          }
        });
  }

  @Override
  public String lost(String table, int partition) {
    gone = true;
    String pid = process.isDefined() ? process.get().toString().replaceFirst("\\D*(\\d+).*", "$1") : "";
    destroy();
    return String.format(
        "TransportError: the Python worker%s died while it produced partition %d of table '%s'. It was killed or it"
            + " crashed; the usual causes are running out of memory (yield smaller batches, or give the executor more"
            + " memory overhead) and native code that segfaults. Its standard error is in the executor's log.",
        pid.isEmpty() ? "" : " (pid " + pid + ")", partition, table);
  }

  private void release() {
    SparkEnv env = SparkEnv.get();
    if (env != null) {
      env.releasePythonWorker(python, WORKER_MODULE, DAEMON_MODULE, this.env, worker);
    }
  }

  private void destroyIfAlive() {
    if (process.isEmpty() || Versions.isAlive(process.get())) {
      destroy();
    }
  }

  private void destroy() {
    gone = true;
    SparkEnv env = SparkEnv.get();
    if (env != null) {
      env.destroyPythonWorker(python, WORKER_MODULE, DAEMON_MODULE, this.env, worker);
    }
  }
}
