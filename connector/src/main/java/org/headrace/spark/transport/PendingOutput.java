package org.headrace.spark.transport;

/**
 * Output that a task's thread holds back to send it in large pieces; executor JVM.
 *
 * <p>A reader in the same task has it sent before the thread waits for input, and need not know what it is.
 */
public final class PendingOutput {
  private static final ThreadLocal<Runnable> SENDING = ThreadLocal.withInitial(() -> () -> {});

  private PendingOutput() {}

  /** {@code sending} is how this thread sends what it holds back, until {@link #clear}. */
  public static void set(Runnable sending) {
    SENDING.set(sending);
  }

  public static void clear() {
    SENDING.remove();
  }

  /** Sends what this thread holds back, if it does. */
  public static void send() {
    SENDING.get().run();
  }
}
