package org.headrace.spark.results;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.util.Map;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.CollectLimitExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.headrace.spark.Versions;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;
import org.headrace.spark.send.BatchSender;
import org.headrace.spark.transport.PartitionOrigin;
import scala.Option;
import scala.runtime.AbstractFunction0;

/** Runs a query whose tasks send their rows, as Arrow, to the driver's Python process; driver JVM. */
public final class ResultJob {
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
              CollectLimitExec limit = limit(execution);
              LimitJob.Sending sending = sending(query.schema().json(), origin);
              if (limit != null) {
                announceLimit(context, inbox, limit);
                new LimitJob(spark, query.sparkSession().sessionState().conf(), limit, sending)
                    .run(partitions -> announce(context, inbox, partitions));
              } else {
                JavaRDD<InternalRow> rows = execution.toRdd().toJavaRDD();
                announce(context, inbox, rows.getNumPartitions());
                rows.foreachPartition(partition -> sending.send(partition, Long.MAX_VALUE));
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
    return BatchSender.serialized(arrowSchema(query.schema()));
  }

  /** The LIMIT on top of the query, or null; one below an adaptive plan, whose other stages are run for it first. */
  private static CollectLimitExec limit(QueryExecution execution) {
    if (!(execution.sparkPlan() instanceof CollectLimitExec)) {
      return null;
    }
    SparkPlan plan = execution.executedPlan();
    if (plan instanceof AdaptiveSparkPlanExec adaptive) {
      plan = adaptive.finalPhysicalPlan();
    }
    return plan instanceof CollectLimitExec limit && limit.limit() >= 0 ? limit : null; // else it has only an OFFSET
  }

  private static LimitJob.Sending sending(String schema, PartitionOrigin origin) {
    return (rows, limit) -> {
      StructType type = (StructType) DataType.fromJson(schema);
      return ResultSender.send(origin, TaskContext.getPartitionId(), arrowSchema(type), rows, limit);
    };
  }

  private static void announce(String context, String inbox, int partitions) {
    Planners.ask(context, Words.RESULT_PARTITIONS, Map.of(Words.INBOX, inbox, Words.PARTITIONS, partitions));
  }

  /** Before any partition: the receiver drops what several of them send too much. */
  private static void announceLimit(String context, String inbox, CollectLimitExec limit) {
    Planners.ask(context, Words.RESULT_LIMIT, Map.of(Words.INBOX, inbox, Words.FIRST, limit.offset(), Words.END, limit.limit()));
  }

  private static Schema arrowSchema(StructType type) {
    return Versions.arrowSchema(type, TIME_ZONE);
  }
}
