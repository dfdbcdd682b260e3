package org.headrace.spark.results;

import java.util.Iterator;
import org.apache.arrow.memory.OutOfMemoryException;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.arrow.vector.util.OversizedAllocationException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.send.BatchSender;
import org.headrace.spark.send.RowBatch;
import org.headrace.spark.transport.PartitionOrigin;
import org.headrace.spark.transport.PendingOutput;

/**
 * Sends one partition of a query's result; executor JVM, one task's thread.
 *
 * <p>Rows go out in large batches, but never wait for more: before a reader in the same task waits for its source, it
 * lets what there is be sent.
 */
final class ResultSender {
  private ResultSender() {}

  /**
   * Blocks while the caller in Python is slower than this partition.
   *
   * @param limit after so many rows it asks for no more: the next one may never come
   * @return how many rows it sent
   */
  static long send(PartitionOrigin origin, int partition, Schema schema, Iterator<InternalRow> rows, long limit) {
    try (BatchSender sender = BatchSender.open(origin, partition, schema);
        RowBatch batch = new RowBatch(schema)) {
      try {
        PendingOutput.set(() -> sendRest(batch, sender));
        for (long taken = 0; taken < limit && rows.hasNext(); taken++) {
          batch.add(rows.next());
          if (batch.isFull()) {
            batch.send(sender);
          }
        }
        sendRest(batch, sender);
      } catch (OutOfMemoryError | OutOfMemoryException | OversizedAllocationException e) {
        HeadraceException tooLarge = RowBatch.tooLarge(origin.place(partition), e); // as an Error it would end the whole JVM
        sender.fail(tooLarge);
        throw tooLarge;
      } catch (RuntimeException | Error e) {
        sender.fail(e);
        throw e;
      } finally {
        PendingOutput.clear();
      }
      sender.end();
      return sender.rows();
    }
  }

  private static void sendRest(RowBatch batch, BatchSender sender) {
    if (!batch.isEmpty()) {
      batch.send(sender);
    }
  }
}
