package org.headrace.spark.transport;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.api.python.PythonWorker;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;

/**
 * A partition produced or received by one of Spark's Python workers; executor JVM.
 *
 * <p>After the request the JVM writes nothing more, or STOP where it does not read the stream to its end. A stopped
 * worker closes the user's generator, ends its stream and goes back to the pool like any other; one that does not
 * manage that in time is killed. So is one that sent anything but the answer to its request: code of
 * the user's can write to the connection, and what one task left behind must not be read by another.
 *
 * <p>A worker that receives goes back to the pool only after its message. To stop it before that, this side closes the
 * connection, if need be in the midst of a frame. The worker then ends; one that does not manage that in time is killed.
 */
final class WorkerConnection implements PartitionConnection {
  private static final int MAX_WORKERS = 100;

  /** How long a worker may take to stop; changed by tests alone. */
  static volatile long graceMillis = 5_000;

  /** Threads that see stopped streams to their end, so that no task has to wait for one. */
  private static final Executor REAPERS =
      Executors.newCachedThreadPool(
          runnable -> {
            Thread thread = new Thread(runnable, "headrace-reaper");
            thread.setDaemon(true);
            return thread;
          });

  private final Place place;
  private final WorkerPool pool;
  private final WorkerPool.Worker worker;
  private final PeerChannel peer;
  private final FrameInput frames;
  private final boolean sends;
  private final AtomicBoolean left = new AtomicBoolean(); // to Spark's pool, or to its end

  WorkerConnection(Place place, WorkerPool pool, WorkerPool.Worker worker, long nonce, boolean sends) {
    this.place = place;
    this.pool = pool;
    this.worker = worker;
    this.sends = sends;
    PythonWorker connection = worker.connection();
    this.peer =
        new PeerChannel(connection.channel(), connection.selector(), connection.selectionKey(), worker::isAlive);
    this.frames = new FrameInput(place, peer, nonce);
  }

  static WorkerConnection open(Place place, WorkerPool pool, byte[] facts, byte[] task, boolean sends)
      throws IOException {
    long nonce = ThreadLocalRandom.current().nextLong();
    WorkerConnection connection = quietWorker(place, pool, nonce, sends);
    boolean asked = false;
    try {
      int direction = sends ? Protocol.RECEIVES : Protocol.SENDS; // the worker's
      ByteBuffer request = Protocol.request(nonce, place.partition(), direction, facts, task);
      connection.peer.writeWithin(request, PeerChannel.stallMillis);
      asked = true;
    } catch (EOFException e) {
      throw connection.lost();
    } finally {
      if (!asked) {
        connection.destroy();
      }
    }
    return connection;
  }

  /** A worker from the pool, or a new one. Those that said something while they were idle, or died, are done with. */
  private static WorkerConnection quietWorker(Place place, WorkerPool pool, long nonce, boolean sends)
      throws IOException {
    for (int attempt = 0; attempt < MAX_WORKERS; attempt++) {
      WorkerConnection connection = new WorkerConnection(place, pool, pool.take(), nonce, sends);
      if (connection.isQuiet()) {
        return connection;
      }
      connection.destroy();
    }
    throw new IOException(MAX_WORKERS + " Python workers in a row died or wrote something before they were asked");
  }

  @Override
  public boolean isQuiet() {
    try {
      return peer.isQuiet();
    } catch (IOException e) {
      return false; // its connection is broken
    }
  }

  @Override
  public FrameInput frames() {
    return frames;
  }

  @Override
  public void finish() {
    if (left.get()) {
      return; // it may serve another task by now
    }
    boolean reusable = false;
    try {
      reusable = frames.isReusable();
    } catch (IOException e) {
      // It died after its last frame. All rows have come, so that is no reason to fail.
    }
    if (reusable) {
      release();
    } else {
      destroy();
    }
  }

  @Override
  public void abandon(String reason) {
    if (left.get()) {
      return;
    }
    if (frames.isDistrusted()) {
      destroy();
      return;
    }
    if (sends) {
      PeerChannel.resetWhenClosed(worker.connection().channel());
      worker.connection().stop();
      CompletableFuture.delayedExecutor(graceMillis, TimeUnit.MILLISECONDS, REAPERS).execute(this::destroy);
      return;
    }
    peer.cancel();
    CompletableFuture.delayedExecutor(graceMillis, TimeUnit.MILLISECONDS, REAPERS).execute(this::destroy);
    REAPERS.execute(
        () -> {
          try {
            peer.resume();
            peer.write(ByteBuffer.wrap(new byte[] {Protocol.STOP}));
            frames.drain();
            finish();
          } catch (IOException | RuntimeException e) {
            // The worker is gone or talks nonsense. Close our side so that it notices; it is destroyed after its grace.
            worker.connection().stop();
          }
        });
  }

  @Override
  public HeadraceException lost() {
    destroy();
    return HeadraceException.transport(
        place,
        String.format(
            "the Python worker died while it %s %s. It was killed or it crashed; the usual causes are running out of"
                + " memory (%sgive the executor more memory overhead) and native code that segfaults. Its standard error"
                + " is in the executor's log.",
            sends ? "received" : "produced", place, sends ? "" : "yield smaller batches, or "));
  }

  private void release() {
    if (left.compareAndSet(false, true)) {
      pool.release(worker);
    }
  }

  private void destroy() {
    if (left.compareAndSet(false, true)) {
      pool.destroy(worker);
    }
  }
}
