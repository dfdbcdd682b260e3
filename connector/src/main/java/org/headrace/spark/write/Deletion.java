package org.headrace.spark.write;

import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;

/** DELETE FROM and TRUNCATE TABLE, which Python does; driver JVM. */
public final class Deletion {
  private final WriteTarget target;

  public Deletion(String context, String tableId, String tableName) {
    this.target = new WriteTarget(context, tableId, tableName, null);
  }

  /** While Spark plans: throws, by name, what Python says where it cannot. */
  public void plan(Predicate... predicates) {
    Planners.ask(target.context(), Words.PLAN_DELETE, target.question(WriteTarget.filters(predicates)));
  }

  /** When the statement runs. */
  public void delete(Predicate... predicates) {
    Planners.tell(target.context(), Words.DELETE, target.question(WriteTarget.filters(predicates)));
  }
}
