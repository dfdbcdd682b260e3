package org.headrace.spark.scan;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataTypes;
import scala.runtime.AbstractPartialFunction;

/**
 * Makes {@code count(DISTINCT 1)} one where Spark merges partial counts; driver JVM, an optimizer rule that runs after
 * pushdown.
 *
 * <p>Spark offers the count of a literal as {@code count(*)}, with DISTINCT too, and merges the counts of the partitions
 * by {@code sum(DISTINCT count)}: 5 for two partitions of five rows. Nothing tells the connector when it is offered.
 * Headrace gives no other partial results of DISTINCT, so any sum of such a kind over its scan is one of these.
 */
public final class DistinctLiteralRule extends Rule<LogicalPlan> {
  private static final AbstractPartialFunction<Expression, Expression> ONE_FOR_ANY_ROWS =
      new AbstractPartialFunction<>() {
        @Override
        public boolean isDefinedAt(Expression expression) {
          return expression instanceof AggregateExpression merged
              && merged.isDistinct()
              && merged.aggregateFunction() instanceof Sum;
        }

        @Override
        public Expression apply(Expression expression) {
          AggregateExpression merged = (AggregateExpression) expression;
          Expression rows =
              merged.copy(merged.aggregateFunction(), merged.mode(), false, merged.filter(), merged.resultId());
          return new If(new GreaterThan(rows, bigint(0)), bigint(1), bigint(0));
        }
      };

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.transformUp(
        new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
          @Override
          public boolean isDefinedAt(LogicalPlan node) {
            return node instanceof Aggregate aggregate && isOfPartialResults(aggregate.child());
          }

          @Override
          public LogicalPlan apply(LogicalPlan node) {
            return node.transformExpressions(ONE_FOR_ANY_ROWS);
          }
        });
  }

  private static Literal bigint(long value) {
    return new Literal(value, DataTypes.LongType);
  }

  private static boolean isOfPartialResults(LogicalPlan child) {
    LogicalPlan node = child;
    while (node instanceof Project project) {
      node = project.child();
    }
    return node instanceof DataSourceV2ScanRelation relation
        && relation.scan() instanceof HeadraceScan scan
        && scan.hasPartialResults();
  }
}
