package org.headrace.spark.planner;

/** What the driver JVM asks of the driver's Python process while planning; implemented in Python over Py4J. */
public interface Planner {
  /**
   * Runs one operation with a small JSON payload and returns a JSON answer.
   *
   * <p>May be called from any thread. An error in Python comes back as data, {@code {"failure": ...}}, never as a
   * Py4J exception.
   */
  String call(String operation, String payload);
}
