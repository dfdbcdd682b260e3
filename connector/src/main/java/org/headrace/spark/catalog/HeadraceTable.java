package org.headrace.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.ref.Cleaner;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.headrace.spark.Versions;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;
import org.headrace.spark.scan.HeadraceScanBuilder;
import org.headrace.spark.scan.SortKeys;
import org.headrace.spark.scan.StreamOpener;
import org.headrace.spark.stream.StreamOptions;
import org.headrace.spark.write.Deletion;
import org.headrace.spark.write.HeadraceWriteBuilder;
import org.headrace.spark.write.Published;

/** One registered table as Spark sees it; driver JVM. */
final class HeadraceTable
    implements SupportsRead, SupportsWrite, SupportsDeleteV2, ReportsSinkMetrics, Versions.TableWithId {
  private static final Cleaner CLEANER = Cleaner.create();
  private static final Pattern PARTITION_CLAUSE =
      Pattern.compile("(?i)INSERT\\s+(INTO|OVERWRITE)\\s+(TABLE\\s+)?+([\\w.]|`[^`]*`)+\\s+PARTITION\\s*\\(");

  private final String context;
  private final String name;
  private final String id;
  private final StructType schema;
  private final Transform[] partitioning;
  private final boolean joins;
  private final boolean streams;
  private final boolean neverScanned;
  private final Published published = new Published();
  private HeadraceTable original; // held, where Python keeps the table for it

  private HeadraceTable(
      String context,
      String name,
      String id,
      StructType schema,
      Transform[] partitioning,
      boolean joins,
      boolean streams,
      boolean neverScanned) {
    this.context = context;
    this.name = name;
    this.id = id;
    this.schema = schema;
    this.partitioning = partitioning;
    this.joins = joins;
    this.streams = streams;
    this.neverScanned = neverScanned;
  }

  /** The same table, for a statement whose plan has a scan of it that does not run. */
  HeadraceTable neverScanned() {
    HeadraceTable table = new HeadraceTable(context, name, id, schema, partitioning, joins, streams, true);
    table.original = this;
    return table;
  }

  /** The table that Python answered with. */
  static HeadraceTable of(String context, JsonNode answer) {
    String name = answer.get(Words.NAME).asText();
    refuseTime(answer.get(Words.SCHEMA), name);
    StructType schema = (StructType) DataType.fromJson(answer.get(Words.SCHEMA).toString());
    Transform[] partitioning = SortKeys.identities(answer.path(Words.PARTITIONING));
    boolean joins = answer.path(Words.JOINS).asBoolean();
    boolean streams = answer.path(Words.STREAM).asBoolean();
    String id = answer.get(Words.TABLE).asText();
    return new HeadraceTable(context, name, id, schema, partitioning, joins, streams, false);
  }

  /** Where this session has no TIME, which Spark itself says at some later point, without the column. */
  private static void refuseTime(JsonNode schema, String table) {
    String column = columnOfTime(schema, "");
    String reason = column == null ? null : Versions.whyNoTime();
    if (reason != null) {
      throw Planners.failed("UnsupportedTypeError", "table '" + table + "': column '" + column + "' is a time of day. " + reason);
    }
  }

  /** The path to the first part of a type, in Spark's JSON, that is a TIME; null where there is none. */
  private static String columnOfTime(JsonNode type, String path) {
    if (type.isTextual()) {
      return type.asText().startsWith("time(") ? path : null;
    }
    for (JsonNode field : type.path("fields")) {
      String name = field.get("name").asText();
      String found = columnOfTime(field.get("type"), path.isEmpty() ? name : path + "." + name);
      if (found != null) {
        return found;
      }
    }
    for (String part : List.of("element", "key", "value")) {
      JsonNode inner = type.path(part + "Type");
      String found = inner.isMissingNode() ? null : columnOfTime(inner, path + "." + part);
      if (found != null) {
        return found;
      }
    }
    return null;
  }

  /** As {@link #of}, for one that Python keeps only as long as the JVM does: it is told when this object is garbage. */
  static HeadraceTable held(String context, JsonNode answer) {
    HeadraceTable table = of(context, answer);
    CLEANER.register(table, release(context, table.id));
    return table;
  }

  private static Runnable release(String context, String id) {
    return () -> {
      if (Planners.isLive(context)) {
        Planners.ask(context, Words.RELEASE_TABLE, Map.of(Words.TABLE, id));
      }
    };
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String id() {
    return id;
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return schema;
  }

  /** Spark resolves {@code INSERT ... PARTITION (day = ...)} by it. Where there is none, Spark's error names no table. */
  @Override
  public Transform[] partitioning() {
    if (partitioning.length == 0 && namesPartition(CurrentOrigin.get())) {
      throw Planners.failed(
          "WriteError",
          "the table '" + name + "' has no partition columns, so a statement that writes to it has no PARTITION clause: "
              + "give all columns as values; nothing was written");
    }
    return partitioning.clone();
  }

  /** Whether Spark looks at an INSERT with such a clause: of that its origin is the text, without the query. */
  private static boolean namesPartition(Origin origin) {
    if (origin.sqlText().isEmpty() || origin.startIndex().isEmpty() || origin.stopIndex().isEmpty()) {
      return false;
    }
    int start = (Integer) origin.startIndex().get();
    int stop = (Integer) origin.stopIndex().get() + 1;
    String text = origin.sqlText().get();
    return stop <= text.length() && PARTITION_CLAUSE.matcher(text.substring(start, stop)).lookingAt();
  }

  /**
   * Python says what a table cannot do, by name, and what to call instead; where one were missing here, Spark would, with
   * advice on settings.
   */
  @Override
  public Set<TableCapability> capabilities() {
    Set<TableCapability> capabilities =
        EnumSet.of(
            TableCapability.BATCH_READ,
            TableCapability.BATCH_WRITE,
            TableCapability.STREAMING_WRITE,
            TableCapability.TRUNCATE,
            TableCapability.OVERWRITE_BY_FILTER,
            TableCapability.OVERWRITE_DYNAMIC);
    if (streams) {
      capabilities.add(TableCapability.MICRO_BATCH_READ);
    }
    return capabilities;
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    ConnectSessions.uses(context);
    return new HeadraceWriteBuilder(context, id, name, schema, info, published);
  }

  /** In the progress of a streaming query that writes to this table: of its last micro-batch. */
  @Override
  public Map<String, String> metrics() {
    return published.texts();
  }

  /** How the progress of a streaming query names the table that it writes to. */
  @Override
  public String toString() {
    return "Headrace table " + name;
  }

  @Override
  public boolean canDeleteWhere(Predicate[] predicates) {
    deletion().plan(predicates);
    return true;
  }

  @Override
  public void deleteWhere(Predicate[] predicates) {
    deletion().delete(predicates);
  }

  @Override
  public boolean truncateTable() {
    deletion().plan();
    deletion().delete();
    return true;
  }

  private Deletion deletion() {
    return new Deletion(context, id, name);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    if (neverScanned) {
      return () -> () -> schema;
    }
    ConnectSessions.uses(context);
    StreamOpener stream = streams ? StreamOptions.of(options) : null;
    HeadraceScanBuilder builder = new HeadraceScanBuilder(context, id, name, schema, stream);
    return joins && Versions.offersJoins() ? Versions.joining(builder) : builder;
  }

  /** Spark may find a cached query again by the equality of its tables. */
  @Override
  public boolean equals(Object other) {
    return other instanceof HeadraceTable table && context.equals(table.context) && id.equals(table.id);
  }

  @Override
  public int hashCode() {
    return id.hashCode();
  }
}
