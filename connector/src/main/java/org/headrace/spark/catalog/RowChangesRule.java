package org.headrace.spark.catalog;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.headrace.spark.planner.Planners;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Refuses UPDATE and MERGE with what to do instead, before Spark does with advice on its own settings; driver JVM, an
 * optimizer rule.
 */
public final class RowChangesRule extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof UpdateTable update) {
      check("UPDATE", update.table());
    } else if (plan instanceof MergeIntoTable merge) {
      check("MERGE", merge.targetTable());
    }
    return plan;
  }

  private static void check(String statement, LogicalPlan target) {
    for (LogicalPlan leaf : CollectionConverters.asJava(target.collectLeaves())) {
      if (leaf instanceof InMemoryRelation cached) {
        check(statement, cached.cacheBuilder().logicalPlan());
      }
      DataSourceV2Relation relation = relation(leaf);
      if (relation != null && relation.table() instanceof HeadraceTable table) {
        String name = relation.name(); // quoted where that is needed
        throw Planners.failed(
            "WriteError",
            statement + " does not work on the table '" + table.name() + "'. To change rows of a table that can be written"
                + " to: INSERT OVERWRITE " + name + " SELECT ... FROM " + name + " with all of its rows as they should be,"
                + " or DELETE the rows and INSERT them again, where its provider can; in a database, INSERT INTO a table"
                + " that is registered as AdbcTable(..., upsert_on=[...]), which replaces the rows of equal keys");
      }
    }
  }

  private static DataSourceV2Relation relation(LogicalPlan leaf) {
    if (leaf instanceof DataSourceV2ScanRelation scanned) {
      return scanned.relation();
    }
    return leaf instanceof DataSourceV2Relation relation ? relation : null;
  }
}
