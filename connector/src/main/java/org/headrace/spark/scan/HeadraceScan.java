package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashSet;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportOrdering;
import org.apache.spark.sql.connector.read.SupportsReportPartitioning;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.partitioning.Partitioning;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.headrace.spark.HeadraceMetric;
import org.headrace.spark.Versions;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;
import org.headrace.spark.read.HeadraceReaderFactory;
import org.headrace.spark.transport.PartitionOrigin;

/** One negotiated scan in Spark's interfaces, and its current plan, which runtime filters replace; driver JVM. */
public final class HeadraceScan
    implements Scan,
        SupportsReportPartitioning,
        SupportsReportOrdering,
        SupportsReportStatistics,
        SupportsRuntimeV2Filtering,
        Versions.FilteredEstimates {
  private final Negotiation negotiation;
  private final String table;
  private final StructType readSchema;
  private final StreamOpener streams;
  private final Set<ObjectNode> reportedReasons = new HashSet<>();
  private volatile PlannedBatch batch;
  private volatile PlannedRange range;
  private volatile boolean isStream;
  private volatile boolean isRepeated;
  private volatile boolean isPartial;

  HeadraceScan(Negotiation negotiation, String table, StructType readSchema, JsonNode plan) {
    this.negotiation = negotiation;
    this.table = table;
    this.readSchema = readSchema;
    this.streams = null;
    this.batch = planned(plan, false);
  }

  /** Of a table that grows: whether a batch or ranges of a stream are to be planned, Spark says after this. */
  HeadraceScan(Negotiation negotiation, String table, StructType readSchema, StreamOpener streams) {
    this.negotiation = negotiation;
    this.table = table;
    this.readSchema = readSchema;
    this.streams = streams;
  }

  private PlannedBatch batch() {
    if (batch == null) {
      synchronized (this) {
        if (batch == null) {
          batch = planned(negotiation.plan(), false);
        }
      }
    }
    return batch;
  }

  private PlannedBatch planned(JsonNode plan, boolean withholdsKeys) {
    HeadraceReaderFactory readers =
        new HeadraceReaderFactory(negotiation, PartitionOrigin.of(plan, table), readSchema, negotiation.isRemote());
    return new PlannedBatch(plan, tableId(), readers, withholdsKeys, this::batch);
  }

  /** Identifies the current plan to Python; read by explain. */
  public String planId() {
    return isStream ? (range == null ? "" : range.id()) : batch().id();
  }

  /** Whether it is read as a stream, one range after the other. */
  public boolean isStream() {
    return isStream;
  }

  /** From here on this scan gives partial results of an aggregation, which Spark merges. */
  HeadraceScan asPartial() {
    isPartial = true;
    return this;
  }

  /** Whether Spark merges its rows, which are partial results of an aggregation. */
  boolean hasPartialResults() {
    return isPartial;
  }

  /** Which session context answers for the table. */
  public String context() {
    return negotiation.context();
  }

  /** From here on this is a scan of a stream's ranges. */
  public HeadraceScan asStream() {
    isStream = true;
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    if (streams == null) {
      throw new UnsupportedOperationException(description() + ": the table is no stream");
    }
    return streams.open(asStream(), checkpoint);
  }

  /** Of a stream: for another scan of it, with the columns that this one has, or fewer. */
  public HeadraceScanBuilder newBuilder() {
    return new HeadraceScanBuilder(context(), tableId(), table, readSchema, streams, true);
  }

  /** Asks Python to plan a range of the stream; the offsets are JSON. */
  public PlannedRange plan(String start, String end) {
    JsonNode plan = negotiation.planBetween(start, end);
    HeadraceReaderFactory readers =
        new HeadraceReaderFactory(negotiation, PartitionOrigin.of(plan, table), readSchema, negotiation.isRemote());
    range = new PlannedRange(plan, start, end, readers, negotiation);
    return range;
  }

  /** Whether the table can be scanned once only. */
  public boolean isPush() {
    return streams == null && batch().isPush();
  }

  public String tableName() {
    return table;
  }

  /** Differs for each registration, of whatever context. */
  public String tableId() {
    return negotiation.table();
  }

  public int partitionCount() {
    return batch().partitionCount();
  }

  /** The columns by whose values the rows are partitioned; none where Spark is not told. */
  List<String> keyColumns() {
    return batch().keyColumns();
  }

  /** What {@link GroupedPromisesRule} has to tell Spark; null where Spark asks for it. */
  PlannedBatch groupedBatch() {
    PlannedBatch planned = batch();
    return planned.isGrouped() ? planned : null;
  }

  /** From here on Spark is not told how the rows are partitioned; to be called before the first partition is planned. */
  synchronized void withholdKeys() {
    batch = batch().withoutKeys();
  }

  /** Whether {@link WithheldKeysRule} found that keys would only make empty tasks; read by explain. */
  public boolean withholdsKeys() {
    return batch().withholdsKeys();
  }

  @Override
  public StructType readSchema() {
    return readSchema;
  }

  @Override
  public String description() {
    if (!isStream) {
      return batch().description();
    }
    return range != null
        ? range.description()
        : "stream of " + table + " columns=[" + String.join(", ", readSchema.fieldNames()) + "]";
  }

  @Override
  public Batch toBatch() {
    return batch();
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public Partitioning outputPartitioning() {
    return batch().outputPartitioning();
  }

  @Override
  public NamedReference[] filterAttributes() {
    return isRepeated ? new NamedReference[0] : batch().runtimeFilterColumns();
  }

  /** From here on Spark is offered no runtime filters, as the steps of a recursion share this scan. */
  void withholdRuntimeFilters() {
    isRepeated = true;
  }

  /** Called after planning and before partitions are asked for, perhaps several times: what was learnt adds up. */
  @Override
  public synchronized void filter(Predicate[] predicates) {
    ArrayNode filters = Planners.JSON.createArrayNode();
    for (Predicate predicate : predicates) {
      int values = predicate.children().length - 1; // the first is the column
      boolean isLong = values > batch().mostRuntimeValues();
      ObjectNode json = isLong ? null : PredicateJson.of(predicate);
      if (json != null) {
        filters.add(json);
      } else {
        leaveOut(isLong ? leftOut(Words.LONG_LIST).put(Words.VALUES, values) : leftOut(Words.NO_FORM));
      }
    }
    if (!filters.isEmpty()) {
      PlannedBatch replaced = batch();
      batch = planned(negotiation.narrow(replaced.id(), filters), replaced.withholdsKeys());
      negotiation.releaseWith(replaced.readers(), replaced.id());
    }
  }

  /** Why a runtime filter is not used. */
  static ObjectNode leftOut(String reason) {
    return Planners.JSON.createObjectNode().put(Words.REASON, reason);
  }

  /** A runtime filter is not used; Python is told once of each reason, for explain. */
  synchronized void leaveOut(ObjectNode reason) {
    if (reportedReasons.add(reason)) {
      negotiation.offer(Words.RUNTIME_FILTERS_LEFT_OUT, Planners.JSON.createArrayNode().add(reason));
    }
  }

  @Override
  public SortOrder[] outputOrdering() {
    return batch().outputOrdering();
  }

  @Override
  public Statistics estimateStatistics() {
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return isStream ? OptionalLong.empty() : batch().statistic(Words.BYTES);
      }

      @Override
      public OptionalLong numRows() {
        return isStream ? OptionalLong.empty() : batch().statistic(Words.ROWS);
      }
    };
  }

  @Override
  public boolean reflectsFullyPushedDownFilters() {
    return isStream || !batch().filtersComeBack();
  }

  /**
   * As {@link PlannedBatch#equals}: Spark compares scans in logical plans and batches in physical ones. One of a stream is
   * only itself.
   */
  @Override
  public boolean equals(Object other) {
    return this == other
        || (other instanceof HeadraceScan scan && !isStream && !scan.isStream && batch().equals(scan.batch()));
  }

  @Override
  public int hashCode() {
    return tableId().hashCode();
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return HeadraceMetric.ofScans();
  }
}
