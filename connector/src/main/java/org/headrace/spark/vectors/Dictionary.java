/* The values that a dictionary column's indices stand for; runs in the executor JVM. */
package org.headrace.spark.vectors;

import java.util.Arrays;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Text or bytes on the heap, each value once; immutable.
 *
 * <p>As strings of their own: whoever asks Spark's UTF8String for its bytes, as a GROUP BY does for every row, then gets
 * them without a copy.
 */
public final class Dictionary {
  public static final Dictionary NO_TEXT = new Dictionary(new byte[0][], new UTF8String[0]);
  public static final Dictionary NO_BYTES = new Dictionary(new byte[0][], null);

  private final byte[][] values;
  private final UTF8String[] strings; // null for bytes
  private final int nulls;

  private Dictionary(byte[][] values, UTF8String[] strings) {
    this.values = values;
    this.strings = strings;
    this.nulls = (int) Arrays.stream(values).filter(value -> value == null).count();
  }

  /** Copies the values of {@code vector}, whose buffers were checked. */
  public static Dictionary of(FieldVector vector) {
    byte[][] values = new byte[vector.getValueCount()][];
    if (vector instanceof VarBinaryVector bytes) {
      Arrays.setAll(values, i -> bytes.isNull(i) ? null : bytes.get(i));
      return new Dictionary(values, null);
    }
    VarCharVector text = (VarCharVector) vector; // SentColumns lets no other type pass
    Arrays.setAll(values, i -> text.isNull(i) ? null : text.get(i));
    UTF8String[] strings = new UTF8String[values.length];
    Arrays.setAll(strings, i -> UTF8String.fromBytes(values[i]));
    return new Dictionary(values, strings);
  }

  /** These values, and then those of {@code more}, which are of the same kind: what an Arrow delta means. */
  public Dictionary followedBy(Dictionary more) {
    return new Dictionary(joined(values, more.values), strings == null ? null : joined(strings, more.strings));
  }

  private static <T> T[] joined(T[] first, T[] second) {
    T[] both = Arrays.copyOf(first, first.length + second.length);
    System.arraycopy(second, 0, both, first.length, second.length);
    return both;
  }

  public int size() {
    return values.length;
  }

  boolean isText() {
    return strings != null;
  }

  boolean hasNulls() {
    return nulls != 0;
  }

  boolean isNull(int index) {
    return values[index] == null;
  }

  /** Not to be written to; null for bytes. */
  UTF8String[] strings() {
    return strings;
  }

  /** A copy: whoever gets it may write to it. */
  byte[] bytes(int index) {
    return values[index].clone();
  }
}
