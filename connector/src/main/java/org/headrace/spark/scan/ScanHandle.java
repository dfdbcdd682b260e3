package org.headrace.spark.scan;

import java.lang.ref.Cleaner;
import java.util.Map;
import org.headrace.spark.planner.Planners;

/**
 * Keeps a scan's plan alive in Python for as long as anything in the driver JVM can still run it.
 *
 * <p>Held by the scan and by its reader factory (an RDD may outlive the scan); when both are garbage Python is told.
 */
final class ScanHandle {
  private static final Cleaner CLEANER = Cleaner.create();

  ScanHandle(String context, String scanId) {
    CLEANER.register(this, release(context, scanId));
  }

  private static Runnable release(String context, String scanId) {
    return () -> {
      if (Planners.isLive(context)) {
        Planners.ask(context, "release", Map.of("scan", scanId));
      }
    };
  }
}
