package org.headrace.spark.stream;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.types.StructType;
import org.headrace.spark.Versions;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.scan.HeadraceScan;
import org.headrace.spark.scan.HeadraceScanBuilder;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Offers a query's columns and filters to its Headrace streams, which Spark does for batches alone; driver JVM, an
 * optimizer rule that runs after Spark's own, for each micro-batch.
 *
 * <p>A stream that a query reads in two places is left as it is. Spark takes scans of equal streams for the same rows, and
 * would use what one place has shuffled for the other; and pruned streams have to be equal, or the rows read are not
 * counted.
 */
public final class PrunedStreamRule extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    List<HeadraceStream> streams = new ArrayList<>();
    collect(plan, streams);
    streams.removeIf(HeadraceStream::isPruned);
    if (streams.isEmpty()) {
      return plan;
    }
    return plan.transformDown(
        new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
          @Override
          public boolean isDefinedAt(LogicalPlan node) {
            StreamingDataSourceV2ScanRelation relation = relationBelow(node);
            return relation != null && streams.stream().filter(relation.stream()::equals).count() == 1;
          }

          @Override
          public LogicalPlan apply(LogicalPlan node) {
            return pruned(node);
          }
        });
  }

  private static void collect(LogicalPlan node, List<HeadraceStream> streams) {
    if (node instanceof StreamingDataSourceV2ScanRelation relation
        && relation.stream() instanceof HeadraceStream stream) {
      streams.add(stream);
    }
    CollectionConverters.asJava(node.children()).forEach(child -> collect(child, streams));
  }

  /** The relation that a projection, a filter, or a projection of a filter is about, if it is one of a whole stream. */
  private static StreamingDataSourceV2ScanRelation relationBelow(LogicalPlan node) {
    LogicalPlan below = node instanceof Project project ? project.child() : node;
    below = below instanceof Filter filter ? filter.child() : below;
    return below != node
            && below instanceof StreamingDataSourceV2ScanRelation relation
            && relation.endOffset().isDefined()
            && relation.stream() instanceof HeadraceStream stream
            && !stream.isPruned()
        ? relation
        : null;
  }

  private static LogicalPlan pruned(LogicalPlan node) {
    StreamingDataSourceV2ScanRelation relation = relationBelow(node);
    Project project = node instanceof Project found ? found : null;
    LogicalPlan child = project == null ? node : project.child();
    List<Expression> filters = new ArrayList<>();
    if (child instanceof Filter filter) {
      split(filter.condition(), filters);
    }
    HeadraceStream stream = (HeadraceStream) relation.stream();
    Set<String> projected = project == null ? names(relation) : referenced(project);
    PrunedStream made = stream.pruned();
    if (made == null || !made.isFor(filters, projected)) {
      made = Planners.interruptible(() -> made(relation, stream, filters, projected));
      stream.keep(made);
    }
    LogicalPlan below = reading(relation, made);
    if (!made.left().isEmpty()) {
      below = new Filter(made.left().stream().reduce(And::new).get(), below);
    }
    return project == null ? below : project.copy(project.projectList(), below);
  }

  private static PrunedStream made(
      StreamingDataSourceV2ScanRelation relation,
      HeadraceStream stream,
      List<Expression> filters,
      Set<String> projected) {
    HeadraceScanBuilder builder = stream.newBuilder();
    List<Expression> offered = new ArrayList<>(filters);
    List<Expression> left = new ArrayList<>(filters);
    offered.removeIf(SubqueryExpression::hasSubquery);
    left.removeAll(offered);
    if (!offered.isEmpty()) {
      left.addAll(Versions.pushFilters(builder, offered, relation.output()));
    }
    Set<String> needed = new LinkedHashSet<>(projected);
    left.forEach(filter -> addNames(filter, needed));
    StructType columns = new StructType();
    for (AttributeReference column : CollectionConverters.asJava(relation.output())) {
      if (needed.contains(column.name())) {
        columns = columns.add(column.name(), column.dataType(), column.nullable(), column.metadata());
      }
    }
    builder.pruneColumns(columns);
    HeadraceScan scan = (HeadraceScan) builder.build();
    return new PrunedStream(filters, projected, scan, stream.readBy(scan), left);
  }

  private static LogicalPlan reading(StreamingDataSourceV2ScanRelation relation, PrunedStream made) {
    Set<String> read = Set.of(made.scan().readSchema().fieldNames());
    List<AttributeReference> output = new ArrayList<>(CollectionConverters.asJava(relation.output()));
    output.removeIf(column -> !read.contains(column.name()));
    return relation.copy(
        relation.relation(),
        made.scan(),
        CollectionConverters.asScala(output).toList(),
        made.stream(),
        relation.startOffset(),
        relation.endOffset());
  }

  private static void split(Expression condition, List<Expression> conjuncts) {
    if (condition instanceof And and) {
      split(and.left(), conjuncts);
      split(and.right(), conjuncts);
    } else {
      conjuncts.add(condition);
    }
  }

  private static Set<String> names(StreamingDataSourceV2ScanRelation relation) {
    Set<String> names = new LinkedHashSet<>();
    CollectionConverters.asJava(relation.output()).forEach(column -> names.add(column.name()));
    return names;
  }

  private static Set<String> referenced(Project project) {
    Set<String> names = new LinkedHashSet<>();
    for (NamedExpression column : CollectionConverters.asJava(project.projectList())) {
      addNames((Expression) column, names);
    }
    return names;
  }

  private static void addNames(Expression expression, Set<String> names) {
    CollectionConverters.asJava(expression.references().toSeq()).forEach(column -> names.add(column.name()));
  }
}
