package org.headrace.spark.scan;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.distributions.ClusteredDistribution;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.connector.expressions.filter.AlwaysTrue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.LogicalWriteInfoImpl;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;
import org.headrace.spark.catalog.Catalogs;
import org.headrace.spark.catalog.HeadraceCatalog;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;
import org.headrace.spark.stream.StreamOptions;
import org.headrace.spark.write.Deletion;
import org.headrace.spark.write.HeadraceWriteBuilder;
import org.headrace.spark.write.Published;

/**
 * Checks Java's half of the planner's JSON against the golden questions and answers; run by tests with the path of
 * planner.json. A planner that answers from the file is asked by the real builder, scan and catalog.
 */
public final class PlannerJsonCheck {
  private static final String CONTEXT = "context";
  private static final StructType SCHEMA =
      new StructType()
          .add("k", DataTypes.LongType)
          .add("name", DataTypes.StringType)
          .add("price", DataTypes.DoubleType);

  private static Iterator<JsonNode> steps;
  private static volatile int asked;
  private static int askedBefore; // by earlier conversations

  private PlannerJsonCheck() {}

  public static void main(String[] args) throws Exception {
    JsonNode golden = Planners.JSON.readTree(Files.readString(Path.of(args[0])));
    checkWords(golden.get("words"));
    SQLConf.get().setConfString("spark.sql.autoBroadcastJoinThreshold", "0");
    Planners.connect(CONTEXT, PlannerJsonCheck::answer, false);
    Catalogs.claim("headrace", CONTEXT);
    Catalogs.claim("shop", CONTEXT);
    for (JsonNode conversation : golden.get("conversations")) {
      steps = conversation.get("steps").iterator();
      askedBefore = asked;
      hold(conversation.get("name").asText());
    }
    System.out.println(asked + " questions and all words agree");
  }

  private static void checkWords(JsonNode words) throws IllegalAccessException {
    Map<String, String> found = new TreeMap<>();
    for (Field field : Words.class.getDeclaredFields()) {
      found.put((String) field.get(null), field.getName());
    }
    for (Map.Entry<String, String> word : found.entrySet()) {
      same(word.getKey(), word.getKey().toUpperCase(), word.getValue());
    }
    TreeSet<String> golden = new TreeSet<>();
    words.forEach(word -> golden.add(word.asText()));
    same("the words", golden, new TreeSet<>(found.keySet()));
  }

