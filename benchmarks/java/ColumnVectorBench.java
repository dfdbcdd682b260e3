/*
 * Times reading Arrow batches through our columns and through Spark's ArrowColumnVector; runs in a plain JVM.
 *
 * Both get a loop of their own for each type, as Spark generates one per query: in a shared loop the JIT would see
 * two classes and favour neither. The loop asks isNullAt before every read, as generated code does for nullable
 * columns. New columns are made for every batch. The best of many short rounds is kept, taken in turns.
 */
import java.nio.charset.StandardCharsets;
import java.util.Random;
import java.util.function.ToLongFunction;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.headrace.spark.vectors.ArrowColumns;

public final class ColumnVectorBench {
  private static final int ROWS = 64 * 1024;
  private static final int ROUNDS = 30;
  private static final int BATCHES_PER_ROUND = 40;
  private static final DataType DECIMAL = new DecimalType(18, 2);

  private record Contest(
      String name, FieldVector vector, ToLongFunction<FieldVector> ours, ToLongFunction<FieldVector> arrows) {}

  public static void main(String[] args) {
    System.out.printf("%-28s %12s %12s %8s%n", "", "ours ns/row", "arrow ns/row", "ratio");
    try (BufferAllocator allocator = new RootAllocator()) {
      // All types first, so that every class is loaded and every profile is as mixed as in a real query.
      Contest[] contests = new Contest[8];
      double[] nullShares = {0, 0.1};
      for (int i = 0; i < 2; i++) {
        String nulls = i == 0 ? ", no nulls" : ", 10 % nulls";
        double share = nullShares[i];
        contests[i] = new Contest("sum of long" + nulls, longs(allocator, share),
            ColumnVectorBench::ourLongs, ColumnVectorBench::arrowLongs);
        contests[2 + i] = new Contest("sum of double" + nulls, doubles(allocator, share),
            ColumnVectorBench::ourDoubles, ColumnVectorBench::arrowDoubles);
        contests[4 + i] = new Contest("string bytes" + nulls, strings(allocator, share),
            ColumnVectorBench::ourStrings, ColumnVectorBench::arrowStrings);
        contests[6 + i] = new Contest("sum of decimal" + nulls, decimals(allocator, share),
            ColumnVectorBench::ourDecimals, ColumnVectorBench::arrowDecimals);
      }
      for (Contest contest : contests) {
        run(contest, 3);
      }
      for (Contest contest : contests) {
        double[] best = run(contest, ROUNDS);
        System.out.printf(
            "%-28s %12.2f %12.2f %7.1fx%n", contest.name, best[0], best[1], best[1] / best[0]);
      }
      for (Contest contest : contests) {
        contest.vector.close();
      }
    }
  }

  private static double[] run(Contest contest, int rounds) {
    double[] best = {Double.MAX_VALUE, Double.MAX_VALUE};
    for (int round = 0; round < rounds; round++) {
      long ours = 0;
      long arrows = 0;
      long start = System.nanoTime();
      for (int i = 0; i < BATCHES_PER_ROUND; i++) {
        ours += contest.ours.applyAsLong(contest.vector);
      }
      long middle = System.nanoTime();
      for (int i = 0; i < BATCHES_PER_ROUND; i++) {
        arrows += contest.arrows.applyAsLong(contest.vector);
      }
      long end = System.nanoTime();
      if (ours != arrows) {
        throw new IllegalStateException(contest.name + ": ours " + ours + ", arrow " + arrows);
      }
      double rows = (double) ROWS * BATCHES_PER_ROUND;
      best[0] = Math.min(best[0], (middle - start) / rows);
      best[1] = Math.min(best[1], (end - middle) / rows);
    }
    return best;
  }

  private static long ourLongs(FieldVector vector) {
    ColumnVector column = ArrowColumns.of(vector, DataTypes.LongType);
    long sum = 0;
    for (int row = 0; row < ROWS; row++) {
      if (!column.isNullAt(row)) {
        sum += column.getLong(row);
      }
    }
    return sum;
  }

