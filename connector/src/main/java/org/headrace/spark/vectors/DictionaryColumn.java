/* Reads columns of indices into a dictionary; runs in the executor JVM. */
package org.headrace.spark.vectors;

import java.util.BitSet;
import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Value i is what the dictionary has for index i. A row is null where its index is, or the value it stands for.
 *
 * <p>The indices were checked. A class for each width of them, as in {@link FixedColumn}: to look at the width of every
 * row takes a tenth of the time in which a filter compares it.
 */
abstract class DictionaryColumn extends FlatColumn {
  private final Dictionary dictionary;
  private final UTF8String[] strings; // the dictionary's; null for bytes
  final long indices;
  private final BitSet nulls; // null where the bitmap of the indices tells them all
  private final int nullCount;

  private DictionaryColumn(FieldVector vector, DataType type, Dictionary dictionary, int width) {
    super(vector, type);
    this.dictionary = dictionary;
    strings = dictionary.strings();
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

  abstract int index(int rowId);

  @Override
  public final boolean hasNull() {
    return nullCount != 0;
  }

  @Override
  public final int numNulls() {
    return nullCount;
  }

  @Override
  public final boolean isNullAt(int rowId) {
    return nullCount != 0 && (nulls == null ? super.isNullAt(rowId) : nulls.get(rowId));
  }

  @Override
  public final UTF8String getUTF8String(int rowId) {
    return isNullAt(rowId) ? null : strings[index(rowId)];
  }

  @Override
  public final byte[] getBinary(int rowId) {
    return isNullAt(rowId) ? null : dictionary.bytes(index(rowId));
  }

  static final class Bytes extends DictionaryColumn {
    Bytes(FieldVector vector, DataType type, Dictionary dictionary) {
      super(vector, type, dictionary, Byte.BYTES);
    }

    @Override
    int index(int rowId) {
      return Platform.getByte(null, indices + rowId) & 0xff;
    }
  }

  static final class Shorts extends DictionaryColumn {
    Shorts(FieldVector vector, DataType type, Dictionary dictionary) {
      super(vector, type, dictionary, Short.BYTES);
    }

    @Override
    int index(int rowId) {
      return Platform.getShort(null, indices + ((long) rowId << 1)) & 0xffff;
    }
  }

  static final class Ints extends DictionaryColumn {
    Ints(FieldVector vector, DataType type, Dictionary dictionary) {
      super(vector, type, dictionary, Integer.BYTES);
    }

    @Override
    int index(int rowId) {
      return Platform.getInt(null, indices + ((long) rowId << 2));
    }
  }
}
