package org.headrace.spark.stream;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.scan.HeadraceScan;
import org.headrace.spark.scan.HeadraceScanBuilder;
import org.headrace.spark.scan.PlannedRange;

/**
 * A table that grows, as a source of micro-batches; driver JVM.
 *
 * <p>Spark asks the stream that it opened for offsets. Ranges may be read through another one with fewer columns, see
 * {@link PrunedStreamRule}: it shares the offsets, and is equal, as Spark finds the rows read of a source by equality.
 */
final class HeadraceStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private static final String ROWS_BEHIND = "rowsBehind";

  private final HeadraceScan scan;
  private final StreamOffsets offsets;
  private final ReadLimit limit;
  private final String initial;
  private final HeadraceStream opened; // the one that Spark opened
  private final List<PlannedRange> ranges = new ArrayList<>(); // of the opened one: those not committed yet
  private boolean availableNow;
  private PlannedRange current;
  private PrunedStream pruned;

  private HeadraceStream(HeadraceScan scan, StreamOffsets offsets, ReadLimit limit, String initial) {
    this.scan = scan;
    this.offsets = offsets;
    this.limit = limit;
    this.initial = initial;
    this.opened = this;
  }

  private HeadraceStream(HeadraceScan scan, HeadraceStream opened) {
    this.scan = scan.asStream();
    this.offsets = opened.offsets;
    this.limit = opened.limit;
    this.initial = opened.initial;
    this.opened = opened;
  }

  static HeadraceStream open(HeadraceScan scan, ReadLimit limit, String checkpoint) {
    StreamOffsets offsets = new StreamOffsets(scan.context(), scan.tableId());
    CheckpointRecord record = new CheckpointRecord(checkpoint, scan.tableName(), scan.readSchema());
    boolean opened = false;
    try {
      HeadraceStream stream = new HeadraceStream(scan, offsets, limit, record.initial(offsets::initial));
      opened = true;
      return stream;
    } finally {
      if (!opened) { // Spark stops the streams that it knows
        offsets.end();
      }
    }
  }

  /** For another scan of the same table. */
  HeadraceScanBuilder newBuilder() {
    return opened.scan.newBuilder();
  }

  /** The same stream, read by another scan. */
  HeadraceStream readBy(HeadraceScan other) {
    return new HeadraceStream(other, opened);
  }

  boolean isPruned() {
    return this != opened;
  }

  /** What was last made of this stream to read less. */
  PrunedStream pruned() {
    return pruned;
  }

  void keep(PrunedStream made) {
    pruned = made;
  }

  @Override
  public Offset initialOffset() {
    return new HeadraceOffset(initial);
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new HeadraceOffset(json);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return limit;
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    availableNow = true;
  }

  /** Null, which is no micro-batch, where there is nothing new. */
  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    String latest = offsets.latest(start.json(), limit, availableNow);
    return latest == null ? null : new HeadraceOffset(latest);
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark asks for latestOffset(start, limit)");
  }

  /** Asked perhaps twice for a batch. A batch of another source may have nothing of this one. */
  @Override
  public synchronized InputPartition[] planInputPartitions(Offset start, Offset end) {
    if (start.json().equals(end.json())) {
      return new InputPartition[0];
    }
    if (current == null || !current.isBetween(start.json(), end.json())) {
      current = Planners.interruptible(() -> scan.plan(start.json(), end.json()));
      opened.hold(current);
    }
    InputPartition[] partitions = new InputPartition[current.partitionCount()];
    for (int i = 0; i < partitions.length; i++) {
      partitions[i] = new RangePartition(i, current.readers());
    }
    return partitions;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new RangeReaderFactory();
  }

  private void hold(PlannedRange range) {
    synchronized (ranges) {
      ranges.add(range);
    }
  }

  /** What was planned until now was read: the next batch is planned after this. */
  @Override
  public void commit(Offset end) {
    offsets.commit(end.json());
    release();
  }

  private void release() {
    List<PlannedRange> read;
    synchronized (ranges) {
      read = List.copyOf(ranges);
      ranges.clear();
    }
    read.forEach(PlannedRange::release);
  }

  @Override
  public void stop() {
    offsets.end();
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumedOffset) {
    OptionalLong rows =
        latestConsumedOffset.isEmpty() ? OptionalLong.empty() : offsets.rowsBehind(latestConsumedOffset.get().json());
    return rows.isEmpty() ? Map.of() : Map.of(ROWS_BEHIND, Long.toString(rows.getAsLong()));
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof HeadraceStream stream && offsets == stream.offsets;
  }

  @Override
  public int hashCode() {
    return System.identityHashCode(offsets);
  }

  /** How progress names the source. */
  @Override
  public String toString() {
    return "headrace stream " + scan.tableName();
  }
}
