package org.headrace.spark.push;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.expressions.BloomFilterMightContain;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.SHUFFLE_REPLICATE_NL$;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;
import org.headrace.spark.scan.HeadraceScan;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Keeps Spark from scanning a push table twice; driver JVM, an optimizer rule that runs after pushdown.
 *
 * <p>A query that names the same push table twice is refused before anything runs. Where Spark would run one
 * scan twice by itself, something is put above it: a coalesce to one partition where a global sort would sample a
 * single partition, else a shuffle, whose files Spark reads as often as it likes.
 */
public final class SingleScanRule extends Rule<LogicalPlan> {

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    List<HeadraceScan> scans = new ArrayList<>();
    collect(plan, scans);
    List<HeadraceScan> inSubqueries = new ArrayList<>();
    CollectionConverters.asJava(plan.subqueriesAll()).forEach(subquery -> collect(subquery, inSubqueries));
    // The optimizer copies subqueries, and makes some of its own from parts of the plan; copies are run once.
    inSubqueries.stream().filter(scan -> !scans.contains(scan)).forEach(scans::add);
    for (HeadraceScan scan : scans) {
      long times = scans.stream().filter(other -> other.tableId().equals(scan.tableId())).count();
      if (times > 1) {
        throw consumed(scan.tableName(), times);
      }
    }
    return scans.isEmpty() ? plan : guarded(withoutRuntimeFilters(plan), Need.NOTHING);
  }

  /** The ids of the push tables that a plan scans; those of cached plans are not seen. */
  static Set<String> pushTables(LogicalPlan plan) {
    List<HeadraceScan> scans = new ArrayList<>();
    collect(plan, scans);
    CollectionConverters.asJava(plan.subqueriesAll()).forEach(subquery -> collect(subquery, scans));
    Set<String> tables = new TreeSet<>();
    scans.forEach(scan -> tables.add(scan.tableId()));
    return tables;
  }

  private static void collect(LogicalPlan node, List<HeadraceScan> scans) {
    HeadraceScan scan = pushScan(node);
    if (scan != null) {
      scans.add(scan);
    }
    CollectionConverters.asJava(node.children()).forEach(child -> collect(child, scans));
  }

  /** Drops the filters that Spark would compute by running a push table's side of a join beforehand. */
  private static LogicalPlan withoutRuntimeFilters(LogicalPlan plan) {
    return plan.transformAllExpressions(
        new AbstractPartialFunction<Expression, Expression>() {
          @Override
          public boolean isDefinedAt(Expression expression) {
            if (expression instanceof DynamicPruningSubquery pruning) {
              return !pruning.onlyInBroadcast() && hasPushScan(pruning.buildQuery());
            }
            return expression instanceof BloomFilterMightContain bloom
                && bloom.bloomFilterExpression() instanceof ScalarSubquery subquery
                && hasPushScan(subquery.plan());
          }

          @Override
          public Expression apply(Expression expression) {
            return Literal.TrueLiteral();
          }
        });
  }

  private static boolean hasPushScan(LogicalPlan plan) {
    List<HeadraceScan> scans = new ArrayList<>();
    collect(plan, scans);
    return !scans.isEmpty();
  }

  private enum Need {
    NOTHING,
    ONE_PARTITION,
    SHUFFLE
  }

  private static LogicalPlan guarded(LogicalPlan node, Need above) {
    HeadraceScan scan = pushScan(node);
    if (scan != null) {
      if (above == Need.NOTHING) {
        return node;
      }
      int partitions = scan.partitionCount();
      return new Repartition(partitions, above == Need.SHUFFLE || partitions > 1, node);
    }
    if (node instanceof Repartition repartition && pushScan(repartition.child()) != null && !isNarrowing(repartition)) {
      return node; // guarded already: the optimizer runs its rules until nothing changes
    }
    Need below = strongest(passedOn(above, node), needOf(node));
    return node.mapChildren(
        new AbstractFunction1<LogicalPlan, LogicalPlan>() {
          @Override
          public LogicalPlan apply(LogicalPlan child) {
            return guarded(child, below);
          }
        });
  }

  /** A coalesce of the user's own, e.g. from 4 partitions to 2: no protection against a second scan. */
  private static boolean isNarrowing(Repartition repartition) {
    return !repartition.shuffle() && repartition.numPartitions() > 1;
  }

  private static Need needOf(LogicalPlan node) {
    if (node instanceof Sort sort && sort.global()) {
      return Need.ONE_PARTITION;
    }
    if (node instanceof RepartitionByExpression repartition
        && CollectionConverters.asJava(repartition.partitionExpressions()).stream()
            .anyMatch(SortOrder.class::isInstance)) {
      return Need.SHUFFLE;
    }
    return node instanceof Join join && mayBeProduct(join) ? Need.SHUFFLE : Need.NOTHING;
  }

  /** One partition below a union or a coalesce is not one above it, and would be sampled after all. */
  private static Need passedOn(Need above, LogicalPlan node) {
    boolean keepsOnePartition =
        node instanceof Join || (node.children().size() <= 1 && !(node instanceof Repartition));
    return above == Need.ONE_PARTITION && !keepsOnePartition ? Need.SHUFFLE : above;
  }

  /** A cartesian product reads each side once for every partition of the other. */
  private static boolean mayBeProduct(Join join) {
    return ExtractEquiJoinKeys.unapply(join).isEmpty()
        || replicates(join.hint().leftHint())
        || replicates(join.hint().rightHint());
  }

  private static boolean replicates(Option<HintInfo> hint) {
    return hint.isDefined() && hint.get().strategy().contains(SHUFFLE_REPLICATE_NL$.MODULE$);
  }

  private static Need strongest(Need one, Need other) {
    return one.ordinal() >= other.ordinal() ? one : other;
  }

  private static HeadraceScan pushScan(LogicalPlan node) {
    return node instanceof DataSourceV2ScanRelation relation
            && relation.scan() instanceof HeadraceScan scan
            && scan.isPush()
        ? scan
        : null;
  }

  private static HeadraceException consumed(String table, long times) {
    String message =
        String.format(
            "the streaming table '%s' can be scanned once and this query scans it %d times (a self-join, a union with"
                + " itself, or a CTE or view used more than once); nothing was read. Write the query with one scan,"
                + " cache() the table first, or use a TableProvider to scan again",
            table, times);
    return HeadraceException.of("StreamConsumedError", new Place(table, null), message);
  }
}
