package org.headrace.spark.write;

import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.headrace.spark.planner.Planners;

/** One micro-batch of a streaming query that writes; driver JVM. Spark makes one for each of them. */
final class HeadraceStreamingWrite implements StreamingWrite {
  /** The job property in which Spark tells the number of the micro-batch, to whoever asks before the tasks run. */
  private static final String EPOCH = "streaming.sql.batchId";

  private final RunningWrite write;

  HeadraceStreamingWrite(RunningWrite write) {
    this.write = write;
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    String epoch = SparkSession.active().sparkContext().getLocalProperty(EPOCH);
    if (epoch == null) {
      throw Planners.failed("WriteError", "only a query of micro-batches writes to Headrace's tables, not a continuous one");
    }
    return write.begin(info.numPartitions(), Long.valueOf(epoch));
  }

  @Override
  public void commit(long epoch, WriterCommitMessage[] messages) {
    write.commit(messages);
  }

  @Override
  public void abort(long epoch, WriterCommitMessage[] messages) {
    write.abort(messages);
  }
}
