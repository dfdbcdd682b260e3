package org.headrace.spark.scan;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.plans.logical.BROADCAST$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Keeps the keys of partitions from Spark where a runtime filter may leave few of them and nothing needs them; driver
 * JVM, an optimizer rule that runs after pushdown.
 *
 * <p>Spark runs a task for every key that it was told of, an empty one where the filter has left out the key: of 200
 * tasks 198 had nothing to do, and took most of the query's time. Without keys there are tasks for what is left only.
 * Keys that a grouping, a window or a join without broadcast may use to save a shuffle are told as before. Only Spark's plan
 * says which of them it is, so this is decided here and not by Python.
 */
public final class WithheldKeysRule extends Rule<LogicalPlan> {
  /** Changes no plan: it is the scan that no longer tells. */
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    look(plan, new ArrayList<>());
    return plan;
  }

  /** {@code above}: the nodes from the root to the parent of {@code node}. */
  private void look(LogicalPlan node, List<LogicalPlan> above) {
    if (node instanceof Filter filter
        && filter.child() instanceof DataSourceV2ScanRelation relation
        && relation.scan() instanceof HeadraceScan scan
        && !scan.keyColumns().isEmpty()
        && hasRuntimeFilter(filter.condition())) {
      Set<Long> keys = new HashSet<>();
      for (Attribute column : CollectionConverters.asJava(relation.output())) {
        if (scan.keyColumns().contains(column.name())) {
          keys.add(column.exprId().id());
        }
      }
      if (!areNeeded(keys, node, above)) {
        scan.withholdKeys();
      }
    }
    above.add(node);
    CollectionConverters.asJava(node.children()).forEach(child -> look(child, above));
    above.remove(above.size() - 1);
  }

  private static boolean hasRuntimeFilter(Expression condition) {
    return condition instanceof DynamicPruningSubquery
        || condition instanceof ScalarSubquery
        || CollectionConverters.asJava(condition.children()).stream().anyMatch(WithheldKeysRule::hasRuntimeFilter);
  }

  /** Whether a node above may have use for rows of equal {@code keys} being together; true where that is not clear. */
  private boolean areNeeded(Set<Long> keys, LogicalPlan scanned, List<LogicalPlan> above) {
    LogicalPlan child = scanned;
    for (int i = above.size() - 1; i >= 0; i--) {
      LogicalPlan node = above.get(i);
      if (node instanceof Join join) {
        if (join.condition().isDefined() && mentions(join.condition().get().references(), keys)) {
          if (!isBroadcast(join, child == join.left())) {
            return true;
          }
          addEqual(join.condition().get(), keys);
        }
      } else if (node instanceof Project project) {
        for (NamedExpression column : CollectionConverters.asJava(project.projectList())) {
          if (mentions(((Expression) column).references(), keys)) {
            keys.add(column.exprId().id());
          }
        }
      } else if (node.children().size() > 1) {
        return true;
      } else if (!passesRowsOn(node) && mentions(node.references(), keys)) {
        return true;
      }
      child = node;
    }
    return false;
  }

  private static boolean passesRowsOn(LogicalPlan node) {
    return node instanceof Filter || node instanceof Sort || node instanceof GlobalLimit || node instanceof LocalLimit;
  }

  /** Whether Spark is going to broadcast the other side of the join, for its size or for a hint. */
  private boolean isBroadcast(Join join, boolean fromLeft) {
    Option<HintInfo> left = join.hint().leftHint();
    Option<HintInfo> right = join.hint().rightHint();
    if (left.isDefined() || right.isDefined()) {
      Option<HintInfo> other = fromLeft ? right : left;
      return other.isDefined() && other.get().strategy().contains(BROADCAST$.MODULE$);
    }
    LogicalPlan other = fromLeft ? join.right() : join.left();
    BigInteger most = BigInteger.valueOf(conf().autoBroadcastJoinThreshold());
    return other.stats().sizeInBytes().bigInteger().compareTo(most) <= 0;
  }

  /** What a join makes equal to one of the keys serves as well as that key. */
  private static void addEqual(Expression condition, Set<Long> keys) {
    if (condition instanceof And and) {
      addEqual(and.left(), keys);
      addEqual(and.right(), keys);
    } else if ((condition instanceof EqualTo || condition instanceof EqualNullSafe)
        && mentions(condition.references(), keys)) {
      CollectionConverters.asJava(condition.references().toSeq()).forEach(column -> keys.add(column.exprId().id()));
    }
  }

  private static boolean mentions(AttributeSet columns, Set<Long> keys) {
    return CollectionConverters.asJava(columns.toSeq()).stream()
        .anyMatch(column -> keys.contains(column.exprId().id()));
  }
}
