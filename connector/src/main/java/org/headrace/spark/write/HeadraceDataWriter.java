package org.headrace.spark.write;

import java.util.Iterator;
import java.util.function.Supplier;
import org.apache.arrow.memory.OutOfMemoryException;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.arrow.vector.util.OversizedAllocationException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.HeadraceMetric;
import org.headrace.spark.Place;
import org.headrace.spark.Versions;
import org.headrace.spark.send.BatchSender;
import org.headrace.spark.send.RowBatch;
import org.headrace.spark.transport.PartitionOrigin;

/**
 * Sends the rows of one task to the write plan's code in Python, and gets its message for the commit; executor JVM, one
 * task's thread.
 *
 * <p>The end of the rows is told in {@link #commit} alone: the code of a task that Spark gives up before never sees one.
 */
final class HeadraceDataWriter implements DataWriter<InternalRow> {
  private static final String TIME_ZONE = "UTC";

  private final Place place;
  private final BatchSender sender;
  private final RowBatch batch;

  HeadraceDataWriter(PartitionOrigin origin, int partition, StructType type) {
    Schema schema = arrowSchema(type);
    place = origin.place(partition);
    batch = new RowBatch(schema);
    BatchSender opened = null;
    try {
      opened = sending(() -> BatchSender.open(origin, partition, schema));
    } finally {
      if (opened == null) {
        batch.close();
      }
    }
    sender = opened;
  }

  /** Of the batches that rows of {@code type} are sent in. */
  static Schema arrowSchema(StructType type) {
    return Versions.arrowSchema(type, TIME_ZONE);
  }

  @Override
  public void write(InternalRow row) {
    sending(
        () -> {
          add(row);
          return null;
        });
  }

  /**
   * What Spark calls for all rows of the task. The other side is told why they end where the query fails. The last ones are
   * sent here too: Spark reads the metrics before it commits.
   */
  @Override
  public void writeAll(Iterator<InternalRow> rows) {
    try {
      sending(
          () -> {
            while (rows.hasNext()) {
              InternalRow row = rows.next();
              if (row instanceof HandedBatch handed) {
                add(handed);
                Versions.countRows(rows, handed.batch().numRows() - 1L);
              } else {
                add(row);
              }
            }
            sendRest();
            return null;
          });
    } catch (RuntimeException | Error e) {
      sender.fail(e);
      throw e;
    }
  }

  @Override
  public WriterCommitMessage commit() {
    return sending(
        () -> {
          sendRest();
          return new PythonWriterCommitMessage(sender.end());
        });
  }

  @Override
  public void abort() {
    sender.close();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return HeadraceMetric.written(sender.rows(), sender.batches(), sender.bytes());
  }

  @Override
  public void close() {
    sender.close();
    batch.close();
  }

  private void add(InternalRow row) {
    batch.add(row);
    sendFull();
  }

  private void add(HandedBatch handed) {
    ColumnarBatch columns = handed.batch();
    for (int from = 0; from < columns.numRows(); ) {
      from += batch.add(columns, from);
      sendFull();
    }
    handed.release();
  }

  private void sendFull() {
    if (batch.isFull()) {
      batch.send(sender);
    }
  }

  private void sendRest() {
    if (!batch.isEmpty()) {
      batch.send(sender);
    }
  }

  /** Errors as Spark shows them; those of memory would, as they are, end the whole JVM. */
  private <T> T sending(Supplier<T> step) {
    try {
      return step.get();
    } catch (HeadraceException e) {
      throw e.inTask();
    } catch (OutOfMemoryError | OutOfMemoryException | OversizedAllocationException e) {
      throw RowBatch.tooLarge(place, e);
    }
  }
}
