package org.headrace.spark.transport;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/** Daemon threads that see stopped streams to their end, so that no task has to wait for one; executor JVM. */
final class Reaper {
  private static final ThreadFactory DAEMONS =
      runnable -> {
        Thread thread = new Thread(runnable, "headrace-reaper");
        thread.setDaemon(true);
        return thread;
      };
  private static final ExecutorService NOW = Executors.newCachedThreadPool(DAEMONS);
  private static final ScheduledExecutorService LATER = scheduler();

  private Reaper() {}

  private static ScheduledExecutorService scheduler() {
    ScheduledThreadPoolExecutor scheduler = new ScheduledThreadPoolExecutor(1, DAEMONS);
    scheduler.setRemoveOnCancelPolicy(true);
    return scheduler;
  }

  static void now(Runnable work) {
    NOW.execute(work);
  }

  static ScheduledFuture<?> later(Runnable work, long delay, TimeUnit unit) {
    return LATER.schedule(work, delay, unit);
  }
}
