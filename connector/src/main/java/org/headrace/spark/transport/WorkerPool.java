package org.headrace.spark.transport;

import java.io.IOException;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkException;
import org.apache.spark.api.python.PythonWorker;
import org.headrace.spark.Versions;
import scala.Option;
import scala.Tuple2;

/** Spark's Python workers of one kind; executor JVM, any thread. */
record WorkerPool(String python, scala.collection.immutable.Map<String, String> env) {
  private static final String WORKER_MODULE = "headrace.worker.task";
  private static final String DAEMON_MODULE = "headrace.worker.daemon";

  /** A worker and its process, which Spark tells wherever its workers are forked by a daemon. */
  record Worker(SparkEnv spark, PythonWorker connection, Option<?> process) {
    /** Whether its process runs; unknown is yes. */
    boolean isAlive() {
      return process.isEmpty() || Versions.isAlive(process.get());
    }

    /** Whether it is one of the Spark that runs now. */
    private boolean isOfThisSpark() {
      return spark != null && spark == SparkEnv.get();
    }
  }

  /** An idle worker, or a new one. Throws an IOException that tells why none could be started. */
  Worker take() throws IOException {
    SparkEnv spark = SparkEnv.get();
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

  /** Gives the worker back to Spark. */
  void release(Worker worker) {
    if (worker.isOfThisSpark()) {
      worker.spark.releasePythonWorker(python, WORKER_MODULE, DAEMON_MODULE, env, worker.connection);
    } else {
      worker.connection.stop();
    }
  }

  /** Ends the worker's process if it runs: else its number may be another process's, and Spark kills by numbers. */
  void destroy(Worker worker) {
    if (worker.isOfThisSpark() && worker.isAlive()) {
      worker.spark.destroyPythonWorker(python, WORKER_MODULE, DAEMON_MODULE, env, worker.connection);
    } else {
      worker.connection.stop();
    }
  }
}
