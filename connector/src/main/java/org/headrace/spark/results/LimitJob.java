package org.headrace.spark.results;

import java.io.Serializable;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.IntConsumer;
import org.apache.spark.SimpleFutureAction;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.CollectLimitExec;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Range;
import scala.collection.immutable.Range$;
import scala.collection.immutable.Seq;
import scala.concurrent.Await;
import scala.concurrent.duration.Duration;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * Runs a query with a LIMIT on top: the first partitions, then more of them, until there are enough rows; driver JVM.
 *
 * <p>As {@code collect()} does it: running all of them would wait for streams that need not end. But each task sends
 * its rows as they come, at most as many as are still wanted; the receiver drops what is too much.
 */
final class LimitJob {
  /** From here on it is worth to start with as many partitions as can run at once. */
  private static final int LARGE_LIMIT = 64 * 1024;

  /** How long tasks may still run when those of earlier partitions have sent enough. */
  private static final Duration GRACE = Duration.apply(1, TimeUnit.SECONDS);

  /** Sends at most so many rows of a partition, and says how many it sent; runs in a task. */
  @FunctionalInterface
  interface Sending extends Serializable {
    long send(java.util.Iterator<InternalRow> rows, long limit);
  }

  private final SparkContext spark;
  private final CollectLimitExec plan;
  private final Sending sending;
  private final int firstPartitions;
  private final int scaleUpFactor;

  LimitJob(SparkContext spark, SQLConf conf, CollectLimitExec plan, Sending sending) {
    this.spark = spark;
    this.plan = plan;
    this.sending = sending;
    boolean isLarge = plan.limit() > LARGE_LIMIT;
    this.firstPartitions = Math.max(conf.limitInitialNumPartitions(), isLarge ? spark.defaultParallelism() : 1);
    this.scaleUpFactor = Math.max(conf.limitScaleUpFactor(), 2);
  }

  /**
   * Runs to the end.
   *
   * @param announce is told how many partitions the result has so far, before any of them runs; the last call counts
   */
  void run(IntConsumer announce) {
    RDD<InternalRow> rows = plan.child().execute();
    int partitions = rows.getNumPartitions();
    int done = 0;
    long sent = 0;
    while (done < partitions && sent < plan.limit()) {
      int end = (int) Math.min(partitions, done + nextPartitions(done, sent));
      announce.accept(end);
      Wave wave = new Wave(end - done, plan.limit() - sent);
      run(rows, Range$.MODULE$.apply(done, end), wave);
      done += wave.neededPartitions();
      sent += wave.neededRows();
    }
    announce.accept(done);
  }

  /** Spark's own rule: half as many again as the rows so far let expect, and not too many more at once. */
  private long nextPartitions(int done, long sent) {
    if (done == 0) {
      return firstPartitions;
    }
    long most = (long) done * scaleUpFactor;
    return sent == 0 ? most : Math.min(most, (long) Math.ceil(1.5 * (plan.limit() - sent) * done / sent));
  }

  private void run(RDD<InternalRow> rows, Range partitions, Wave wave) {
    @SuppressWarnings({"unchecked", "rawtypes"})
    Seq<Object> indices = (Seq) partitions;
    SimpleFutureAction<BoxedUnit> job =
        spark.submitJob(rows, new Task(sending, wave.wanted), indices, wave, new Nothing());
    try {
      while (!isOver(job)) {
        if (wave.isEnough() && !job.isCancelled()) {
          job.cancel(Option.apply("the LIMIT of the query has all its rows"));
        }
      }
    } catch (InterruptedException e) {
      job.cancel();
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while the query ran", e);
    }
    if (!wave.isEnough()) {
      job.value().get().get(); // throws why the job failed, if it did
    }
  }

  private static boolean isOver(SimpleFutureAction<BoxedUnit> job) throws InterruptedException {
    try {
      Await.ready(job, GRACE);
      return true;
    } catch (TimeoutException e) {
      return false;
    }
  }

  /** What the tasks of one job sent, in the order of their partitions. Spark calls it when a task has ended. */
  private static final class Wave extends AbstractFunction2<Object, Object, BoxedUnit> {
    private final long wanted;
    private final long[] sent;

    Wave(int partitions, long wanted) {
      this.wanted = wanted;
      this.sent = new long[partitions];
      Arrays.fill(sent, -1);
    }

    @Override
    public synchronized BoxedUnit apply(Object index, Object rows) {
      sent[(Integer) index] = (Long) rows;
      return BoxedUnit.UNIT;
    }

    boolean isEnough() {
      return neededRows() >= wanted;
    }

    /** Of the partitions that have ended, without a gap, until there are enough. */
    synchronized long neededRows() {
      return Arrays.stream(sent).limit(neededPartitions()).sum();
    }

    synchronized int neededPartitions() {
      int needed = 0;
      for (long rows = 0; needed < sent.length && sent[needed] >= 0 && rows < wanted; needed++) {
        rows += sent[needed];
      }
      return needed;
    }
  }

  private static final class Task extends AbstractFunction1<Iterator<InternalRow>, Object> implements Serializable {
    private static final long serialVersionUID = 1L;
    private final Sending sending;
    private final long limit;

    Task(Sending sending, long limit) {
      this.sending = sending;
      this.limit = limit;
    }

    @Override
    public Object apply(Iterator<InternalRow> rows) {
      return sending.send(CollectionConverters.asJava(rows), limit);
    }
  }

  private static final class Nothing extends AbstractFunction0<BoxedUnit> {
    @Override
    public BoxedUnit apply() {
      return BoxedUnit.UNIT;
    }
  }
}
