package org.headrace.spark;

/**
 * An error that has a Python side; driver and executor JVM.
 *
 * <p>An IllegalArgumentException because PySpark turns that into a clean exception of its own. It has no JVM stack
 * trace: the message holds the Python one, which is the one that helps.
 */
public final class HeadraceException extends IllegalArgumentException {
  private static final long serialVersionUID = 1L;
  private final String failure;

  public HeadraceException(String message, String failure) {
    super(message);
    this.failure = failure;
  }

  /** The failure as Python described it, in JSON, or null when it arose in the JVM; read from Python. */
  public String failure() {
    return failure;
  }

  @Override
  public synchronized Throwable fillInStackTrace() {
    return this;
  }
}
