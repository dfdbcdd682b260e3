package org.headrace.spark.stream;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;
import org.headrace.spark.planner.Planners;
import scala.Option;

/**
 * What a query's checkpoint remembers of a stream: where it began, and the columns it had; driver JVM.
 *
 * <p>A provider may be another one when the query is started again. The offsets say where to go on, and nothing of what is
 * there: a column of another type would break state and sinks somewhere later, with no word of the cause.
 */
final class CheckpointRecord {
  private static final String INITIAL = "initial";
  private static final String SCHEMA = "schema";

  private final Path path;
  private final String table;
  private final StructType schema;

  CheckpointRecord(String checkpoint, String table, StructType schema) {
    this.path = new Path(checkpoint, "headrace.json");
    this.table = table;
    this.schema = schema;
  }

  /** Where the stream began; {@code ask} says it where it begins now. Throws where a column is gone or has changed. */
  String initial(Supplier<String> ask) {
    try {
      FileSystem files = path.getFileSystem(settings());
      JsonNode record = read(files);
      String initial = record == null ? ask.get() : record.get(INITIAL).asText();
      StructType known = record == null ? null : (StructType) DataType.fromJson(record.get(SCHEMA).toString());
      if (known != null) {
        check(known);
      }
      if (known == null || !known.equals(schema)) {
        write(files, initial);
      }
      return initial;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Those of the session whose query this is. */
  private static Configuration settings() {
    Option<SparkSession> session = SparkSession.getActiveSession();
    return session.isDefined() ? session.get().sessionState().newHadoopConf() : new Configuration();
  }

  private void check(StructType known) {
    Set<String> differences = new TreeSet<>();
    for (StructField column : known.fields()) {
      Option<Object> index = schema.getFieldIndex(column.name());
      DataType now = index.isEmpty() ? null : schema.fields()[(Integer) index.get()].dataType();
      if (now == null) {
        differences.add("column '" + column.name() + "' is gone");
      } else if (!now.asNullable().equals(column.dataType().asNullable())) {
        differences.add(
            "column '" + column.name() + "' was " + column.dataType().sql() + " and is " + now.sql());
      }
    }
    if (!differences.isEmpty()) {
      throw HeadraceException.of(
          "SchemaMismatchError",
          new Place(table, null),
          String.format(
              "the stream '%s' has another schema than when this query's checkpoint was begun: %s. New columns are"
                  + " welcome; for other changes start with a new checkpoint, or give the old columns back (%s)",
              table, String.join(", ", differences), path.getParent()));
    }
  }

  /** What is there; null where the query begins. */
  private JsonNode read(FileSystem files) throws IOException {
    if (files instanceof LocalFileSystem local) {
      File file = local.pathToFile(path);
      return file.exists() ? Planners.JSON.readTree(Files.readString(file.toPath())) : null;
    }
    if (!files.exists(path)) {
      return null;
    }
    try (InputStream in = files.open(path)) {
      return Planners.JSON.readTree(new String(in.readAllBytes(), StandardCharsets.UTF_8));
    }
  }

  /**
   * Written beside its place, then moved there: what is read is whole. Hadoop starts a process, chmod, for each local file
   * and folder that it makes: four of them here.
   */
  private void write(FileSystem files, String initial) throws IOException {
    ObjectNode record = Planners.JSON.createObjectNode().put(INITIAL, initial);
    record.set(SCHEMA, Planners.JSON.readTree(schema.json()));
    Path beside = new Path(path.getParent(), ".headrace." + UUID.randomUUID() + ".tmp");
    if (files instanceof LocalFileSystem local) {
      File scratch = local.pathToFile(beside);
      Files.createDirectories(scratch.getParentFile().toPath());
      Files.writeString(scratch.toPath(), record.toString());
      Files.move(scratch.toPath(), local.pathToFile(path).toPath(), StandardCopyOption.ATOMIC_MOVE);
      return;
    }
    try (OutputStream out = files.create(beside)) {
      out.write(record.toString().getBytes(StandardCharsets.UTF_8));
    }
    files.delete(path, false);
    if (!files.rename(beside, path)) {
      throw new IOException("cannot write " + path);
    }
  }
}
