package org.headrace.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;

/** Where a scan's partitions are produced; immutable data, sent to executors once per stage. */
abstract class PartitionOrigin implements Serializable {
  private static final long serialVersionUID = 1L;
  private final String table;

  PartitionOrigin(String table) {
    this.table = table;
  }

  final String table() {
    return table;
  }

  /** Reads the origin from Python's answer to "scan"; driver JVM. */
  static PartitionOrigin of(JsonNode plan, String table) {
    return plan.has("worker")
        ? WorkerOrigin.of(plan.get("worker"), table)
        : EndpointOrigin.of(plan.get("endpoint"), table);
  }

  /** Whether the rows are sure to be the same; only of two scans of one table. */
  boolean producesSameAs(PartitionOrigin other) {
    return this == other;
  }

  /** Opens a partition; executor JVM, once per task attempt. */
  abstract PartitionConnection open(int partition) throws IOException;
}
