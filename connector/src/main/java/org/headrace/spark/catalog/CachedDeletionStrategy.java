package org.headrace.spark.catalog;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Plans DELETE FROM a Headrace table that is cached; driver JVM.
 *
 * <p>Spark puts the cached rows in the table's place before it plans the statement, and then has no table to delete from
 * (INTERNAL_ERROR). Here the table comes back. Spark reads the cached rows again when the statement has run, as after
 * any other.
 */
final class CachedDeletionStrategy extends SparkStrategy {
  private static final long serialVersionUID = 1L;

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    if (plan instanceof DeleteFromTable deletion && deletion.table() instanceof InMemoryRelation cached) {
      DataSourceV2Relation table = table(cached.cacheBuilder().logicalPlan());
      if (table != null && table.table() instanceof HeadraceTable) {
        SparkSession session = SparkSession.active();
        Expression condition = of(table.output(), cached.output(), deletion.condition());
        LogicalPlan uncached = new DeleteFromTable(table, condition);
        return new DataSourceV2Strategy(session).apply(session.sessionState().optimizer().execute(uncached));
      }
    }
    return CollectionConverters.asScala(List.<SparkPlan>of()).toList();
  }

  /** The table of which a cached plan has the rows and columns as they are, a view too; null for other plans. */
  private static DataSourceV2Relation table(LogicalPlan plan) {
    Seq<LogicalPlan> leaves = plan.collectLeaves();
    boolean shown = leaves.size() == 1 && leaves.head() instanceof DataSourceV2Relation && plan.sameResult(leaves.head());
    return shown ? (DataSourceV2Relation) leaves.head() : null;
  }

  /** A condition on the cached columns as one on the table's, which are the same in the same order. */
  private static Expression of(Seq<? extends Attribute> table, Seq<Attribute> cached, Expression condition) {
    List<? extends Attribute> own = CollectionConverters.asJava(table);
    List<Attribute> found = CollectionConverters.asJava(cached);
    return condition.transform(
        new AbstractPartialFunction<Expression, Expression>() {
          @Override
          public boolean isDefinedAt(Expression expression) {
            return expression instanceof Attribute;
          }

          @Override
          public Expression apply(Expression expression) {
            for (int i = 0; i < found.size(); i++) {
              if (found.get(i).exprId().equals(((Attribute) expression).exprId())) {
                return own.get(i);
              }
            }
            return expression;
          }
        });
  }
}
