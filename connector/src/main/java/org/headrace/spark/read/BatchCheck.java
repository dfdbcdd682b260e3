package org.headrace.spark.read;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.function.IntUnaryOperator;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.vector.BufferLayout;
import org.apache.arrow.vector.TypeLayout;
import org.apache.arrow.vector.compression.NoCompressionCodec;
import org.apache.arrow.vector.ipc.message.ArrowFieldNode;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.unsafe.Platform;
import org.headrace.spark.vectors.ArrowColumns;

/**
 * Checks a received batch before anything reads it by address; executor JVM, once per batch.
 *
 * <p>Every buffer must lie in the body and be long enough for the rows, offsets must rise and stay inside of what they
 * point into, and so must views and indices, except where the row is null: there they may be anything. A batch that passes can be wrong, but reading it touches no other memory. It is looked at before
 * Arrow loads it: Arrow's own loader believes the last offset, and would allocate what it asks for.
 */
final class BatchCheck {
  static final int NO_DICTIONARY = -1;
  private static final int VIEW_BYTES = 16;

  private final Iterator<ArrowFieldNode> nodes;
  private final Iterator<ArrowBuf> buffers;
  private final Iterator<Long> dataBuffers;
  private final long bodyStart;
  private final long bodyEnd;
  private int indexEnd = NO_DICTIONARY;

