package org.headrace.spark.write;

import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Hands the batches of a columnar plan to {@link HeadraceDataWriter}, each as one {@link HandedBatch}; where the plan makes
 * rows, it passes them on. Driver JVM.
 *
 * <p>Spark puts a conversion to rows below it, as it has no columnar writes. That is left out when the plan runs, and shown
 * in EXPLAIN all the same.
 */
public final class HandoffExec extends SparkPlan {
  private static final long serialVersionUID = 1L;
  private static final String ROWS = "numOutputRows";
  private static final String BATCHES = "numInputBatches";

  private final SparkPlan child;
  private transient Map<String, SQLMetric> metrics;

  /** Public because Spark copies nodes by their constructors. */
  public HandoffExec(SparkPlan child) {
    this.child = child;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    ColumnSource source = ColumnSource.below(child);
    if (source == null) {
      return child.execute();
    }
    Handing handing = new Handing(source.ordinals(), longMetric(ROWS), longMetric(BATCHES));
    return source.plan().executeColumnar().toJavaRDD().mapPartitions(handing).rdd();
  }

  /** What the tasks do. */
  private record Handing(int[] ordinals, SQLMetric rows, SQLMetric batches)
      implements FlatMapFunction<Iterator<ColumnarBatch>, InternalRow> {
    @Override
    public Iterator<InternalRow> call(Iterator<ColumnarBatch> all) {
      return new Iterator<>() {
        @Override
        public boolean hasNext() {
          return all.hasNext();
        }

        @Override
        public InternalRow next() {
          ColumnarBatch batch = all.next();
          rows.add(batch.numRows());
          batches.add(1);
          return new HandedBatch(batch, ordinals);
        }
      };
    }
  }

  /** As EXPLAIN and the SQL tab show it. */
  @Override
  public String nodeName() {
    return "HeadraceHandoff of " + (ColumnSource.below(child) == null ? "rows" : "columns");
  }

  @Override
  public synchronized Map<String, SQLMetric> metrics() {
    if (metrics == null) {
      metrics =
          Map.from(
              CollectionConverters.asScala(
                  java.util.Map.of(
                      ROWS, SQLMetrics.createMetric(sparkContext(), "number of output rows"),
                      BATCHES, SQLMetrics.createMetric(sparkContext(), "number of input batches"))));
    }
    return metrics;
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return child.outputOrdering();
  }

  @Override
  public Seq<SparkPlan> children() {
    return CollectionConverters.asScala(List.of(child)).toList();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new HandoffExec(children.apply(0));
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
    return other instanceof HandoffExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof HandoffExec same && child.equals(same.child);
  }

  @Override
  public int hashCode() {
    return child.hashCode() + 1;
  }
}
