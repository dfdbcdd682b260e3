package org.headrace.spark.scan;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.headrace.spark.read.HeadracePartition;

/** A partition whose rows all have the same key. */
final class KeyedPartition extends HeadracePartition implements HasPartitionKey {
  private static final long serialVersionUID = 1L;
  private final InternalRow key;

  KeyedPartition(int index, InternalRow key) {
    super(index);
    this.key = key;
  }

  @Override
  public InternalRow partitionKey() {
    return key;
  }
}
