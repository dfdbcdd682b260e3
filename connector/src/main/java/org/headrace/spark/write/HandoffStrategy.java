package org.headrace.spark.write;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LeafNode;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Plans writes to Headrace's tables whose query is a table's columns, so that batches can be handed over as they are;
 * driver JVM.
 *
 * <p>No other query can be columnar down to its last step. There nothing is put between it and the write: adaptive execution
 * looks for the shuffle that a layout asks for at the top of the query.
 */
public final class HandoffStrategy extends SparkStrategy {
  private static final long serialVersionUID = 1L;

  /** Adds strategies to a session, one of each class. */
  public static void install(SparkSession session, List<SparkStrategy> strategies) {
    synchronized (HandoffStrategy.class) { // two threads may load catalogs of one session
      List<SparkStrategy> all = new ArrayList<>(CollectionConverters.asJava(session.experimental().extraStrategies()));
      for (SparkStrategy strategy : strategies) {
        if (all.stream().noneMatch(strategy.getClass()::isInstance)) {
          all.add(strategy);
        }
      }
      session.experimental().extraStrategies_$eq(CollectionConverters.asScala(all).toList());
    }
  }

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    if (plan instanceof Handoff handoff) {
      List<SparkPlan> planned = List.of(new HandoffExec(planLater(handoff.child())));
      return CollectionConverters.asScala(planned).toList();
    }
    if (plan instanceof V2WriteCommand command
        && write(command) instanceof HeadraceWrite write
        && write.takesColumns()
        && isTable(command.query())) {
      LogicalPlan marked = (LogicalPlan) command.withNewQuery(new Handoff(command.query()));
      return new DataSourceV2Strategy(SparkSession.active()).apply(marked);
    }
    return CollectionConverters.asScala(List.<SparkPlan>of()).toList();
  }

  /** Whether a query is one table, perhaps with projections that compute nothing. */
  private static boolean isTable(LogicalPlan query) {
    return query instanceof LeafNode
        || query instanceof Project project && choosesColumns(project) && isTable(project.child());
  }

  private static boolean choosesColumns(Project project) {
    return CollectionConverters.asJava(project.projectList()).stream()
        .allMatch(expression -> ColumnSource.source(expression) != null);
  }

  /** Null for commands that cannot be run on Headrace's tables. */
  private static Write write(V2WriteCommand command) {
    Option<Write> write = Option.empty();
    if (command instanceof AppendData append) {
      write = append.write();
    } else if (command instanceof OverwriteByExpression overwrite) {
      write = overwrite.write();
    } else if (command instanceof OverwritePartitionsDynamic overwrite) {
      write = overwrite.write();
    }
    return write.isDefined() ? write.get() : null;
  }
}
