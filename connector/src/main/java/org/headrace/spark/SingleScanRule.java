package org.headrace.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Keeps Spark from scanning a streaming table twice; driver JVM, an optimizer rule that runs after pushdown.
 *
 * <p>A query that names the same streaming table twice is refused before anything runs. Where Spark would run one
 * scan twice by itself, something is put above it: a coalesce to one partition where a global sort would sample a
 * single partition, else a shuffle, whose files Spark reads as often as it likes.
 */
public final class SingleScanRule extends Rule<LogicalPlan> {

  /** Adds the rule to a session, once; called from Python. */
  public static void install(SparkSession session) {
    Seq<Rule<LogicalPlan>> rules = session.experimental().extraOptimizations();
    List<Rule<LogicalPlan>> all = new ArrayList<>(CollectionConverters.asJava(rules));
    if (all.stream().noneMatch(SingleScanRule.class::isInstance)) {
      all.add(new SingleScanRule());
      session.experimental().extraOptimizations_$eq(CollectionConverters.asScala(all).toList());
    }
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    Map<String, Integer> scans = new HashMap<>();
    count(plan, scans);
    CollectionConverters.asJava(plan.subqueriesAll()).forEach(subquery -> count(subquery, scans));
    if (scans.isEmpty()) {
      return plan;
    }
    scans.forEach(
        (table, times) -> {
          if (times > 1) {
            throw consumed(table, times);
          }
        });
    return guarded(plan, Need.NOTHING);
  }

  private static void count(LogicalPlan node, Map<String, Integer> scans) {
    HeadraceScan scan = streaming(node);
    if (scan != null) {
      scans.merge(scan.tableName(), 1, Integer::sum);
    }
    CollectionConverters.asJava(node.children()).forEach(child -> count(child, scans));
  }

  private enum Need {
    NOTHING,
    ONE_PARTITION,
    SHUFFLE
  }

  private static LogicalPlan guarded(LogicalPlan node, Need above) {
    HeadraceScan scan = streaming(node);
    if (scan != null) {
      if (above == Need.NOTHING) {
        return node;
      }
      int partitions = scan.partitionCount();
      return new Repartition(partitions, above == Need.SHUFFLE || partitions > 1, node);
    }
    if (node instanceof Repartition repartition && streaming(repartition.child()) != null && !isNarrowing(repartition)) {
      return node; // guarded already: the optimizer runs its rules until nothing changes
    }
    Need below = strongest(above, needOf(node));
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
    if (node instanceof Join join && ExtractEquiJoinKeys.unapply(join).isEmpty()) {
      return Need.SHUFFLE;
    }
    return Need.NOTHING;
  }

  private static Need strongest(Need one, Need other) {
    return one.ordinal() >= other.ordinal() ? one : other;
  }

  private static HeadraceScan streaming(LogicalPlan node) {
    return node instanceof DataSourceV2ScanRelation relation
            && relation.scan() instanceof HeadraceScan scan
            && scan.isStreaming()
        ? scan
        : null;
  }

  private static HeadraceException consumed(String table, int times) {
    String message =
        String.format(
            "the streaming table '%s' can be scanned once and this query scans it %d times (a self-join, a union with"
                + " itself, or a CTE or view used more than once); nothing was read. Write the query with one scan,"
                + " cache() the table first, or use a TableProvider to scan again",
            table, times);
    String failure =
        Planners.JSON
            .createObjectNode()
            .put("error", "StreamConsumedError")
            .put("exception_type", "headrace.errors.StreamConsumedError")
            .put("message", message)
            .toString();
    return new HeadraceException("StreamConsumedError: " + message, failure);
  }
}
