/* Reads decimal columns, 16 bytes little endian each; runs in the executor JVM. */
package org.headrace.spark.vectors;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import org.apache.arrow.vector.DecimalVector;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.Platform;

final class DecimalColumn extends FlatColumn {
  private final long values;
  private final int ownPrecision;
  private final int ownScale;
  private final long compactBound;

  DecimalColumn(DecimalVector vector, DecimalType type) {
    super(vector, type);
    values = address(vector, vector.getDataBuffer(), (long) vector.getValueCount() << 4);
    ownPrecision = type.precision();
    ownScale = type.scale();
    compactBound = powerOfTen(Math.min(ownPrecision, Decimal.MAX_LONG_DIGITS()));
  }

  /**
   * Most values, of wide types too, fit a long and are built from it. What does not fit, or does not fit the
   * declared precision, goes through BigDecimal, where Spark raises its own overflow error.
   */
  @Override
  public Decimal getDecimal(int rowId, int precision, int scale) {
    if (isNullAt(rowId)) {
      return null;
    }
    long at = values + ((long) rowId << 4);
    long low = Platform.getLong(null, at);
    long high = Platform.getLong(null, at + 8);
    boolean fits = high == low >> 63 && low < compactBound && low > -compactBound;
    if (fits && precision == ownPrecision && scale == ownScale) {
      return Decimal.createUnsafe(low, precision, scale);
    }
    BigInteger unscaled = new BigInteger(ByteBuffer.allocate(16).putLong(high).putLong(low).array());
    return Decimal.apply(new BigDecimal(unscaled, ownScale), precision, scale);
  }

  private static long powerOfTen(int digits) {
    long power = 1;
    for (int i = 0; i < digits; i++) {
      power *= 10;
    }
    return power;
  }
}
