package org.headrace.spark.read;

import java.io.IOException;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.headrace.spark.HeadraceException;

/**
 * Reads on behalf of a Spark Connect session, whose jars the driver does not look into when it reads what a task failed
 * with: it would report an unknown reason. So errors of ours leave as one of Spark's own, with the same text; executor JVM.
 */
final class PlainErrorsReader implements PartitionReader<ColumnarBatch> {
  private final PartitionReader<ColumnarBatch> reader;

  PlainErrorsReader(Supplier<PartitionReader<ColumnarBatch>> open) {
    try {
      reader = open.get();
    } catch (RuntimeException e) {
      throw HeadraceException.<RuntimeException>plain(e);
    }
  }

  @Override
  public boolean next() throws IOException {
    try {
      return reader.next();
    } catch (RuntimeException e) {
      throw HeadraceException.<RuntimeException>plain(e);
    }
  }

  @Override
  public ColumnarBatch get() {
    return reader.get();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return reader.currentMetricsValues();
  }

  @Override
  public void close() throws IOException {
    reader.close();
  }
}
