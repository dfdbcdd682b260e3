package org.headrace.spark.read;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** One of a scan's metrics in Spark's SQL tab; counted on executors, summed in the driver JVM. */
public final class ScanMetric extends CustomSumMetric {
  private static final ScanMetric[] ALL = {
    new ScanMetric("headraceRows", "rows from the provider"),
    new ScanMetric("headraceRowsSent", "rows sent to Spark"), // after Headrace's own work on them
    new ScanMetric("headraceBatches", "Arrow batches"), // as received: small ones were merged
    new ScanMetric("headraceBytes", "bytes from the provider"), // frames included
    new ScanMetric("headraceWaiting", "time waiting for the source (ms)")
  };

  private final String name;
  private final String description;

  /** For Spark, which makes one by reflection where it wants to add values up and no more. */
  public ScanMetric() {
    this("", "");
  }

  private ScanMetric(String name, String description) {
    this.name = name;
    this.description = description;
  }

  public static CustomMetric[] all() {
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
