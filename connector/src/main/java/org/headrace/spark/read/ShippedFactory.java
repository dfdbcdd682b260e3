package org.headrace.spark.read;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.lang.ref.WeakReference;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.types.StructType;
import org.headrace.spark.transport.PartitionOrigin;

/**
 * A reader factory on its way to the executors, where it is opened once for all tasks of a stage and not in each of them:
 * to read a schema of Spark's takes as long as to ask a worker for a row. Made in the driver JVM, opened in executors'.
 */
final class ShippedFactory implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int MOST_KNOWN = 64;

  /** Those that were opened in this JVM and may still be in use, the latest last. */
  private static final Map<UUID, WeakReference<HeadraceReaderFactory>> KNOWN =
      new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<UUID, WeakReference<HeadraceReaderFactory>> eldest) {
          return size() > MOST_KNOWN;
        }
      };

  private final UUID id;
  private final byte[] parts;

  ShippedFactory(UUID id, PartitionOrigin origin, StructType schema, boolean plainErrors) {
    this.id = id;
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(origin);
      out.writeObject(schema);
      out.writeBoolean(plainErrors);
    } catch (IOException e) {
      throw new UncheckedIOException(e); // memory can always be written to
    }
    this.parts = bytes.toByteArray();
  }

  private Object readResolve() throws ObjectStreamException {
    synchronized (KNOWN) {
      WeakReference<HeadraceReaderFactory> known = KNOWN.get(id);
      HeadraceReaderFactory factory = known == null ? null : known.get();
      if (factory == null) {
        factory = opened();
        KNOWN.remove(id);
        KNOWN.put(id, new WeakReference<>(factory));
      }
      return factory;
    }
  }

  private HeadraceReaderFactory opened() {
    try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(parts))) {
      return new HeadraceReaderFactory(
          null, (PartitionOrigin) in.readObject(), (StructType) in.readObject(), in.readBoolean());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (ClassNotFoundException e) {
      throw new IllegalStateException(e); // this class came from where those are
    }
  }
}
