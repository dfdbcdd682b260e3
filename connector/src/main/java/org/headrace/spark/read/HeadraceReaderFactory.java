package org.headrace.spark.read;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.headrace.spark.transport.PartitionOrigin;

/** Makes readers on executors; holds all that a scan's partitions share, so it travels once per stage. Immutable. */
public final class HeadraceReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;
  private final transient Object scan;
  private final PartitionOrigin origin;
  private final StructType schema;
  private final boolean plainErrors;

  /**
   * {@code scan} is only held, so that it lives as long as anything that may still make readers. {@code plainErrors}:
   * the driver finds no class of this jar where it reads what a task failed with.
   */
  public HeadraceReaderFactory(Object scan, PartitionOrigin origin, StructType schema, boolean plainErrors) {
    this.scan = scan;
    this.origin = origin;
    this.schema = schema;
    this.plainErrors = plainErrors;
  }

  public boolean producesSameAs(HeadraceReaderFactory other) {
    return schema.equals(other.schema) && origin.producesSameAs(other.origin);
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    int index = ((HeadracePartition) partition).index();
    return plainErrors
        ? new PlainErrorsReader(() -> new HeadraceReader(origin, index, schema))
        : new HeadraceReader(origin, index, schema);
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("Headrace reads columns only");
  }
}
