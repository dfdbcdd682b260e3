package org.headrace.spark.transport;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;
import org.headrace.spark.planner.Words;

/** Where partitions are produced or received; immutable data, sent to executors once per stage. */
public abstract class PartitionOrigin implements Serializable {
  private static final long serialVersionUID = 1L;
  private final String table;

  PartitionOrigin(String table) {
    this.table = table;
  }

  /** How errors name a partition. */
  public final Place place(int partition) {
    return new Place(table, partition);
  }

  /** Reads the origin from Python's answer to "plan"; driver JVM. */
  public static PartitionOrigin of(JsonNode plan, String table) {
    return plan.has(Words.WORKER)
        ? WorkerOrigin.from(plan.get(Words.WORKER), table)
        : EndpointOrigin.from(plan.get(Words.ENDPOINT), table);
  }

  /** What is no table: where to send a query's result, or to ask a planner. See Endpoint.address in Python. */
  public static PartitionOrigin ofAddress(JsonNode address) {
    return EndpointOrigin.from(address, null);
  }

  /** Whether the rows are sure to be the same; only of two scans of one table. */
  public boolean producesSameAs(PartitionOrigin other) {
    return this == other;
  }

  /** Opens a partition to read it; executor JVM, once per task attempt. */
  public final PartitionConnection open(int partition) {
    return connected(partition, false);
  }

  /** Opens a partition to send it; executor JVM, once per task attempt. */
  public final PartitionConnection openToSend(int partition) {
    return connected(partition, true);
  }

  private PartitionConnection connected(int partition, boolean sends) {
    try {
      return connect(partition, sends);
    } catch (IOException e) {
      throw HeadraceException.transport(place(partition), "cannot open " + place(partition) + ": " + e);
    }
  }

  /** {@code sends}: this side sends the frames. */
  abstract PartitionConnection connect(int partition, boolean sends) throws IOException;
}
