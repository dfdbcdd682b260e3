package org.headrace.spark.write;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** One of a write's metrics in Spark's SQL tab; counted on executors, summed in the driver JVM. */
public final class WriteMetric extends CustomSumMetric {
  private static final WriteMetric[] ALL = {
    new WriteMetric("headraceRowsWritten", "rows to the provider"),
    new WriteMetric("headraceBatchesWritten", "Arrow batches"),
    new WriteMetric("headraceBytesWritten", "bytes to the provider")
  };

  private final String name;
  private final String description;

  /** For Spark, which makes one by reflection where it wants to add values up and no more. */
  public WriteMetric() {
    this("", "");
  }

  private WriteMetric(String name, String description) {
    this.name = name;
    this.description = description;
  }

  static CustomMetric[] all() {
    return ALL.clone();
  }

  /** The values of one task, in the order of {@link #all}. */
  static CustomTaskMetric[] values(long... values) {
    CustomTaskMetric[] metrics = new CustomTaskMetric[ALL.length];
    for (int i = 0; i < metrics.length; i++) {
      metrics[i] = new Value(ALL[i].name, values[i]);
    }
    return metrics;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String description() {
    return description;
  }

  private record Value(String name, long value) implements CustomTaskMetric {}
}
