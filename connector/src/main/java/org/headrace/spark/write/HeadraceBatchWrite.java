package org.headrace.spark.write;

import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** A statement that writes; driver JVM. */
final class HeadraceBatchWrite implements BatchWrite {
  private final RunningWrite write;

  HeadraceBatchWrite(RunningWrite write) {
    this.write = write;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return write.begin(info.numPartitions(), null);
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    write.commit(messages);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    write.abort(messages);
  }
}