  private static long arrowLongs(FieldVector vector) {
    ColumnVector column = new ArrowColumnVector(vector);
    long sum = 0;
    for (int row = 0; row < ROWS; row++) {
      if (!column.isNullAt(row)) {
        sum += column.getLong(row);
      }
    }
    return sum;
  }

  private static long ourDoubles(FieldVector vector) {
    ColumnVector column = ArrowColumns.of(vector, DataTypes.DoubleType);
    double sum = 0;
    for (int row = 0; row < ROWS; row++) {
      if (!column.isNullAt(row)) {
        sum += column.getDouble(row);
      }
    }
    return Double.doubleToLongBits(sum);
  }

  private static long arrowDoubles(FieldVector vector) {
    ColumnVector column = new ArrowColumnVector(vector);
    double sum = 0;
    for (int row = 0; row < ROWS; row++) {
      if (!column.isNullAt(row)) {
        sum += column.getDouble(row);
      }
    }
    return Double.doubleToLongBits(sum);
  }

  private static long ourStrings(FieldVector vector) {
    ColumnVector column = ArrowColumns.of(vector, DataTypes.StringType);
    long sum = 0;
    for (int row = 0; row < ROWS; row++) {
      if (!column.isNullAt(row)) {
        sum += column.getUTF8String(row).numBytes();
      }
    }
    return sum;
  }

  private static long arrowStrings(FieldVector vector) {
    ColumnVector column = new ArrowColumnVector(vector);
    long sum = 0;
    for (int row = 0; row < ROWS; row++) {
      if (!column.isNullAt(row)) {
        sum += column.getUTF8String(row).numBytes();
      }
    }
    return sum;
  }

  private static long ourDecimals(FieldVector vector) {
    ColumnVector column = ArrowColumns.of(vector, DECIMAL);
    long sum = 0;
    for (int row = 0; row < ROWS; row++) {
      if (!column.isNullAt(row)) {
        sum += column.getDecimal(row, 18, 2).toUnscaledLong();
      }
    }
    return sum;
  }

  private static long arrowDecimals(FieldVector vector) {
    ColumnVector column = new ArrowColumnVector(vector);
    long sum = 0;
    for (int row = 0; row < ROWS; row++) {
      if (!column.isNullAt(row)) {
        sum += column.getDecimal(row, 18, 2).toUnscaledLong();
      }
    }
    return sum;
  }

  private static FieldVector longs(BufferAllocator allocator, double nullShare) {
    BigIntVector vector = new BigIntVector("l", allocator);
    Random random = new Random(1);
    for (int row = 0; row < ROWS; row++) {
      if (random.nextDouble() >= nullShare) {
        vector.setSafe(row, random.nextLong());
      }
    }
    vector.setValueCount(ROWS);
    return vector;
  }

  private static FieldVector doubles(BufferAllocator allocator, double nullShare) {
    Float8Vector vector = new Float8Vector("d", allocator);
    Random random = new Random(2);
    for (int row = 0; row < ROWS; row++) {
      if (random.nextDouble() >= nullShare) {
        vector.setSafe(row, random.nextDouble());
      }
    }
    vector.setValueCount(ROWS);
    return vector;
  }

  private static FieldVector strings(BufferAllocator allocator, double nullShare) {
    VarCharVector vector = new VarCharVector("s", allocator);
    Random random = new Random(3);
    for (int row = 0; row < ROWS; row++) {
      if (random.nextDouble() >= nullShare) {
        vector.setSafe(row, ("key-" + random.nextInt(1_000_000)).getBytes(StandardCharsets.UTF_8));
      }
    }
    vector.setValueCount(ROWS);
    return vector;
  }

  private static FieldVector decimals(BufferAllocator allocator, double nullShare) {
    DecimalVector vector = new DecimalVector("m", allocator, 18, 2);
    Random random = new Random(4);
    for (int row = 0; row < ROWS; row++) {
      if (random.nextDouble() >= nullShare) {
        vector.setSafe(row, (long) random.nextInt());
      }
    }
    vector.setValueCount(ROWS);
    return vector;
  }
}
