package org.headrace.spark.transport;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.Random;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.headrace.spark.HeadraceException;

/**
 * Damaged streams for the connector's own reader; run by tests with the path of golden.json, a seed and a count.
 *
 * <p>Each must be read whole or be refused by name, and give back all memory.
 */
public final class FrameFuzz {
  static final StructType FLAT = new StructType().add("i", DataTypes.LongType).add("s", DataTypes.StringType);
  static final StructType AS_THEY_ARE =
      new StructType().add("d", DataTypes.StringType).add("v", DataTypes.StringType);
  static final StructType NESTED =
      new StructType()
          .add("l", DataTypes.createArrayType(DataTypes.StringType))
          .add("m", DataTypes.createMapType(DataTypes.StringType, DataTypes.LongType))
          .add("t", new StructType().add("s", DataTypes.StringType).add("n", DataTypes.LongType));
  private static long sink;

  private FrameFuzz() {}

  public static void main(String[] args) throws Exception {
    JsonNode golden = new ObjectMapper().readTree(Files.readString(Path.of(args[0])));
    byte[][] whole = {
      stream(golden, "stream"), stream(golden, "nested stream"), stream(golden, "stream of columns as they are")
    };
    StructType[] schemas = {FLAT, NESTED, AS_THEY_ARE};
    long nonce = ByteBuffer.wrap(whole[0]).order(ByteOrder.LITTLE_ENDIAN).getLong(16);
    long seed = Long.parseLong(args[1]);
    int count = Integer.parseInt(args[2]);
    int refused = 0;
    for (int i = 0; i < count; i++) {
      int which = i % whole.length;
      byte[] damaged = damaged(whole[which], new Random(seed + i));
      try {
        refused += isRefused(damaged, nonce, schemas[which]) ? 1 : 0;
      } catch (Throwable e) {
        throw new AssertionError("seed " + (seed + i) + ": " + HexFormat.of().formatHex(damaged), e);
      }
      if (ArrowUtils.rootAllocator().getAllocatedMemory() != 0) {
        throw new AssertionError("seed " + (seed + i) + " leaks: " + HexFormat.of().formatHex(damaged));
      }
    }
    System.out.println(count + " streams: " + refused + " refused by name, " + (count - refused) + " read " + sink);
  }

  static byte[] stream(JsonNode golden, String name) {
    for (JsonNode message : golden.get("messages")) {
      if (message.get("name").asText().equals(name)) {
        return HexFormat.of().parseHex(message.get("hex").asText());
      }
    }
    throw new AssertionError("the golden file has no " + name);
  }

  /** Whether a stream is refused by name; if not, every value of it was read. */
  static boolean isRefused(byte[] stream, long nonce, StructType schema) throws IOException {
    try (PartitionReader<ColumnarBatch> reader = MemoryChannel.reader(stream, nonce, schema)) {
      while (reader.next()) {
        for (Iterator<InternalRow> rows = reader.get().rowIterator(); rows.hasNext(); ) {
          touch(rows.next(), schema);
        }
      }
      return false;
    } catch (HeadraceException e) {
      if (e.getMessage() == null || e.getMessage().isBlank()) {
        throw new AssertionError("an error without a message", e);
      }
      return true;
    }
  }

  /** Reads every byte, as a query would. */
  private static void touch(SpecializedGetters values, StructType schema) {
    for (int i = 0; i < schema.length(); i++) {
      touch(values, i, schema.fields()[i].dataType());
    }
  }

  private static void touch(SpecializedGetters values, int at, DataType type) {
    if (values.isNullAt(at)) {
      return;
    }
    if (type instanceof StructType struct) {
      touch(values.getStruct(at, struct.length()), struct);
    } else if (type instanceof ArrayType array) {
      touchAll(values.getArray(at), array.elementType());
    } else if (type instanceof MapType map) {
      touchAll(values.getMap(at).keyArray(), map.keyType());
      touchAll(values.getMap(at).valueArray(), map.valueType());
    } else {
      sink += type == DataTypes.LongType ? values.getLong(at) : values.getUTF8String(at).hashCode();
    }
  }

  private static void touchAll(ArrayData values, DataType type) {
    for (int i = 0; i < values.numElements(); i++) {
      touch(values, i, type);
    }
  }

  private static byte[] damaged(byte[] whole, Random random) {
    byte[] bytes = whole;
    for (int change = random.nextInt(4); change >= 0; change--) {
      int at = random.nextInt(bytes.length);
      switch (random.nextInt(6)) {
        case 0 -> bytes = with(bytes, at, (byte) random.nextInt(256));
        case 1 -> bytes = with(bytes, at, (byte) (bytes[at] ^ 1 << random.nextInt(8)));
        case 2 -> bytes = spliced(bytes, at, random.nextInt(40), new byte[0]);
        case 3 -> bytes = spliced(bytes, at, 0, randomBytes(random, 1 + random.nextInt(40)));
        case 4 -> bytes = spliced(bytes, at, 4, number(random));
        default -> bytes = spliced(bytes, at / 4 * 4, 4, number(random));
      }
      if (bytes.length == 0) {
        break;
      }
    }
    return bytes;
  }

  private static byte[] number(Random random) {
    int[] interesting = {0, 1, -1, Integer.MAX_VALUE, Integer.MIN_VALUE, 255, 4096, 0x7fffff00, random.nextInt()};
    int value = interesting[random.nextInt(interesting.length)];
    return ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(value).array();
  }

  private static byte[] randomBytes(Random random, int count) {
    byte[] bytes = new byte[count];
    random.nextBytes(bytes);
    return bytes;
  }

  private static byte[] with(byte[] bytes, int at, byte value) {
    byte[] changed = bytes.clone();
    changed[at] = value;
    return changed;
  }

  /** {@code bytes} with {@code middle} in place of what is {@code dropped} at {@code at}. */
  private static byte[] spliced(byte[] bytes, int at, int dropped, byte[] middle) {
    int rest = Math.min(bytes.length, at + dropped);
    ByteBuffer joined = ByteBuffer.allocate(at + middle.length + bytes.length - rest);
    return joined.put(bytes, 0, at).put(middle).put(bytes, rest, bytes.length - rest).array();
  }
}
