package org.headrace.spark.write;

import java.io.IOException;
import java.util.Iterator;
import java.util.concurrent.Callable;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.headrace.spark.HeadraceException;

/** Writes on behalf of a Spark Connect session: errors of ours leave as one of Spark's own, as for its reads; executor JVM. */
final class PlainErrorsWriter implements DataWriter<InternalRow> {
  private final DataWriter<InternalRow> writer;

  PlainErrorsWriter(Supplier<DataWriter<InternalRow>> open) {
    writer = plainly(open::get);
  }

  @Override
  public void write(InternalRow row) {
    plainly(
        () -> {
          writer.write(row);
          return null;
        });
  }

  @Override
  public void writeAll(Iterator<InternalRow> rows) {
    plainly(
        () -> {
          writer.writeAll(rows);
          return null;
        });
  }

  @Override
  public WriterCommitMessage commit() {
    return plainly(writer::commit);
  }

  @Override
  public void abort() throws IOException {
    writer.abort();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return writer.currentMetricsValues();
  }

  @Override
  public void close() throws IOException {
    writer.close();
  }

  private static <T> T plainly(Callable<T> step) {
    try {
      return step.call();
    } catch (Exception e) {
      throw HeadraceException.<RuntimeException>plain(e);
    }
  }
}
