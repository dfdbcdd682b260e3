package org.headrace.spark.write;

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * A batch on its way from {@link HandoffExec} to {@link HeadraceDataWriter}; executor JVM, one task's thread.
 *
 * <p>A row by its type alone: what Spark passes to a writer are rows. Nothing between the two looks into them.
 */
final class HandedBatch extends GenericInternalRow {
  private static final long serialVersionUID = 1L;
  private final transient ColumnarBatch whole;
  private final transient ColumnarBatch batch;

  /** {@code ordinals} say which columns of {@code whole} are the query's, in its order. */
  HandedBatch(ColumnarBatch whole, int[] ordinals) {
    super(new Object[0]);
    this.whole = whole;
    ColumnVector[] columns = new ColumnVector[ordinals.length];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = whole.column(ordinals[i]);
    }
    batch = new ColumnarBatch(columns, whole.numRows());
  }

  /** Valid until the next one is asked for. */
  ColumnarBatch batch() {
    return batch;
  }

  /** Nobody needs its rows any more; what Spark's conversion to rows does after each batch. */
  void release() {
    whole.closeIfFreeable();
  }
}
