package org.headrace.spark.stream;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxBytes;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.scan.HeadraceScan;
import org.headrace.spark.scan.StreamOpener;

/** The options with which a stream is read: how much a micro-batch may have; driver JVM. */
public final class StreamOptions implements StreamOpener {
  private static final String MAX_ROWS = "maxRowsPerTrigger";
  private static final String MAX_BYTES = "maxBytesPerTrigger";

  private final CaseInsensitiveStringMap options;

  private StreamOptions(CaseInsensitiveStringMap options) {
    this.options = options;
  }

  /** Options of a read, which are looked at if it is one of a stream. */
  public static StreamOptions of(CaseInsensitiveStringMap options) {
    return new StreamOptions(options);
  }

  @Override
  public MicroBatchStream open(HeadraceScan scan, String checkpoint) {
    return HeadraceStream.open(scan, limit(), checkpoint);
  }

  private ReadLimit limit() {
    List<ReadLimit> limits = new ArrayList<>();
    if (options.containsKey(MAX_ROWS)) {
      limits.add(ReadLimit.maxRows(number(MAX_ROWS)));
    }
    if (options.containsKey(MAX_BYTES)) {
      limits.add(ReadLimit.maxBytes(number(MAX_BYTES)));
    }
    return switch (limits.size()) {
      case 0 -> ReadLimit.allAvailable();
      case 1 -> limits.get(0);
      default -> ReadLimit.compositeLimit(limits.toArray(new ReadLimit[0]));
    };
  }

  private long number(String option) {
    String value = options.get(option);
    try {
      long number = Long.parseLong(value.strip());
      if (number > 0) {
        return number;
      }
    } catch (NumberFormatException e) {
      // told below, as a number that is too small is
    }
    throw Planners.failed("PlanError", "the option " + option + " is '" + value + "', expected a whole number above 0");
  }

  /** The rows that a limit of Spark's allows; null for any number. */
  static Long maxRows(ReadLimit limit) {
    return limit instanceof ReadMaxRows rows ? (Long) rows.maxRows() : first(limit, true);
  }

  /** The bytes that a limit of Spark's allows; null for any number. */
  static Long maxBytes(ReadLimit limit) {
    return limit instanceof ReadMaxBytes bytes ? (Long) bytes.maxBytes() : first(limit, false);
  }

  private static Long first(ReadLimit limit, boolean rows) {
    if (limit instanceof CompositeReadLimit composite) {
      for (ReadLimit part : composite.getReadLimits()) {
        Long found = rows ? maxRows(part) : maxBytes(part);
        if (found != null) {
          return found;
        }
      }
    }
    return null;
  }
}
