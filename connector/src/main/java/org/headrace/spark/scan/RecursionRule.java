package org.headrace.spark.scan;

import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.headrace.spark.Versions;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Keeps runtime filters out of recursive queries; driver JVM, an optimizer rule that runs after pushdown.
 *
 * <p>Spark optimizes a recursion with its query, and then again for each step. A runtime filter of the query is an
 * unresolved operator in a step. One of a step would stay with the scan, which all steps share, and the next step would
 * miss rows.
 */
public final class RecursionRule extends Rule<LogicalPlan> {
  private static final AbstractPartialFunction<LogicalPlan, HeadraceScan> SCANS =
      new AbstractPartialFunction<>() {
        @Override
        public boolean isDefinedAt(LogicalPlan node) {
          return node instanceof DataSourceV2ScanRelation relation && relation.scan() instanceof HeadraceScan;
        }

        @Override
        public HeadraceScan apply(LogicalPlan node) {
          return (HeadraceScan) ((DataSourceV2ScanRelation) node).scan();
        }
      };

  private static final AbstractPartialFunction<Expression, Expression> WITHOUT_RUNTIME_FILTERS =
      new AbstractPartialFunction<>() {
        @Override
        public boolean isDefinedAt(Expression expression) {
          return expression instanceof DynamicPruningSubquery;
        }

        @Override
        public Expression apply(Expression expression) {
          return Literal.TrueLiteral();
        }
      };

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.transformDown(
        new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
          @Override
          public boolean isDefinedAt(LogicalPlan node) {
            return Versions.isRecursion(node);
          }

          @Override
          public LogicalPlan apply(LogicalPlan recursion) {
            CollectionConverters.asJava(recursion.collectWithSubqueries(SCANS))
                .forEach(HeadraceScan::withholdRuntimeFilters);
            return recursion.transformAllExpressionsWithSubqueries(WITHOUT_RUNTIME_FILTERS);
          }
        });
  }
}
