package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.headrace.spark.planner.Words;
import org.headrace.spark.vectors.ArrowColumns;

/** Partition keys as Spark's internal rows, from one Arrow batch of Python's; driver JVM. */
final class PartitionKeys {
  private PartitionKeys() {}

  /** A key for each partition: the values of its columns for a key partitioning, numbers for a hash partitioning. */
  static InternalRow[] of(JsonNode partitioning) {
    try (BufferAllocator allocator = ArrowUtils.rootAllocator().newChildAllocator("headrace keys", 0, Long.MAX_VALUE);
        ArrowStreamReader reader =
            new ArrowStreamReader(new ByteArrayInputStream(partitioning.get(Words.KEYS).binaryValue()), allocator)) {
      reader.loadNextBatch();
      VectorSchemaRoot root = reader.getVectorSchemaRoot();
      ColumnVector[] columns = new ColumnVector[root.getFieldVectors().size()];
      for (int i = 0; i < columns.length; i++) {
        FieldVector vector = root.getVector(i);
        columns[i] = ArrowColumns.of(vector, ArrowUtils.fromArrowField(vector.getField()));
      }
      ColumnarBatch batch = new ColumnarBatch(columns, root.getRowCount());
      InternalRow[] keys = new InternalRow[root.getRowCount()];
      for (int i = 0; i < keys.length; i++) {
        keys[i] = batch.getRow(i).copy();
      }
      return keys;
    } catch (IOException e) {
      throw new UncheckedIOException(e); // from a stream in memory
    }
  }

  /** A column name as Spark's expression parser takes it. */
  static String quoted(String column) {
    return "`" + column.replace("`", "``") + "`";
  }
}
