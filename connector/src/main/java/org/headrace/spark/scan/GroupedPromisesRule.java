package org.headrace.spark.scan;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.V2ExpressionUtils;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Tells Spark how the groups of a scan are partitioned and ordered; driver JVM, an optimizer rule that runs after
 * pushdown.
 *
 * <p>A scan that yields groups still has the partitions of its table. Spark looks for what a scan states among the
 * table's own columns, and the groups have other names: without this rule a GROUP BY over keyed partitions would shuffle
 * because it was pushed.
 */
public final class GroupedPromisesRule extends Rule<LogicalPlan> {
  private static final String PARTITIONING = "keyGroupedPartitioning";
  private static final String ORDERING = "ordering";

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.transformUp(
        new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
          @Override
          public boolean isDefinedAt(LogicalPlan node) {
            return node instanceof DataSourceV2ScanRelation relation
                && relation.scan() instanceof HeadraceScan scan
                && scan.groupedBatch() != null
                && relation.keyGroupedPartitioning().isEmpty()
                && (relation.ordering().isEmpty() || relation.ordering().get().isEmpty());
          }

          @Override
          public LogicalPlan apply(LogicalPlan node) {
            return told((DataSourceV2ScanRelation) node);
          }
        });
  }

  private static LogicalPlan told(DataSourceV2ScanRelation relation) {
    PlannedBatch batch = ((HeadraceScan) relation.scan()).groupedBatch();
    Option<FunctionCatalog> functions = relation.relation().funCatalog();
    List<Expression> keys = new ArrayList<>();
    for (org.apache.spark.sql.connector.expressions.Expression key : batch.partitionKeys()) {
      Option<Expression> found = V2ExpressionUtils.toCatalystOpt(key, relation, functions);
      if (found.isEmpty()) {
        return relation;
      }
      keys.add(found.get());
    }
    List<SortOrder> order =
        CollectionConverters.asJava(V2ExpressionUtils.toCatalystOrdering(batch.order(), relation, functions));
    if (keys.isEmpty() && order.isEmpty()) {
      return relation;
    }
    Object[] parts = new Object[relation.productArity()]; // of which later versions have more
    for (int i = 0; i < parts.length; i++) {
      parts[i] =
          switch (relation.productElementName(i)) {
            case PARTITIONING -> keys.isEmpty() ? Option.empty() : Option.apply(CollectionConverters.asScala(keys).toSeq());
            case ORDERING -> order.isEmpty() ? Option.empty() : Option.apply(CollectionConverters.asScala(order).toSeq());
            default -> relation.productElement(i);
          };
    }
    return relation.makeCopy(parts);
  }
}
