package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.InternalRow;

/** Partition keys, and the columns that they are of; driver JVM. */
final class PartitionKeys {
  private PartitionKeys() {}

  /** A key for each partition: the values of its columns for a key partitioning, numbers for a hash partitioning. */
  static InternalRow[] of(JsonNode partitioning) {
    return ArrowRows.of(partitioning.get("keys"));
  }

  /** A column name as Spark's expression parser takes it. */
  static String quoted(String column) {
    return "`" + column.replace("`", "``") + "`";
  }
}
