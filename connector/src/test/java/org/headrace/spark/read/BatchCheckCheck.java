/* Says what BatchCheck finds in batches that Python wrote; runs in a plain JVM without Spark. */
package org.headrace.spark.read;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.VectorLoader;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;

/** Each argument's folder holds pairs of NAME.schema and NAME.batch, IPC messages; a line is printed for each pair. */
final class BatchCheckCheck {
  private BatchCheckCheck() {}

  public static void main(String[] args) throws Exception {
    try (BufferAllocator allocator = new RootAllocator();
        Stream<Path> files = Files.list(Path.of(args[0]))) {
      for (Path file : files.filter(path -> path.toString().endsWith(".batch")).sorted().toList()) {
        String name = file.getFileName().toString().replace(".batch", "");
        ByteBuffer header = message(Files.readAllBytes(file.resolveSibling(name + ".schema")));
        Schema schema = MessageSerializer.deserializeSchema(Message.getRootAsMessage(header));
        System.out.println(name + "\t" + outcome(allocator, schema, Files.readAllBytes(file)));
      }
      System.out.println("memory left\t" + allocator.getAllocatedMemory());
    }
  }

  private static ByteBuffer message(byte[] bytes) {
    return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).position(8).slice();
  }

  private static String outcome(BufferAllocator allocator, Schema schema, byte[] bytes) throws Exception {
    int metadata = 8 + ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).getInt(4);
    ArrowBuf body = allocator.buffer(bytes.length - metadata);
    body.writeBytes(bytes, metadata, bytes.length - metadata);
    Message header = Message.getRootAsMessage(message(bytes));
    try (ArrowRecordBatch batch = MessageSerializer.deserializeRecordBatch(header, body);
        VectorSchemaRoot root = VectorSchemaRoot.create(schema, allocator)) {
      BatchCheck.check(batch, body, schema);
      new VectorLoader(root).load(batch);
      return "whole, " + root.getRowCount() + " rows";
    } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
      if (body.refCnt() > 0) { // it did not become a batch
        body.close();
      }
      return e.getClass().getSimpleName() + "\t" + e.getMessage();
    }
  }
}
