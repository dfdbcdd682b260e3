package org.headrace.spark.planner;

/** What the driver JVM asks of the Python process that plans a context's tables. Any thread may ask. */
public interface Planner {
  /**
   * Runs one operation with a JSON payload and returns a JSON answer.
   *
   * <p>An error in Python comes back as data, {@code {"failure": ...}}. Throws a HeadraceException where no answer comes:
   * the thread was interrupted, the context has left meanwhile, or Python is gone.
   */
  String call(String operation, String payload);

  /** As {@link #call}, but for the answer to a question that was asked it waits even when the context leaves. */
  default String tell(String operation, String payload) {
    return call(operation, payload);
  }
}
