package org.headrace.spark;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** One of the metrics of scans or writes in Spark's SQL tab; counted on executors, or in the driver JVM, which sums them. */
public final class HeadraceMetric extends CustomSumMetric {
  private static final HeadraceMetric[] OF_SCANS = {
    new HeadraceMetric("headraceRows", "rows from the provider"),
    new HeadraceMetric("headraceRowsSent", "rows sent to Spark"), // after Headrace's own work on them
    new HeadraceMetric("headraceBatches", "Arrow batches"), // as received: small ones were merged
    new HeadraceMetric("headraceBytes", "bytes from the provider"), // frames included
    new HeadraceMetric("headraceWaiting", "time waiting for the source (ms)")
  };
  private static final HeadraceMetric FILES = new HeadraceMetric("headraceFilesWritten", "files written");
  private static final HeadraceMetric[] OF_WRITES = {
    new HeadraceMetric("headraceRowsWritten", "rows to the provider"),
    new HeadraceMetric("headraceBatchesWritten", "Arrow batches"),
    new HeadraceMetric("headraceBytesWritten", "bytes to the provider"),
    FILES
  };

  /** Spark's thread that adds values up, for its SQL tab and its history. */
  private static final String ADDING = "spark-listener-group-appStatus";

  private static final boolean IS_KNOWN = isKnown();

  private final String name;
  private final String description;

  /** For Spark, which makes one by reflection where it wants to add values up and no more. */
  public HeadraceMetric() {
    this("", "");
  }

  private HeadraceMetric(String name, String description) {
    this.name = name;
    this.description = description;
  }

  public static CustomMetric[] ofScans() {
    return IS_KNOWN ? OF_SCANS.clone() : new CustomMetric[0];
  }

  public static CustomMetric[] ofWrites() {
    return IS_KNOWN ? OF_WRITES.clone() : new CustomMetric[0];
  }

  /**
   * Whether Spark can make one by its name. It cannot in a Spark Connect server that has this jar from a session alone: it
   * would show no values, and warn of each with a stack trace, for every query.
   */
  private static boolean isKnown() {
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      ClassLoader loader = thread.getContextClassLoader();
      if (thread.getName().equals(ADDING) && loader != null) {
        try {
          loader.loadClass(HeadraceMetric.class.getName());
        } catch (ClassNotFoundException e) {
          return false;
        }
      }
    }
    return true;
  }

  /** The values of one task of a scan, in the order of {@link #ofScans}. */
  public static CustomTaskMetric[] scanned(long rows, long rowsSent, long batches, long bytes, long waitingMillis) {
    return values(OF_SCANS, rows, rowsSent, batches, bytes, waitingMillis);
  }

  /** The values of one task of a write. */
  public static CustomTaskMetric[] written(long rows, long batches, long bytes) {
    return values(OF_WRITES, rows, batches, bytes);
  }

  /** What the driver knows of a write that was committed. */
  public static CustomTaskMetric[] published(long files) {
    return new CustomTaskMetric[] {new Value(FILES.name, files)};
  }

  private static CustomTaskMetric[] values(HeadraceMetric[] metrics, long... values) {
    CustomTaskMetric[] named = new CustomTaskMetric[values.length];
    for (int i = 0; i < values.length; i++) {
      named[i] = new Value(metrics[i].name, values[i]);
    }
    return named;
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
