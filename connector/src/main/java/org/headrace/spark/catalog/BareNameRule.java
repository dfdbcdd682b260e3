package org.headrace.spark.catalog;

import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.command.CreateDataSourceTableAsSelectCommand;
import org.apache.spark.sql.execution.command.RefreshTableCommand;
import org.headrace.spark.planner.Planners;
import scala.Option;

/**
 * Refuses to make a table that a temporary view of Headrace's would hide; driver JVM, an optimizer rule, as only such rules
 * can be installed in a session that runs.
 *
 * <p>{@code df.write.saveAsTable("orders")} does not look at temporary views. It would report success and leave the
 * registered table {@code orders} as it was, beside Parquet files that the name does not show. Where there is such
 * a table already, somebody made it knowingly, and Spark writes to it.
 *
 * <p>{@code REFRESH TABLE orders} does not look behind a temporary view either: the rule tells the table's catalog, and Spark
 * then reads again what it has cached.
 */
public final class BareNameRule extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof CreateDataSourceTableAsSelectCommand create) {
      check(SparkSession.active(), create.table().identifier());
    }
    if (plan instanceof RefreshTableCommand refresh && refresh.tableIdent().database().isEmpty()) {
      NamedTable shown = NamedTable.shown(SparkSession.active(), refresh.tableIdent().table());
      if (shown != null) {
        shown.refresh();
      }
    }
    return plan;
  }

  private static void check(SparkSession session, TableIdentifier made) {
    SessionCatalog catalog = session.sessionState().catalog();
    Option<String> database = made.database();
    if (database.isDefined() && !database.get().equals(catalog.getCurrentDatabase())) {
      return;
    }
    NamedTable shown = NamedTable.shown(session, made.table());
    if (shown == null || catalog.tableExists(made)) {
      return;
    }
    throw Planners.failed(
        "TableExistsError",
        "'" + made.table() + "' is a table registered with Headrace, and Spark would make another one, "
            + made.unquotedString() + ", which that name does not show. To write to the registered table: INSERT INTO "
            + made.table() + ", df.write.insertInto(\"" + made.table() + "\") or df.write.mode(\"append\").saveAsTable(\""
            + shown.catalog() + "." + made.table() + "\"). To make a new table, choose another name, or deregister this one first");
  }
}