  /** Holds the next question of the conversation against what was asked; releases come whenever garbage is collected. */
  private static String answer(String operation, String payload) {
    if (operation.startsWith(Words.RELEASE)) {
      return "{}";
    }
    try {
      JsonNode step = steps.next();
      same("the operation", step.get("operation").asText(), operation);
      JsonNode found = Planners.JSON.readTree(payload);
      same("the question " + step.get("question"), comparable(step.get("question")), comparable(found));
      asked++;
      return step.get("answer").toString();
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Without the id that a negotiation draws, and what the settings of this Spark are. */
  private static JsonNode comparable(JsonNode question) {
    ObjectNode copy = question.deepCopy();
    copy.remove(List.of(Words.SCAN, Words.WRITE, Words.STREAM));
    JsonNode offers = copy.path(Words.OFFERS);
    if (offers.has(Words.SETTINGS)) {
      ObjectNode settings = (ObjectNode) offers.get(Words.SETTINGS);
      settings.fieldNames().forEachRemaining(name -> settings.putNull(name));
    }
    if (offers.has(Words.JOIN)) {
      ObjectNode join = (ObjectNode) offers.get(Words.JOIN);
      join.set(Words.OTHER, comparable(join.get(Words.OTHER)));
    }
    return copy;
  }

  private static void hold(String name) throws Exception {
    switch (name) {
      case "a plan for workers" -> {
        HeadraceScanBuilder builder = builder("worker");
        Predicate[] offered = {
          predicate(">", column("k"), literal(5L, DataTypes.LongType)),
          predicate("IS_NOT_NULL", column("k")),
          predicate("=", column("name"), literal(UTF8String.fromString("x"), DataTypes.StringType)),
          predicate("<", column("price"), literal(1.5, DataTypes.DoubleType)),
          predicate("=", column("k"), new Unknown())
        };
        List<Predicate> left = List.of(builder.pushPredicates(offered));
        same("left to Spark", List.of(offered[2], offered[3], offered[4]), left);
        same("pushed", List.of(offered[0], offered[1], offered[2]), List.of(builder.pushedPredicates()));
        builder.pruneColumns(columns("k", "name"));
        same("a limit", true, builder.pushLimit(10));
        HeadraceScan scan = (HeadraceScan) builder.build();
        same("partitions", 1, scan.toBatch().planInputPartitions().length);
        same("columns", columns("k", "name"), scan.readSchema());
        same("rows", 10L, scan.estimateStatistics().numRows().getAsLong());
        same("bytes", 4000L, scan.estimateStatistics().sizeInBytes().getAsLong());
        same("partitioning", "UnknownPartitioning", scan.outputPartitioning().getClass().getSimpleName());
        same("filters", true, scan.reflectsFullyPushedDownFilters());
        same("the plan", "scan of worker.1", scan.planId());
        same("a push table", false, scan.isPush());
      }
      case "filters that come back" -> {
        HeadraceScanBuilder builder = builder("worker");
        builder.pushPredicates(new Predicate[] {predicate("=", column("k"), literal(5L, DataTypes.LongType))});
        builder.pruneColumns(columns("name"));
        HeadraceScan scan = (HeadraceScan) builder.build();
        same("columns", columns("name", "k"), scan.readSchema());
        same("filters", false, scan.reflectsFullyPushedDownFilters());
      }
      case "a plan by keys, narrowed" -> {
        HeadraceScanBuilder builder = builder("keyed");
        builder.pruneColumns(columns("k", "price"));
        HeadraceScan scan = (HeadraceScan) builder.build();
        same("keys", List.of(1L, 2L), keys(scan.toBatch().planInputPartitions()));
        same("ordering", "[k DESC NULLS LAST]", Arrays.toString(scan.outputOrdering()));
        same("runtime filters", "[k]", Arrays.toString(scan.filterAttributes()));
        Expression[] many = new Expression[10_002];
        Arrays.fill(many, literal(1L, DataTypes.LongType));
        many[0] = column("k");
        scan.filter(new Predicate[] {new Predicate("IN", many)});
        scan.filter(new Predicate[] {new Predicate("IN", many), predicate("=", column("k"), new Unknown())});
        scan.leaveOut(HeadraceScan.leftOut(Words.DEEP).put(Words.COLUMN, "k"));
        Batch before = scan.toBatch();
        Predicate learnt =
            predicate("IN", column("k"), literal(2L, DataTypes.LongType), literal(7L, DataTypes.LongType));
        scan.filter(new Predicate[] {learnt});
        same("keys that are left", List.of(2L), keys(scan.toBatch().planInputPartitions()));
        same("equal batches", false, before.equals(scan.toBatch()));
        same(
            "readers that the first batch makes",
            scan.toBatch().createReaderFactory(),
            before.createReaderFactory());
        scan.withholdKeys();
        same("withheld", "UnknownPartitioning", scan.outputPartitioning().getClass().getSimpleName());
        same("the plan", "scan of keyed.2", scan.planId());
      }
      case "a plan by a hash" -> {
        HeadraceScanBuilder builder = builder("hashed");
        builder.pruneColumns(columns("k", "name"));
        HeadraceScan scan = (HeadraceScan) builder.build();
        same("partitions", 3, scan.outputPartitioning().numPartitions());
        same("columns of the hash", List.of("k", "name"), scan.keyColumns());
        same("keys", List.of(0, 1, 0), numbers(scan.toBatch().planInputPartitions()));
      }
      case "a top-n and an offset" -> {
        HeadraceScanBuilder builder = builder("worker");
        SortOrder order = Expressions.sort(column("k"), SortDirection.DESCENDING, NullOrdering.NULLS_LAST);
        same("a top-n", true, builder.pushTopN(new SortOrder[] {order}, 5));
        same("partly", false, builder.isPartiallyPushed());
        same("an offset", true, builder.pushOffset(2));
        builder.pruneColumns(columns("k"));
        builder.build();
      }
      case "aggregates" -> {
        HeadraceScanBuilder builder = builder("worker");
        AggregateFunc[] functions = {new CountStar(), new Max(column("k"))};
        Aggregation aggregation = new Aggregation(functions, new Expression[0]);
        same("complete", true, builder.supportCompletePushDown(aggregation));
        same("aggregated", true, builder.pushAggregation(aggregation));
        same("columns", List.of("count_0", "max_1"), List.of(builder.build().readSchema().fieldNames()));
      }
      case "aggregates of groups, in part" -> {
        HeadraceScanBuilder builder = builder("worker");
        Expression[] groups = {column("name")};
        AggregateFunc sum = new Sum(column("k"), false);
        AggregateFunc distinct = new Count(column("k"), true);
        same("a sum", true, builder.pushAggregation(new Aggregation(new AggregateFunc[] {sum}, groups)));
        same("a distinct count", false, builder.pushAggregation(new Aggregation(new AggregateFunc[] {distinct}, groups)));
      }
      case "work at the source" -> {
        HeadraceScanBuilder builder = builder("keyed");
        Predicate filter = predicate("<", column("price"), literal(1.5, DataTypes.DoubleType));
        same("left to Spark", 0, builder.pushPredicates(new Predicate[] {filter}).length);
        AggregateFunc[] functions = {new Max(column("name"))};
        Aggregation aggregation = new Aggregation(functions, new Expression[] {column("k")});
        same("aggregated", true, builder.pushAggregation(aggregation));
        HeadraceScan scan = (HeadraceScan) builder.build();
        same("columns", List.of("group_0", "max_0"), List.of(scan.readSchema().fieldNames()));
        same("partitioning", "UnknownPartitioning", scan.outputPartitioning().getClass().getSimpleName());
        same("ordering", "[]", Arrays.toString(scan.outputOrdering()));
        same("keys of the groups", "[identity(group_0)]", Arrays.toString(scan.groupedBatch().partitionKeys()));
        same("order of the groups", "[group_0 DESC NULLS LAST]", Arrays.toString(scan.groupedBatch().order()));
        same("keys", List.of(1L, 2L), keys(scan.toBatch().planInputPartitions()));
      }
      case "joins" -> {
        HeadraceScanBuilder builder = builder("worker");
        HeadraceScanBuilder other = builder("hashed");
        same("joinable", true, builder.canJoin(other));
        Predicate condition = predicate("=", column("k"), column("k_1"));
        List<String[]> left = List.<String[]>of(new String[] {"k", "k"});
        List<String[]> right = List.<String[]>of(new String[] {"k", "k_1"});
        same("an outer join", false, builder.pushJoin(other, "LEFT_OUTER_JOIN", left, right, condition));
        same("an inner join", true, builder.pushJoin(other, "INNER_JOIN", left, right, condition));
      }
      case "a stream" -> {
        CaseInsensitiveStringMap options =
            new CaseInsensitiveStringMap(Map.of("maxRowsPerTrigger", "5", "maxBytesPerTrigger", "1000"));
        HeadraceScanBuilder builder =
            new HeadraceScanBuilder(CONTEXT, "id of growing", "growing", SCHEMA, StreamOptions.of(options));
        builder.pruneColumns(columns("k"));
        Path checkpoint = Files.createTempDirectory("headrace-checkpoint");
        SupportsAdmissionControl stream =
            (SupportsAdmissionControl) builder.build().toMicroBatchStream(checkpoint.toString());
        Offset start = stream.initialOffset();
        Offset end = stream.latestOffset(start, stream.getDefaultReadLimit());
        same("offsets", List.of("0", "5"), List.of(start.json(), end.json()));
        MicroBatchStream ranges = (MicroBatchStream) stream;
        same("partitions", 1, ranges.planInputPartitions(start, end).length);
        same("the same range", 1, ranges.planInputPartitions(start, end).length);
        same("an empty range", 0, ranges.planInputPartitions(end, end).length);
        same("metrics", Map.of("rowsBehind", "2"), ((ReportsSourceMetrics) stream).metrics(Optional.of(end)));
        stream.commit(end);
        Offset last = stream.deserializeOffset("7");
        same("nothing new", null, stream.latestOffset(last, ReadLimit.allAvailable()));
        awaitOneMore(6);
        stream.stop();
        awaitOneMore(7);
        try (var files = Files.newDirectoryStream(checkpoint)) {
          for (Path file : files) {
            Files.delete(file);
          }
        }
        Files.delete(checkpoint);
      }
      case "failures" -> {
        for (String table : List.of("failing", "missing")) {
          HeadraceScanBuilder builder = builder(table);
          builder.pruneColumns(columns("k"));
          String expected = table.equals("failing") ? "no such page" : "deregistered or replaced";
          try {
            builder.build();
            throw new AssertionError("a failure was taken for a plan");
          } catch (Exception e) {
            same(e.getMessage(), true, e.getMessage().contains(expected));
          }
        }
      }
      case "tables of a context" -> {
        HeadraceCatalog catalog = catalog("headrace");
        same("a table", 3, catalog.loadTable(Identifier.of(new String[0], "worker")).columns().length);
        same("no table", false, exists(catalog, Identifier.of(new String[0], "missing")));
        same("tables", 6, catalog.listTables(new String[0]).length);
        same("namespaces", "default", catalog.listNamespaces()[0][0]);
        same("tables of the namespace", 6, catalog.listTables(new String[] {"default"}).length);
        same("the namespace", true, catalog.namespaceExists(new String[] {"default"}));
        try {
          catalog.loadTable(Identifier.of(new String[0], "worker"), "2");
          throw new AssertionError("a table without versions has one");
        } catch (Exception e) {
          same(e.getMessage(), true, e.getMessage().contains("no versions"));
        }
      }
      case "tables of a catalog" -> {
        HeadraceCatalog catalog = catalog("shop");
        String[] sales = {"sales"};
        Identifier orders = Identifier.of(sales, "orders");
        same("namespaces", "sales", catalog.listNamespaces()[0][0]);
        same("a namespace", true, catalog.namespaceExists(sales));
        same("no namespace", false, catalog.namespaceExists(new String[] {"other"}));
        same("tables", List.of(orders), List.of(catalog.listTables(sales)));
        same("a table", "shop.sales.orders", catalog.loadTable(orders).name());
        same("a version", "shop.sales.orders", catalog.loadTable(orders, "2").name());
        same("a time", "shop.sales.orders", catalog.loadTable(orders, 1_000_000L).name());
        same("no table", false, exists(catalog, Identifier.of(sales, "missing")));
      }
      case "a write" -> {
        BatchWrite write = write("sink", Map.of("Color", "red")).build().toBatch();
        write.createBatchWriterFactory(() -> 2);
        write.commit(messages("{\"rows\": 3}", "null"));
      }
      case "a write that replaces rows, and fails" -> {
        Predicate[] some = {predicate(">", column("k"), literal(5L, DataTypes.LongType))};
        RequiresDistributionAndOrdering planned =
            (RequiresDistributionAndOrdering) write("sink", Map.of()).overwrite(some).build();
        same("the description", true, planned.description().contains("mode=OVERWRITE where=[k > 5]"));
        same("tasks", 2, planned.requiredNumPartitions());
        Expression[] clustered = ((ClusteredDistribution) planned.requiredDistribution()).clustering();
        same("clustered by", "k", clustered[0].describe());
        same("sorted by", "name DESC NULLS LAST", planned.requiredOrdering()[0].describe());
        BatchWrite write = planned.toBatch();
        write.createBatchWriterFactory(() -> 2);
        try {
          write.commit(messages("1", "2"));
          throw new AssertionError("a failure was taken for a commit");
        } catch (RuntimeException e) {
          same(e.getMessage(), true, e.getMessage().contains("no such page"));
        }
        write.abort(messages("1", null));
      }
      case "other writes, and a table that is read-only" -> {
        same("all rows", true, write("sink", Map.of()).truncate().build().description().contains("TRUNCATE"));
        write("sink", Map.of()).overwriteDynamicPartitions().build();
        try {
          write("worker", Map.of()).build();
          throw new AssertionError("a table that is read-only can be written to");
        } catch (Exception e) {
          same(e.getMessage(), true, e.getMessage().contains("read-only"));
        }
      }
      case "rows that are deleted" -> {
        Deletion deletion = new Deletion(CONTEXT, "id of sink", "sink");
        Predicate[] other = {predicate("=", column("name"), literal(UTF8String.fromString("a"), DataTypes.StringType))};
        Predicate[] some = {predicate(">", column("k"), literal(5L, DataTypes.LongType)), new AlwaysTrue()};
        deletion.plan(some);
        try {
          deletion.plan(other);
          throw new AssertionError("rows can be deleted that cannot");
        } catch (Exception e) {
          same(e.getMessage(), true, e.getMessage().contains("can_delete says no"));
        }
        deletion.delete(some);
      }
      case "tables that SQL makes" -> {
        HeadraceCatalog catalog = catalog("shop");
        Identifier table = Identifier.of(new String[] {"sales"}, "new");
        Column[] columns = {Column.create("k", DataTypes.LongType), Column.create("name", DataTypes.StringType)};
        Map<String, String> said = Map.of("provider", SQLConf.get().defaultDataSourceName());
        same("a table", "shop.sales.new", catalog.createTable(table, columns, new Transform[0], said).name());
        catalog.invalidateTable(table);
        same("dropped", true, catalog.dropTable(table));
      }
      default -> {
        return; // what only a session of Spark's asks
      }
    }
    steps.forEachRemaining(
        step ->
            same(name + ": not asked", true, step.get("operation").asText().startsWith(Words.RELEASE)));
  }

  /** Some of a stream's questions are asked by another thread. */
  private static void awaitOneMore(int step) throws InterruptedException {
    for (int i = 0; i < 1000 && asked < askedBefore + step + 1; i++) {
      Thread.sleep(10);
    }
    same("questions of the stream", askedBefore + step + 1, asked);
  }

  /** An expression that has no form in JSON. */
  private static final class Unknown implements Expression {
    @Override
    public Expression[] children() {
      return new Expression[0];
    }
  }

  private static HeadraceWriteBuilder write(String table, Map<String, String> options) {
    LogicalWriteInfo info =
        new LogicalWriteInfoImpl(
            "query 1", SCHEMA, new CaseInsensitiveStringMap(options), Optional.empty(), Optional.empty());
    return new HeadraceWriteBuilder(CONTEXT, "id of " + table, table, SCHEMA, info, new Published());
  }

  /** Of tasks; null where one has none. */
  private static WriterCommitMessage[] messages(String... texts) {
    return Arrays.stream(texts)
        .map(text -> text == null ? null : new PythonWriterCommitMessage(text.getBytes(StandardCharsets.UTF_8)))
        .toArray(WriterCommitMessage[]::new);
  }

  private static HeadraceScanBuilder builder(String table) {
    return new HeadraceScanBuilder(CONTEXT, "id of " + table, table, SCHEMA);
  }

  private static HeadraceCatalog catalog(String name) {
    HeadraceCatalog catalog = new HeadraceCatalog();
    catalog.initialize(name, CaseInsensitiveStringMap.empty());
    return catalog;
  }

  private static boolean exists(HeadraceCatalog catalog, Identifier table) {
    return catalog.tableExists(table);
  }

  private static StructType columns(String... names) {
    StructType columns = new StructType();
    for (String name : names) {
      columns = columns.add(SCHEMA.apply(name));
    }
    return columns;
  }

  private static Expression column(String name) {
    return Expressions.column(name);
  }

  private static Expression literal(Object value, DataType type) {
    return new LiteralValue<>(value, type);
  }

  private static Predicate predicate(String name, Expression... children) {
    return new Predicate(name, children);
  }

  private static List<Long> keys(InputPartition[] partitions) {
    return Arrays.stream(partitions).map(one -> ((HasPartitionKey) one).partitionKey().getLong(0)).toList();
  }

  private static List<Integer> numbers(InputPartition[] partitions) {
    return Arrays.stream(partitions).map(one -> ((HasPartitionKey) one).partitionKey().getInt(0)).toList();
  }

  private static void same(String what, Object expected, Object found) {
    if (!Objects.equals(expected, found)) {
      throw new AssertionError(what + ": expected " + expected + ", found " + found);
    }
  }
}