  /** Says what of a batch contradicts what. */
  static final class Broken extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    private Broken(String message) {
      super(message);
    }
  }

  private BatchCheck(ArrowRecordBatch batch, ArrowBuf body) {
    nodes = batch.getNodes().iterator();
    buffers = batch.getBuffers().iterator();
    dataBuffers = batch.getVariadicBufferCounts().iterator();
    bodyStart = body.memoryAddress();
    bodyEnd = bodyStart + body.writerIndex(); // its capacity may be larger than what was received
  }

  /**
   * Throws Broken, naming the column, what was expected and what was found, for values that
   * contradict each other, and IndexOutOfBoundsException where parts of the message are missing.
   */
  static void check(ArrowRecordBatch batch, ArrowBuf body, Schema schema) {
    check(batch, body, schema, column -> NO_DICTIONARY);
  }

  /** The same; {@code sizes} tells how many values the dictionary of a column has into which its numbers point. */
  static void check(ArrowRecordBatch batch, ArrowBuf body, Schema schema, IntUnaryOperator sizes) {
    if (batch.getBodyCompression().getCodec() != NoCompressionCodec.COMPRESSION_TYPE) {
      throw new IllegalArgumentException("compressed buffers, which Headrace never sends");
    }
    BatchCheck check = new BatchCheck(batch, body);
    for (int i = 0; i < schema.getFields().size(); i++) {
      Field field = schema.getFields().get(i);
      check.indexEnd = sizes.applyAsInt(i);
      long rows = check.column(field, field.getName());
      if (rows != batch.getLength()) {
        throw broken(field, field.getName(), "has " + rows + " rows in a batch of " + batch.getLength());
      }
    }
  }

  /** Checks a column and its children, in the order in which Arrow writes them; returns how many values it has. */
  private long column(Field field, String path) {
    if (!nodes.hasNext()) {
      throw new IndexOutOfBoundsException("no column '" + path + "'");
    }
    ArrowFieldNode node = nodes.next();
    long rows = node.getLength();
    if (rows < 0 || rows > Integer.MAX_VALUE) {
      throw broken(field, path, "has " + rows + " values");
    }
    ArrowBuf validity = null;
    ArrowBuf offsets = null;
    int offsetBytes = 0;
    for (BufferLayout layout : TypeLayout.getTypeLayout(field.getType()).getBufferLayouts()) {
      ArrowBuf buffer = nextBuffer(path);
      switch (layout.getType()) {
        case VALIDITY -> {
          // Arrow makes a bitmap itself where there are no nulls, or nothing else.
          if (node.getNullCount() != 0 && node.getNullCount() != rows) {
            checkSize(field, path, "validity", buffer, (rows + 7) >> 3);
          }
          validity = buffer;
        }
        case OFFSET -> {
          offsets = buffer;
          offsetBytes = layout.getTypeBitWidth() >> 3;
        }
        case DATA -> {
          if (offsets == null) {
            checkSize(field, path, "data", buffer, (rows * layout.getTypeBitWidth() + 7) >> 3);
            if (indexEnd != NO_DICTIONARY) {
              checkIndices(field, path, node, validity, buffer);
            }
          } else {
            checkOffsets(field, path, offsets, offsetBytes, rows, buffer.capacity());
          }
        }
        case VIEWS -> {
          checkSize(field, path, "views", buffer, rows * VIEW_BYTES);
          checkViews(field, path, node, validity, buffer, dataBuffers(field, path));
        }
        default -> throw broken(field, path, "has a type that is not read");
      }
    }
    for (Field child : field.getChildren()) {
      long values = column(child, path + "." + child.getName());
      if (offsets != null) {
        checkOffsets(field, path, offsets, offsetBytes, rows, values);
      } else {
        long perRow = field.getType() instanceof ArrowType.FixedSizeList list ? list.getListSize() : 1;
        if (values < rows * perRow) {
          throw broken(field, path, "has " + rows + " rows of " + perRow + " and " + values + " values in them");
        }
      }
    }
    return rows;
  }

  private ArrowBuf nextBuffer(String path) {
    if (!buffers.hasNext()) {
      throw new IndexOutOfBoundsException("too few buffers for column '" + path + "'");
    }
    ArrowBuf buffer = buffers.next();
    long start = buffer.memoryAddress();
    if (buffer.capacity() < 0
        || (buffer.capacity() > 0 && (start < bodyStart || start > bodyEnd - buffer.capacity()))) {
      throw new IndexOutOfBoundsException("a buffer of column '" + path + "' reaches beyond the batch");
    }
    return buffer;
  }

  private static void checkSize(Field field, String path, String kind, ArrowBuf buffer, long bytes) {
    if (buffer.capacity() < bytes) {
      throw broken(field, path, "needs %d bytes of %s and has %d".formatted(bytes, kind, buffer.capacity()));
    }
  }

  private static void checkOffsets(Field field, String path, ArrowBuf offsets, int width, long rows, long end) {
    if (rows == 0) {
      return; // an empty batch may come without its single offset
    }
    checkSize(field, path, "offsets", offsets, (rows + 1) * width);
    long address = offsets.memoryAddress();
    if (!(width == Integer.BYTES ? rise(address, (int) rows, end) : riseLong(address, (int) rows, end))) {
      throw brokenOffsets(field, path, address, width, rows, end);
    }
  }

  /**
   * One pass without a branch for each row: any that falls, or is negative, leaves its sign. Where all rise from 0 or
   * more, only the last can be too large.
   */
  private static boolean rise(long address, int rows, long end) {
    int previous = Platform.getInt(null, address);
    int signs = previous;
    for (int i = 0; i < rows; i++) {
      int next = Platform.getInt(null, address + ((long) i << 2) + 4);
      signs |= next | (next - previous);
      previous = next;
    }
    return signs >= 0 && previous <= end;
  }

  private static boolean riseLong(long address, int rows, long end) {
    long previous = Platform.getLong(null, address);
    long signs = previous;
    for (int i = 0; i < rows; i++) {
      long next = Platform.getLong(null, address + ((long) i << 3) + 8);
      signs |= next | (next - previous);
      previous = next;
    }
    return signs >= 0 && previous <= end;
  }

  /** How many bytes each of a column's data buffers has. */
  private long[] dataBuffers(Field field, String path) {
    long count = dataBuffers.hasNext() ? dataBuffers.next() : -1;
    if (count < 0 || count > Integer.MAX_VALUE) {
      throw broken(field, path, "has " + count + " data buffers");
    }
    List<Long> sizes = new ArrayList<>(); // the count may be a lie, so no array of that length
    for (long i = 0; i < count; i++) {
      sizes.add(nextBuffer(path).capacity());
    }
    return sizes.stream().mapToLong(Long::longValue).toArray();
  }

  private static void checkViews(
      Field field, String path, ArrowFieldNode node, ArrowBuf validity, ArrowBuf views, long[] data) {
    int rows = node.getLength();
    long address = views.memoryAddress();
    if (areInline(address, rows)) {
      return;
    }
    for (int row = 0; row < rows; row++) {
      long view = address + (long) row * VIEW_BYTES;
      int length = Platform.getInt(null, view);
      if ((length < 0 || (length > ArrowColumns.INLINE_BYTES && !isInside(view, length, data)))
          && isValid(node, validity, row)) {
        throw broken(
            field,
            path,
            "has a view of %d bytes at %d of data buffer %d in row %d, expected it inside of buffers of %s bytes"
                .formatted(
                    length,
                    Platform.getInt(null, view + 12),
                    Platform.getInt(null, view + 8),
                    row,
                    Arrays.toString(Arrays.copyOf(data, Math.min(data.length, 5)))));
      }
    }
  }

  /** Whether all views hold their values themselves; one pass without a branch for each row, as in {@link #rise}. */
  private static boolean areInline(long address, int rows) {
    int signs = 0;
    for (int i = 0; i < rows; i++) {
      int length = Platform.getInt(null, address + (long) i * VIEW_BYTES);
      signs |= length | (ArrowColumns.INLINE_BYTES - length);
    }
    return signs >= 0;
  }

  private static boolean isInside(long view, int length, long[] data) {
    int buffer = Platform.getInt(null, view + 8);
    int offset = Platform.getInt(null, view + 12);
    return buffer >= 0 && buffer < data.length && offset >= 0 && (long) offset + length <= data[buffer];
  }

  private void checkIndices(Field field, String path, ArrowFieldNode node, ArrowBuf validity, ArrowBuf indices) {
    ArrowType.Int type = (ArrowType.Int) field.getType();
    int width = type.getBitWidth() >> 3;
    long end = type.getIsSigned() ? Math.min(indexEnd, 1L << (type.getBitWidth() - 1)) : indexEnd;
    if (width == Integer.BYTES && areBelow(indices.memoryAddress(), node.getLength(), end)) {
      return;
    }
    for (int row = 0; row < node.getLength(); row++) {
      long index = index(indices.memoryAddress() + (long) row * width, width);
      if (index >= end && isValid(node, validity, row)) {
        throw broken(
            field, path, "has %d as index of row %d, expected 0 to %d".formatted(index, row, indexEnd - 1));
      }
    }
  }

  /** Whether all indices of 32 bits are; one pass without a branch for each row, as in {@link #rise}. */
  private static boolean areBelow(long address, int rows, long end) {
    if (end > Integer.MAX_VALUE) {
      return false;
    }
    int last = (int) end - 1;
    int signs = 0;
    for (int i = 0; i < rows; i++) {
      int index = Platform.getInt(null, address + ((long) i << 2));
      signs |= index | (last - index);
    }
    return signs >= 0;
  }

  /** As it is read later, without a sign: a negative one is too large. */
  private static long index(long at, int width) {
    return switch (width) {
      case 1 -> Platform.getByte(null, at) & 0xff;
      case 2 -> Platform.getShort(null, at) & 0xffff;
      default -> Platform.getInt(null, at) & 0xffffffffL;
    };
  }

  /** Whether a row may be read as one that is not null: where count and bitmap disagree, it may. */
  private static boolean isValid(ArrowFieldNode node, ArrowBuf validity, int row) {
    if (validity.capacity() == 0) {
      return node.getNullCount() != node.getLength();
    }
    return node.getNullCount() == 0
        || validity.capacity() <= row >> 3
        || (Platform.getByte(null, validity.memoryAddress() + (row >> 3)) >> (row & 7) & 1) != 0;
  }

  private static Broken brokenOffsets(
      Field field, String path, long address, int width, long rows, long end) {
    long from = 0;
    for (long row = 0; row <= rows; row++) {
      long at = address + row * width;
      long offset = width == Integer.BYTES ? Platform.getInt(null, at) : Platform.getLong(null, at);
      if (offset < from || offset > end) {
        return broken(
            field, path, "has %d as offset %d of %d, expected %d to %d".formatted(offset, row, rows, from, end));
      }
      from = offset;
    }
    throw new IllegalStateException("offsets that rise");
  }

  private static Broken broken(Field field, String path, String what) {
    return new Broken("column '%s' (Arrow %s) %s".formatted(path, field.getType(), what));
  }
}
