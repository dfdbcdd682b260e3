package org.headrace.spark.read;

import java.util.Arrays;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** The scan's metrics in Spark's SQL tab; counted on executors, summed in the driver JVM. */
public final class ScanMetrics {
  private ScanMetrics() {}

  public static CustomMetric[] all() {
    return new CustomMetric[] {new Rows(), new Batches(), new Bytes(), new Waiting()};
  }

  static CustomTaskMetric[] values(long rows, long batches, long bytes, long waitingNanos) {
    return new CustomTaskMetric[] {
      value("headraceRows", rows),
      value("headraceBatches", batches),
      value("headraceBytes", bytes),
      value("headraceWaiting", waitingNanos / 1_000_000)
    };
  }

  private static CustomTaskMetric value(String name, long value) {
    return new CustomTaskMetric() {
      @Override
      public String name() {
        return name;
      }

      @Override
      public long value() {
        return value;
      }
    };
  }

  /** Rows received from Python. Public with a public constructor: Spark makes one by reflection. */
  public static final class Rows extends CustomSumMetric {
    @Override
    public String name() {
      return "headraceRows";
    }

    @Override
    public String description() {
      return "rows from the provider";
    }
  }

  /** Arrow batches received, after small ones were merged. */
  public static final class Batches extends CustomSumMetric {
    @Override
    public String name() {
      return "headraceBatches";
    }

    @Override
    public String description() {
      return "Arrow batches";
    }
  }

  /** Bytes received, frames included. */
  public static final class Bytes extends CustomSumMetric {
    @Override
    public String name() {
      return "headraceBytes";
    }

    @Override
    public String description() {
      return "bytes from the provider";
    }
  }

  /** How long tasks waited for the source. */
  public static final class Waiting implements CustomMetric {
    @Override
    public String name() {
      return "headraceWaiting";
    }

    @Override
    public String description() {
      return "time waiting for the source (ms)";
    }

    @Override
    public String aggregateTaskMetrics(long[] taskMetrics) {
      return Long.toString(Arrays.stream(taskMetrics).sum());
    }
  }
}
