package org.headrace.spark.write;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Marks the query of a write whose batches may be handed over as they are; driver JVM.
 *
 * <p>A node of its own, because adaptive execution plans a query again from its logical plan: {@link HandoffExec} would be
 * lost there.
 */
public final class Handoff extends LogicalPlan {
  private static final long serialVersionUID = 1L;
  private final LogicalPlan child;

  /** Public because Spark copies nodes by their constructors. */
  public Handoff(LogicalPlan child) {
    this.child = child;
  }

  LogicalPlan child() {
    return child;
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Seq<LogicalPlan> children() {
    return CollectionConverters.asScala(java.util.List.of(child)).toList();
  }

  @Override
  public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> children) {
    return new Handoff(children.apply(0));
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int n) {
    return child;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof Handoff;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Handoff same && child.equals(same.child);
  }

  @Override
  public int hashCode() {
    return child.hashCode() + 1;
  }
}
