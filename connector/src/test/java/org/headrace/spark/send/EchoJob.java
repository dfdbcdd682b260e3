package org.headrace.spark.send;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.List;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.headrace.spark.Versions;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.transport.PartitionOrigin;

/** A job whose tasks send a query's rows to code in Python that receives them, as a write will; called from Python. */
public final class EchoJob {
  private EchoJob() {}

  /** The message of each partition. {@code origin} is where they are received, as JSON. */
  public static List<String> run(Dataset<Row> query, String origin, String table, int rowsInBatch)
      throws JsonProcessingException {
    PartitionOrigin receiver = PartitionOrigin.of(Planners.JSON.readTree(origin), table);
    String schema = query.schema().json();
    return query
        .queryExecution()
        .toRdd()
        .toJavaRDD()
        .mapPartitions(rows -> List.of(sent(receiver, schema, rows, rowsInBatch)).iterator())
        .collect();
  }

  private static String sent(PartitionOrigin receiver, String type, Iterator<InternalRow> rows, int rowsInBatch) {
    Schema schema = Versions.arrowSchema((StructType) DataType.fromJson(type), "UTC");
    try (BatchSender sender = BatchSender.open(receiver, TaskContext.getPartitionId(), schema);
        RowBatch batch = new RowBatch(schema)) {
      try {
        for (int count = 1; rows.hasNext(); count++) {
          batch.add(rows.next());
          if (count % rowsInBatch == 0) {
            batch.send(sender);
          }
        }
        if (!batch.isEmpty()) {
          batch.send(sender);
        }
      } catch (RuntimeException e) {
        sender.fail(e);
        throw e;
      }
      return new String(sender.end(), StandardCharsets.UTF_8);
    }
  }
}
