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
import org.headrace.spark.vectors.ArrowColumns;

/** Few rows that come with Python's answer, as Spark's internal ones; driver JVM. */
final class ArrowRows {
  private ArrowRows() {}

  /** Those of the one batch in {@code stream}, an Arrow stream in a JSON string. They hold no Arrow memory. */
  static InternalRow[] of(JsonNode stream) {
    try (BufferAllocator allocator = ArrowUtils.rootAllocator().newChildAllocator("headrace rows", 0, Long.MAX_VALUE);
        ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(stream.binaryValue()), allocator)) {
      reader.loadNextBatch();
      VectorSchemaRoot root = reader.getVectorSchemaRoot();
      ColumnVector[] columns = new ColumnVector[root.getFieldVectors().size()];
      for (int i = 0; i < columns.length; i++) {
        FieldVector vector = root.getVector(i);
        columns[i] = ArrowColumns.of(vector, ArrowUtils.fromArrowField(vector.getField()));
      }
      ColumnarBatch batch = new ColumnarBatch(columns, root.getRowCount());
      InternalRow[] rows = new InternalRow[root.getRowCount()];
      for (int i = 0; i < rows.length; i++) {
        rows[i] = batch.getRow(i).copy();
      }
      return rows;
    } catch (IOException e) {
      throw new UncheckedIOException(e); // from a stream in memory
    }
  }
}
