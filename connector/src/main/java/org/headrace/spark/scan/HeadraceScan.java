package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportOrdering;
import org.apache.spark.sql.connector.read.SupportsReportPartitioning;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.partitioning.KeyGroupedPartitioning;
import org.apache.spark.sql.connector.read.partitioning.Partitioning;
import org.apache.spark.sql.connector.read.partitioning.UnknownPartitioning;
import org.apache.spark.sql.types.StructType;
import org.headrace.spark.Versions;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.read.HeadracePartition;
import org.headrace.spark.read.HeadraceReaderFactory;
import org.headrace.spark.read.ScanMetric;
import org.headrace.spark.transport.PartitionOrigin;

/** One planned scan: what Python answered, in Spark's interfaces; driver JVM. */
public final class HeadraceScan
    implements Scan,
        Batch,
        SupportsReportPartitioning,
        SupportsReportOrdering,
        SupportsReportStatistics,
        SupportsRuntimeV2Filtering,
        Versions.FilteredEstimates {
  /** A longer list of values skips little for what it costs to send, so the scan goes without. */
  private static final int MOST_VALUES = 10_000;

  private final Negotiation negotiation;
  private final String table;
  private final StructType readSchema;
  private final boolean filtersComeBack;
  private final Set<String> toldLeftOut = new HashSet<>();
  private volatile boolean keysUntold;
  private volatile JsonNode plan;
  private volatile HeadraceReaderFactory readerFactory;

  HeadraceScan(
      Negotiation negotiation, String table, StructType readSchema, JsonNode plan, boolean filtersComeBack) {
    this.negotiation = negotiation;
    this.table = table;
    this.readSchema = readSchema;
    this.filtersComeBack = filtersComeBack;
    adopt(plan);
  }

  private void adopt(JsonNode plan) {
    this.plan = plan;
    this.readerFactory =
        new HeadraceReaderFactory(negotiation, PartitionOrigin.of(plan, table), readSchema, negotiation.isRemote());
  }

  /** Identifies the scan to Python; read by explain. */
  public String scanId() {
    return negotiation.id();
  }

  /** Whether the table can be scanned once only. */
  public boolean isStreaming() {
    return plan.path("streaming").asBoolean();
  }

  public String tableName() {
    return table;
  }

  /** Differs for each registration, of whatever context. */
  public String tableId() {
    return negotiation.table();
  }

  public int partitionCount() {
    return plan.get("partitions").asInt();
  }

  /** The columns by whose values the rows are partitioned; none where Spark is not told. */
  List<String> keyColumns() {
    List<String> columns = new ArrayList<>();
    if (tellsKeys()) {
      plan.get("partitioning").get("columns").forEach(column -> columns.add(column.asText()));
    }
    return columns;
  }

  /** From here on Spark is not told how the rows are partitioned; to be called before the first partition is planned. */
  void keepKeysUntold() {
    keysUntold = true;
  }

  /** Whether {@link UntoldKeysRule} found that keys would only make empty tasks; read by explain. */
  public boolean keysUntold() {
    return keysUntold;
  }

  private boolean tellsKeys() {
    return plan.path("partitioning").isObject() && !keysUntold;
  }

  @Override
  public StructType readSchema() {
    return readSchema;
  }

  @Override
  public String description() {
    return plan.get("description").asText();
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    InternalRow[] keys = tellsKeys() ? PartitionKeys.of(plan.get("partitioning")) : null;
    InputPartition[] partitions = new InputPartition[partitionCount()];
    for (int i = 0; i < partitions.length; i++) {
      partitions[i] = keys == null ? new HeadracePartition(i) : new KeyedPartition(i, keys[i]);
    }
    return partitions;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return readerFactory;
  }

  @Override
  public Partitioning outputPartitioning() {
    int count = partitionCount();
    if (!tellsKeys()) {
      return new UnknownPartitioning(count);
    }
    JsonNode partitioning = plan.get("partitioning");
    List<Expression> keys = new ArrayList<>();
    JsonNode columns = partitioning.get("columns");
    for (int i = 0; i < columns.size(); i++) {
      String column = columns.get(i).asText();
      keys.add(
          partitioning.get("function").isNull()
              ? Expressions.identity(PartitionKeys.quoted(column))
              : Expressions.apply(
                  HashFunction.nameOf(partitioning.get("function").asText(), count, i, columns.size()),
                  Expressions.column(PartitionKeys.quoted(column))));
    }
    return new KeyGroupedPartitioning(keys.toArray(new Expression[0]), count);
  }

  @Override
  public NamedReference[] filterAttributes() {
    List<NamedReference> columns = new ArrayList<>();
    plan.path("runtime_filter_columns")
        .forEach(column -> columns.add(Expressions.column(PartitionKeys.quoted(column.asText()))));
    return columns.toArray(new NamedReference[0]);
  }

  /** Called after planning and before partitions are asked for, perhaps several times: what was learnt adds up. */
  @Override
  public synchronized void filter(Predicate[] predicates) {
    ArrayNode filters = Planners.JSON.createArrayNode();
    List<String> leftOut = new ArrayList<>();
    for (Predicate predicate : predicates) {
      int values = predicate.children().length - 1; // the first is the column
      ObjectNode json = values > MOST_VALUES ? null : PredicateJson.of(predicate);
      if (json != null) {
        filters.add(json);
      } else {
        leftOut.add(
            values > MOST_VALUES
                ? String.format(Locale.ROOT, "a list of %,d values, more than %,d", values, MOST_VALUES)
                : "a filter of Spark's that has no form here");
      }
    }
    leaveOut(leftOut);
    if (!filters.isEmpty()) {
      negotiation.tell("runtime_filters", filters);
      adopt(negotiation.plan());
    }
  }

  /** These runtime filters are not used; each with its reason, for explain, which is told once. */
  synchronized void leaveOut(List<String> why) {
    ArrayNode untold = Planners.JSON.createArrayNode();
    why.stream().filter(toldLeftOut::add).forEach(untold::add);
    if (!untold.isEmpty()) {
      negotiation.offer("runtime_filters_left_out", untold);
    }
  }

  @Override
  public SortOrder[] outputOrdering() {
    List<SortOrder> order = new ArrayList<>();
    for (JsonNode key : plan.path("ordering")) {
      order.add(
          Expressions.sort(
              Expressions.column(PartitionKeys.quoted(key.get("column").asText())),
              key.get("descending").asBoolean() ? SortDirection.DESCENDING : SortDirection.ASCENDING,
              key.get("nulls_first").asBoolean() ? NullOrdering.NULLS_FIRST : NullOrdering.NULLS_LAST));
    }
    return order.toArray(new SortOrder[0]);
  }

  @Override
  public Statistics estimateStatistics() {
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return optional("bytes");
      }

      @Override
      public OptionalLong numRows() {
        return optional("rows");
      }
    };
  }

  @Override
  public boolean reflectsFullyPushedDownFilters() {
    return !filtersComeBack;
  }

  private OptionalLong optional(String field) {
    JsonNode value = plan.path(field);
    return value.isIntegralNumber() ? OptionalLong.of(value.asLong()) : OptionalLong.empty();
  }

  /**
   * Equal scans are run once: Spark then uses the shuffled or broadcast rows of one for both, in a self-join for
   * instance. So they must read the same columns and run the very same plan.
   */
  @Override
  public boolean equals(Object other) {
    return this == other
        || (other instanceof HeadraceScan scan
            && tableId().equals(scan.tableId())
            && partitionCount() == scan.partitionCount()
            && plan.path("partitioning").equals(scan.plan.path("partitioning"))
            && plan.path("ordering").equals(scan.plan.path("ordering"))
            && readerFactory.producesSameAs(scan.readerFactory));
  }

  @Override
  public int hashCode() {
    return Objects.hash(tableId(), readSchema, partitionCount());
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return ScanMetric.all();
  }
}
