package org.headrace.spark.write;

import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.types.StructType;
import org.headrace.spark.transport.PartitionOrigin;

/** Makes writers on executors; holds all that the tasks of a write share. Immutable. */
final class HeadraceWriterFactory implements DataWriterFactory, StreamingDataWriterFactory {
  private static final long serialVersionUID = 1L;
  private final PartitionOrigin origin;
  private final StructType schema;
  private final boolean plainErrors;

  /** {@code plainErrors}: the driver finds no class of this jar where it reads what a task failed with. */
  HeadraceWriterFactory(PartitionOrigin origin, StructType schema, boolean plainErrors) {
    this.origin = origin;
    this.schema = schema;
    this.plainErrors = plainErrors;
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partition, long task) {
    Supplier<DataWriter<InternalRow>> open = () -> new HeadraceDataWriter(origin, partition, schema);
    return plainErrors ? new PlainErrorsWriter(open) : open.get();
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
    return createWriter(partition, task);
  }
}
