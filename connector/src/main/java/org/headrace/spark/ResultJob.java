package org.headrace.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.io.IOException;
import java.util.Arrays;
import java.util.Iterator;
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
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;

/** Runs a query whose tasks send their rows, as Arrow, to the driver's Python process; driver JVM. */
public final class ResultJob {
  private static final int ROWS_PER_BATCH = 64 * 1024;
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
    EndpointOrigin origin = EndpointOrigin.of(Planners.JSON.readTree(address), "a query's result");
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
              if (execution.sparkPlan() instanceof CollectLimitExec limit && limit.limit() <= MAX_TAKEN_ROWS) {
                announce(context, inbox, 1);
                sendTaken(query.schema(), execution.executedPlan().executeCollect(), origin);
              } else {
                sendAll(query, context, inbox, origin);
              }
              return null;
            }
          });
    } finally {
      spark.removeJobTag(tag);
    }
  }

  /** The Arrow schema of a query's result, as an IPC message; called from Python before the query runs. */
  public static byte[] schema(Dataset<Row> query) throws IOException {
    return ResultSender.serialized(arrowSchema(query.schema()));
  }

  private static void sendAll(Dataset<Row> query, String context, String inbox, EndpointOrigin origin) {
    String schema = query.schema().json();
    JavaRDD<byte[]> batches = query.toArrowBatchRdd(ROWS_PER_BATCH, TIME_ZONE, false, false).toJavaRDD();
    announce(context, inbox, batches.getNumPartitions());
    batches.foreachPartition(
        partition -> {
          StructType type = (StructType) DataType.fromJson(schema);
          ResultSender.send(origin, TaskContext.getPartitionId(), arrowSchema(type), partition);
        });
  }

  /** A small LIMIT: Spark takes partition after partition until it has enough, which may be long before the last. */
  private static void sendTaken(StructType type, InternalRow[] rows, EndpointOrigin origin) {
    Iterator<byte[]> batches =
        CollectionConverters.asJava(
            ArrowConverters$.MODULE$.toBatchIterator(
                CollectionConverters.asScala(Arrays.asList(rows).iterator()),
                type, ROWS_PER_BATCH, TIME_ZONE, false, false, null));
    ResultSender.send(origin, 0, arrowSchema(type), batches);
  }

  private static void announce(String context, String inbox, int partitions) {
    Planners.ask(context, "result_partitions", Map.of("inbox", inbox, "partitions", partitions));
  }

  private static Schema arrowSchema(StructType type) {
    return ArrowUtils.toArrowSchema(type, TIME_ZONE, false, false, false);
  }
}
