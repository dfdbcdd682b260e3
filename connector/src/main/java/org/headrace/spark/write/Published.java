package org.headrace.spark.write;

import java.util.Map;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.headrace.spark.HeadraceMetric;

/** What Python tells of a table's last write, when it begins and is committed, for Spark's figures; driver JVM, any thread. */
public final class Published {
  private static final int UNKNOWN = -1;
  private volatile String plan;
  private volatile int files = UNKNOWN;

  void begin(String description) {
    plan = description;
    files = UNKNOWN;
  }

  void commit(int count) {
    files = count;
  }

  CustomTaskMetric[] metrics() {
    return files == UNKNOWN ? new CustomTaskMetric[0] : HeadraceMetric.published(files);
  }

  /** As the progress of a streaming query shows it. */
  public Map<String, String> texts() {
    if (plan == null) {
      return Map.of();
    }
    return files == UNKNOWN ? Map.of("plan", plan) : Map.of("plan", plan, "filesWritten", String.valueOf(files));
  }
}
