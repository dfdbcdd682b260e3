package org.headrace.spark.scan;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.headrace.spark.planner.Words;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Drops runtime filters of Headrace's scans that would be learnt from a side of a join whose own runtime filters are
 * learnt from others again; driver JVM, an optimizer rule that runs after pushdown.
 *
 * <p>Spark plans the query behind each filter anew, and those inside of it, too: with a filter on every table of a join of
 * eighteen (TPC-DS q64) that took minutes, twice as long with each table. A side that is itself narrowed by another
 * table, as in a snowflake, still narrows the next. Only Spark's plan says what is behind a filter, so this is decided here
 * and not by Python.
 */
public final class NestedFiltersRule extends Rule<LogicalPlan> {

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.transformUp(
        new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
          @Override
          public boolean isDefinedAt(LogicalPlan node) {
            return node instanceof Filter filter
                && filter.child() instanceof DataSourceV2ScanRelation relation
                && relation.scan() instanceof HeadraceScan
                && prunings(filter.condition()).stream().anyMatch(NestedFiltersRule::isDeep);
          }

          @Override
          public LogicalPlan apply(LogicalPlan node) {
            tell((Filter) node);
            return node.transformExpressions(WITHOUT_DEEP_ONES);
          }
        });
  }

  /** So that explain can say which ones are gone. */
  private static void tell(Filter filter) {
    HeadraceScan scan = (HeadraceScan) ((DataSourceV2ScanRelation) filter.child()).scan();
    prunings(filter.condition()).stream()
        .filter(NestedFiltersRule::isDeep)
        .map(pruning -> HeadraceScan.leftOut(Words.DEEP).put(Words.COLUMN, column(pruning)))
        .forEach(scan::leaveOut);
  }

  private static String column(DynamicPruningSubquery pruning) {
    return pruning.pruningKey() instanceof Attribute key ? key.name() : pruning.pruningKey().sql();
  }

  private static final AbstractPartialFunction<Expression, Expression> WITHOUT_DEEP_ONES =
      new AbstractPartialFunction<>() {
        @Override
        public boolean isDefinedAt(Expression expression) {
          return expression instanceof DynamicPruningSubquery pruning && isDeep(pruning);
        }

        @Override
        public Expression apply(Expression expression) {
          return Literal.TrueLiteral();
        }
      };

  /** Looks no deeper than it must: the queries behind nested filters are the same ones, over and over. */
  private static boolean isDeep(DynamicPruningSubquery pruning) {
    return prunings(pruning.buildQuery()).stream().anyMatch(inner -> !prunings(inner.buildQuery()).isEmpty());
  }

  private static List<DynamicPruningSubquery> prunings(LogicalPlan plan) {
    List<DynamicPruningSubquery> found = new ArrayList<>();
    if (plan instanceof Filter filter) {
      found.addAll(prunings(filter.condition()));
    }
    CollectionConverters.asJava(plan.children()).forEach(child -> found.addAll(prunings(child)));
    return found;
  }

  private static List<DynamicPruningSubquery> prunings(Expression condition) {
    List<DynamicPruningSubquery> found = new ArrayList<>();
    if (condition instanceof DynamicPruningSubquery pruning) {
      found.add(pruning);
    }
    CollectionConverters.asJava(condition.children()).forEach(child -> found.addAll(prunings(child)));
    return found;
  }
}
