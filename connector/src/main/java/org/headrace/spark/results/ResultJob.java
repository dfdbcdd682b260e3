package org.headrace.spark.results;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.util.Arrays;
import java.util.Map;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.CollectLimitExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.headrace.spark.Versions;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.transport.PartitionOrigin;
import scala.Option;
import scala.runtime.AbstractFunction0;

/** Runs a query whose tasks send their rows, as Arrow, to the driver's Python process; driver JVM. */
public final class ResultJob {
  private static final int MAX_TAKEN_ROWS = 64 * 1024;
  private static final String TIME_ZONE = "UTC";

  private ResultJob() {}

  /**
   * Runs to the end of the query on the calling thread; called from Python.
   *
   * @param address where to send to, as JSON; see Endpoint.address in Python
   * @param tag a job tag, by which the caller cancels
   */
  public static void run(Dataset<Row> query, String context, String address, String inbox, String tag)
      throws JsonProcessingException {
    PartitionOrigin origin = PartitionOrigin.ofAddress(Planners.JSON.readTree(address));
    QueryExecution execution = query.queryExecution();
    SparkContext spark = query.sparkSession().sparkContext();
    spark.addJobTag(tag);
    try {
      SQLExecution.withNewExecutionId(
          execution,
          Option.apply("headrace execute_stream"),
          new AbstractFunction0<Void>() {
            @Override
            public Void apply() {
              execution.executedPlan().resetMetrics();
              if (isTaken(execution)) {
                announce(context, inbox, 1);
                InternalRow[] rows = execution.executedPlan().executeCollect();
                ResultSender.send(origin, 0, arrowSchema(query.schema()), Arrays.asList(rows).iterator());
              } else {
                JavaRDD<InternalRow> rows = execution.toRdd().toJavaRDD();
                announce(context, inbox, rows.getNumPartitions());
                sendAll(rows, query.schema().json(), origin);
              }
              return null;
            }
          });
    } finally {
      spark.removeJobTag(tag);
    }
  }

  /** The Arrow schema of a query's result, as an IPC message; called from Python before the query runs. */
  public static byte[] schema(Dataset<Row> query) {
    return ResultSender.serialized(arrowSchema(query.schema()));
  }

  /**
   * Whether to let Spark take partition after partition until a small LIMIT has enough, long before the last one
   * perhaps. A single partition stops by itself, and can be sent as it comes.
   */
  private static boolean isTaken(QueryExecution execution) {
    return execution.sparkPlan() instanceof CollectLimitExec limit
        && limit.limit() >= 0
        && limit.limit() <= MAX_TAKEN_ROWS
        && limit.child().outputPartitioning() != SinglePartition$.MODULE$
        && !isOneTask(execution.executedPlan());
  }

  /** A scan does not say of its one partition that it is a SinglePartition: the RDD has to be asked. */
  private static boolean isOneTask(SparkPlan plan) {
    return plan instanceof CollectLimitExec limit && limit.child().execute().getNumPartitions() == 1;
  }

  private static void sendAll(JavaRDD<InternalRow> rows, String schema, PartitionOrigin origin) {
    rows.foreachPartition(
        partition -> {
          StructType type = (StructType) DataType.fromJson(schema);
          ResultSender.send(origin, TaskContext.getPartitionId(), arrowSchema(type), partition);
        });
  }

  private static void announce(String context, String inbox, int partitions) {
    Planners.ask(context, "result_partitions", Map.of("inbox", inbox, "partitions", partitions));
  }

  private static Schema arrowSchema(StructType type) {
    return Versions.arrowSchema(type, TIME_ZONE);
  }
}
