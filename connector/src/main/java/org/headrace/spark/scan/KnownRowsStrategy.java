package org.headrace.spark.scan;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedProjection;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CommandResultExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Takes the rows of a scan that Python knew when it planned it, without a job; driver JVM, asked before Spark's own
 * strategies.
 *
 * <p>A job of one task takes several times as long as all else in such a query. The scan stays visible in EXPLAIN, below
 * the rows that came of it.
 */
public final class KnownRowsStrategy extends SparkStrategy {
  private final SparkSession session;

  KnownRowsStrategy(SparkSession session) {
    this.session = session;
  }

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    List<SparkPlan> found = new ArrayList<>();
    if (plan instanceof Project project) {
      if (project.child() instanceof DataSourceV2ScanRelation relation && knowsRows(relation)) {
        List<NamedExpression> columns = CollectionConverters.asJava(project.projectList());
        if (columns.stream().allMatch(column -> isPassedOn((Expression) column))) {
          found.add(result(plan, projected(columns, relation)));
        }
      }
    } else if (plan instanceof DataSourceV2ScanRelation relation && knowsRows(relation)) {
      found.add(result(plan, rows(relation)));
    }
    return CollectionConverters.asScala(found).toList();
  }

  private static boolean knowsRows(DataSourceV2ScanRelation relation) {
    return relation.scan() instanceof HeadraceScan scan && scan.knowsRows();
  }

  private static List<InternalRow> rows(DataSourceV2ScanRelation relation) {
    return List.of(((HeadraceScan) relation.scan()).knownRows());
  }

  /** Whether it is a column under whatever name: anything more could fail, and is better left to when the query runs. */
  private static boolean isPassedOn(Expression column) {
    return column instanceof Attribute || (column instanceof Alias alias && isPassedOn(alias.child()));
  }

  private static List<InternalRow> projected(List<NamedExpression> columns, DataSourceV2ScanRelation relation) {
    List<Expression> expressions = columns.stream().map(Expression.class::cast).toList();
    InterpretedProjection projection =
        new InterpretedProjection(
            CollectionConverters.asScala(expressions).toList(),
            CollectionConverters.asScala(
                    CollectionConverters.asJava(relation.output()).stream().map(Attribute.class::cast).toList())
                .toList());
    return rows(relation).stream().map(projection::apply).toList();
  }

  private SparkPlan result(LogicalPlan plan, List<InternalRow> rows) {
    SparkPlan scanned = new DataSourceV2Strategy(session).apply(plan).head();
    return new CommandResultExec(scanned.output(), scanned, CollectionConverters.asScala(rows).toList());
  }
}
