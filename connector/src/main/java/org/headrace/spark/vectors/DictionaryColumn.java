/* Reads columns of indices into a dictionary; runs in the executor JVM. */
package org.headrace.spark.vectors;

import java.util.BitSet;
import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Value i is what the dictionary has for index i. A row is null where its index is, or the value it stands for. */
final class DictionaryColumn extends FlatColumn {
  private final Dictionary dictionary;
  private final long indices;
  private final int width;
  private final BitSet nulls; // null where the bitmap of the indices tells them all
  private final int nullCount;

  /** The indices of {@code vector}, which were checked, have {@code width} bytes each. */
  DictionaryColumn(FieldVector vector, DataType type, Dictionary dictionary, int width) {
    super(vector, type);
    this.dictionary = dictionary;
    this.width = width;
    indices = address(vector, vector.getDataBuffer(), (long) vector.getValueCount() * width);
    nulls = dictionary.hasNulls() ? nulls(vector.getValueCount()) : null;
    nullCount = nulls == null ? super.numNulls() : nulls.cardinality();
  }

  private BitSet nulls(int rows) {
    BitSet found = new BitSet(rows);
    for (int row = 0; row < rows; row++) {
      found.set(row, super.isNullAt(row) || dictionary.isNull(index(row)));
    }
    return found;
  }

  private int index(int rowId) {
    return switch (width) {
      case 1 -> Platform.getByte(null, indices + rowId) & 0xff;
      case 2 -> Platform.getShort(null, indices + ((long) rowId << 1)) & 0xffff;
      default -> Platform.getInt(null, indices + ((long) rowId << 2));
    };
  }

  @Override
  public boolean hasNull() {
    return nullCount != 0;
  }

  @Override
  public int numNulls() {
    return nullCount;
  }

  @Override
  public boolean isNullAt(int rowId) {
    return nulls == null ? super.isNullAt(rowId) : nulls.get(rowId);
  }

  @Override
  public UTF8String getUTF8String(int rowId) {
    return isNullAt(rowId) ? null : dictionary.string(index(rowId));
  }

  @Override
  public byte[] getBinary(int rowId) {
    return isNullAt(rowId) ? null : dictionary.bytes(index(rowId));
  }
}
