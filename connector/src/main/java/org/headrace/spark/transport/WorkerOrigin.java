package org.headrace.spark.transport;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.io.IOException;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.SparkFiles;
import org.headrace.spark.Versions;
import org.headrace.spark.planner.Words;
import scala.jdk.javaapi.CollectionConverters;

/** EXECUTORS placement: a pickled plan that runs in Spark's own Python workers. */
final class WorkerOrigin extends PartitionOrigin {
  private static final long serialVersionUID = 1L;
  private final String python;
  private final String archive;
  private final byte[] pickledTask;
  private final String sessionOfLogs; // null where what workers log is not kept

  private WorkerOrigin(String table, String python, String archive, byte[] pickledTask) {
    super(table);
    this.python = python;
    this.archive = archive;
    this.pickledTask = pickledTask;
    this.sessionOfLogs = Versions.sessionOfLogs();
  }

  /** A Spark Connect client cannot name the Python of the server: it is found here, and so are the client's files. */
  static WorkerOrigin from(JsonNode worker, String table) {
    String python = worker.get(Words.PYTHON).asText();
    String archive = worker.get(Words.ARCHIVE).asText();
    return new WorkerOrigin(
        table,
        python.isEmpty() ? SessionPython.executable() : python,
        python.isEmpty() ? SessionPython.file(archive) : archive,
        Base64.getDecoder().decode(worker.get(Words.TASK).asText()));
  }

  @Override
  public boolean producesSameAs(PartitionOrigin other) {
    return other instanceof WorkerOrigin worker && Arrays.equals(pickledTask, worker.pickledTask);
  }

  @Override
  PartitionConnection connect(int partition, boolean sends) throws IOException {
    byte[] facts = TaskFacts.json(archive().getParent());
    return WorkerConnection.open(place(partition), workers(), facts, pickledTask, sends);
  }

  /** The package, beside the other files that were added: by all, or by the client of a Spark Connect session. */
  private File archive() {
    return new File(SparkFiles.getRootDirectory(), archive).getAbsoluteFile();
  }

  /** The same every time, or tasks would not share workers. */
  private WorkerPool workers() {
    Map<String, String> env = new HashMap<>();
    env.put("SPARK_REUSE_WORKER", "1");
    env.put("PYTHONPATH", archive().getPath());
    env.put("PYTHONHASHSEED", "0");
    if (sessionOfLogs != null) {
      env.put("PYSPARK_SPARK_SESSION_UUID", sessionOfLogs); // Spark then looks for log lines in a worker's output
    }
    return new WorkerPool(python, scala.collection.immutable.Map.from(CollectionConverters.asScala(env)));
  }
}
