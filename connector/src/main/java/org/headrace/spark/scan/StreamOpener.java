package org.headrace.spark.scan;

import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;

/** How the scan of a table that grows becomes a stream; driver JVM. */
@FunctionalInterface
public interface StreamOpener {
  /** {@code checkpoint}: the directory where the query keeps what this one of its sources has to remember. */
  MicroBatchStream open(HeadraceScan scan, String checkpoint);
}
