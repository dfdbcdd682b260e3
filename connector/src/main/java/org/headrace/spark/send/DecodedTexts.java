package org.headrace.spark.send;

import java.util.Arrays;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The texts of a column, which Spark's Parquet reader may have left as indices of a dictionary; executor JVM, one thread.
 *
 * <p>There Spark decodes and copies a text for each row that has it, which takes more than all else that is done to it. Here
 * those at the first places of the dictionary are decoded once a batch.
 */
final class DecodedTexts {
  private static final int PLACES = 4096;

  private UTF8String[] decoded; // made for the first dictionary
  private ColumnVector source;
  private WritableColumnVector indices; // null where there is no dictionary

  /** To be called for each batch, as each may have another dictionary. */
  void begin(ColumnVector column) {
    source = column;
    indices = null;
    if (column instanceof WritableColumnVector own && own.hasDictionary()) {
      indices = own.getDictionaryIds();
      if (decoded == null) {
        decoded = new UTF8String[PLACES];
      }
      Arrays.fill(decoded, null);
    }
  }

  /** Of a row that is not null. */
  UTF8String at(int row) {
    if (indices == null) {
      return source.getUTF8String(row);
    }
    int place = indices.getDictId(row);
    if (place >= PLACES) {
      return source.getUTF8String(row);
    }
    if (decoded[place] == null) {
      decoded[place] = source.getUTF8String(row);
    }
    return decoded[place];
  }
}
