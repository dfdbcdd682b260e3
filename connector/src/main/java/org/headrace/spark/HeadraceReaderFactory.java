package org.headrace.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Makes readers on executors; holds all that a scan's partitions share, so it travels once per stage. */
final class HeadraceReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;
  private final transient ScanHandle handle;
  private final PartitionOrigin origin;
  private final StructType schema;

  HeadraceReaderFactory(ScanHandle handle, PartitionOrigin origin, StructType schema) {
    this.handle = handle;
    this.origin = origin;
    this.schema = schema;
  }

  boolean producesSameAs(HeadraceReaderFactory other) {
    return schema.equals(other.schema) && origin.producesSameAs(other.origin);
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new HeadraceReader(origin, ((HeadracePartition) partition).index(), schema);
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("Headrace reads columns only");
  }
}
