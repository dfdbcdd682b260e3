package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.partitioning.KeyGroupedPartitioning;
import org.apache.spark.sql.connector.read.partitioning.Partitioning;
import org.apache.spark.sql.connector.read.partitioning.UnknownPartitioning;
import org.headrace.spark.planner.Words;
import org.headrace.spark.read.HeadracePartition;
import org.headrace.spark.read.HeadraceReaderFactory;

/**
 * One plan of a scan: Python's answer, in Spark's terms, and the readers of its partitions; driver JVM. Immutable.
 *
 * <p>When another plan has replaced it, Python is told to drop it as soon as its readers are garbage.
 */
final class PlannedBatch implements Batch {
  private final JsonNode plan;
  private final String table;
  private final HeadraceReaderFactory readers;
  private final boolean withholdsKeys;
  private final Supplier<PlannedBatch> current;

  /** {@code current} gives the plan that the scan has when it is called. */
  PlannedBatch(
      JsonNode plan,
      String table,
      HeadraceReaderFactory readers,
      boolean withholdsKeys,
      Supplier<PlannedBatch> current) {
    this.plan = plan;
    this.table = table;
    this.readers = readers;
    this.withholdsKeys = withholdsKeys;
    this.current = current;
  }

  /** The same plan, of which Spark is not told how the rows are partitioned. */
  PlannedBatch withoutKeys() {
    return new PlannedBatch(plan, table, readers, true, current);
  }

  String id() {
    return plan.get(Words.PLAN).asText();
  }

  HeadraceReaderFactory readers() {
    return readers;
  }

  String description() {
    return plan.get(Words.DESCRIPTION).asText();
  }

  boolean isPush() {
    return plan.get(Words.PUSH).asBoolean();
  }

  boolean filtersComeBack() {
    return plan.get(Words.FILTERS_COME_BACK).asBoolean();
  }

  /** The longest list of values that a runtime filter may have. */
  int mostRuntimeValues() {
    return plan.get(Words.MOST_RUNTIME_VALUES).asInt();
  }

  int partitionCount() {
    return plan.get(Words.PARTITIONS).asInt();
  }

  boolean withholdsKeys() {
    return withholdsKeys;
  }

  /** The columns by whose values the rows are partitioned; none where Spark is not told. */
  List<String> keyColumns() {
    return tellsKeys() ? names(plan.get(Words.PARTITIONING).get(Words.COLUMNS)) : List.of();
  }

  private boolean tellsKeys() {
    return plan.get(Words.PARTITIONING).isObject() && !withholdsKeys;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    InternalRow[] keys = tellsKeys() ? PartitionKeys.of(plan.get(Words.PARTITIONING)) : null;
    InputPartition[] partitions = new InputPartition[partitionCount()];
    for (int i = 0; i < partitions.length; i++) {
      partitions[i] = keys == null ? new HeadracePartition(i) : new KeyedPartition(i, keys[i]);
    }
    return partitions;
  }

  /**
   * The readers of the scan's current plan. Where runtime filters came, Spark takes the partitions from a new batch of
   * the scan and still asks the batch that it made first for their readers (BatchScanExec).
   */
  @Override
  public PartitionReaderFactory createReaderFactory() {
    return current.get().readers;
  }

  /** Whether the rows are groups, whose names are none of the table's: {@link GroupedPromisesRule} tells of them. */
  boolean isGrouped() {
    return plan.get(Words.GROUPED).asBoolean();
  }

  Partitioning outputPartitioning() {
    Expression[] keys = isGrouped() ? new Expression[0] : partitionKeys();
    return keys.length == 0
        ? new UnknownPartitioning(partitionCount())
        : new KeyGroupedPartitioning(keys, partitionCount());
  }

  /** By which the rows are partitioned, in terms of the columns that are read; none where Spark is not told. */
  Expression[] partitionKeys() {
    int count = partitionCount();
    List<String> columns = keyColumns();
    if (columns.isEmpty()) {
      return new Expression[0];
    }
    JsonNode function = plan.get(Words.PARTITIONING).get(Words.FUNCTION);
    Expression[] keys = new Expression[columns.size()];
    for (int i = 0; i < keys.length; i++) {
      String column = PartitionKeys.quoted(columns.get(i));
      keys[i] =
          function.isNull()
              ? Expressions.identity(column)
              : Expressions.apply(
                  HashFunction.nameOf(function.asText(), count, i, keys.length), Expressions.column(column));
    }
    return keys;
  }

  NamedReference[] runtimeFilterColumns() {
    return names(plan.get(Words.RUNTIME_FILTER_COLUMNS)).stream()
        .map(SortKeys::column)
        .toArray(NamedReference[]::new);
  }

  SortOrder[] outputOrdering() {
    return isGrouped() ? new SortOrder[0] : order();
  }

  /** In which the rows of a partition come, in terms of the columns that are read. */
  SortOrder[] order() {
    return SortKeys.of(plan.get(Words.ORDERING));
  }

  /** A number that Python may not know: rows or bytes. */
  OptionalLong statistic(String field) {
    JsonNode value = plan.get(field);
    return value.isNull() ? OptionalLong.empty() : OptionalLong.of(value.asLong());
  }

  private static List<String> names(JsonNode array) {
    List<String> names = new ArrayList<>();
    array.forEach(name -> names.add(name.asText()));
    return names;
  }

  /**
   * Equal batches are run once: Spark then uses the shuffled or broadcast rows of one for both, in a self-join for
   * instance. So they must read the same columns and run the very same plan.
   */
  @Override
  public boolean equals(Object other) {
    return this == other
        || (other instanceof PlannedBatch batch
            && table.equals(batch.table)
            && partitionCount() == batch.partitionCount()
            && plan.get(Words.PARTITIONING).equals(batch.plan.get(Words.PARTITIONING))
            && plan.get(Words.ORDERING).equals(batch.plan.get(Words.ORDERING))
            && readers.producesSameAs(batch.readers));
  }

  @Override
  public int hashCode() {
    return Objects.hash(table, partitionCount());
  }
}
