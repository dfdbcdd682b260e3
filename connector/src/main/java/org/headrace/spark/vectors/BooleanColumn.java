/* Reads boolean columns, packed eight to a byte; runs in the executor JVM. */
package org.headrace.spark.vectors;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;

final class BooleanColumn extends FlatColumn {
  private final long values;

  BooleanColumn(FieldVector vector, DataType type) {
    super(vector, type);
    values = address(vector, vector.getDataBuffer(), bytesOfBits(vector.getValueCount()));
  }

  @Override
  public boolean getBoolean(int rowId) {
    return bit(values, rowId);
  }
}
