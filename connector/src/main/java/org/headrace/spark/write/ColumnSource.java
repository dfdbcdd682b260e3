package org.headrace.spark.write;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** A plan that yields columns, and which of them are a query's, in its order; driver JVM. */
record ColumnSource(SparkPlan plan, int[] ordinals) {
  /**
   * What is below {@code rows}, without what makes rows of columns and without projections that only choose, order and name
   * columns. Null where anything else is there, for instance a projection that checks values.
   */
  static ColumnSource below(SparkPlan rows) {
    SparkPlan plan = rows;
    List<ExprId> columns = ids(rows.output());
    while (!plan.supportsColumnar()) {
      if (plan instanceof ProjectExec project) {
        columns = sources(columns, project.projectList());
        if (columns == null) {
          return null;
        }
      } else if (!makesRows(plan)) {
        return null;
      }
      plan = plan.children().head();
    }
    List<ExprId> found = ids(plan.output());
    int[] ordinals = columns.stream().mapToInt(found::indexOf).toArray();
    for (int ordinal : ordinals) {
      if (ordinal < 0) {
        return null;
      }
    }
    return new ColumnSource(plan, ordinals);
  }

  private static boolean makesRows(SparkPlan plan) {
    return plan instanceof WholeStageCodegenExec || plan instanceof InputAdapter || plan instanceof ColumnarToRowExec;
  }

  /** The columns, below a projection, that these are above it; null where one is computed. */
  private static List<ExprId> sources(List<ExprId> columns, Seq<NamedExpression> projection) {
    List<ExprId> sources = new ArrayList<>();
    for (ExprId column : columns) {
      for (NamedExpression expression : CollectionConverters.asJava(projection)) {
        if (expression.exprId().equals(column)) {
          AttributeReference source = source(expression);
          if (source == null) {
            return null;
          }
          sources.add(source.exprId());
          break;
        }
      }
    }
    return sources;
  }

  /** The column that is chosen, under its own name or another; null where a value is computed. */
  static AttributeReference source(NamedExpression expression) {
    Object source = expression instanceof Alias alias ? alias.child() : expression;
    return source instanceof AttributeReference reference ? reference : null;
  }

  private static List<ExprId> ids(Seq<Attribute> columns) {
    return CollectionConverters.asJava(columns).stream().map(Attribute::exprId).toList();
  }
}
