/* Reads columns of Spark's type void; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;

/** Every row is null, and Arrow has no memory for it. */
final class NullColumn extends FlatColumn {
  NullColumn(FieldVector vector, DataType type) {
    super(type, vector.getValueCount());
  }

  @Override
  public boolean isNullAt(int rowId) {
    return true;
  }
}
