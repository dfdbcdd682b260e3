package org.headrace.spark.scan;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.apache.spark.sql.connector.read.InputPartition;
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
  private static int asked;

  private PlannerJsonCheck() {}

  public static void main(String[] args) throws Exception {
    JsonNode golden = Planners.JSON.readTree(Files.readString(Path.of(args[0])));
    checkWords(golden.get("words"));
    SQLConf.get().setConfString("spark.sql.autoBroadcastJoinThreshold", "0");
    Planners.register(CONTEXT, PlannerJsonCheck::answer);
    Catalogs.claim("headrace", CONTEXT);
    Catalogs.claim("shop", CONTEXT);
    for (JsonNode conversation : golden.get("conversations")) {
      steps = conversation.get("steps").iterator();
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
    copy.remove(Words.SCAN);
    JsonNode offers = copy.path(Words.OFFERS);
    if (offers.has(Words.SETTINGS)) {
      ObjectNode settings = (ObjectNode) offers.get(Words.SETTINGS);
      settings.fieldNames().forEachRemaining(name -> settings.putNull(name));
    }
    if (offers.has(Words.JOIN)) {
      ((ObjectNode) offers.get(Words.JOIN).get(Words.OTHER)).remove(Words.SCAN);
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
        same("tables", 4, catalog.listTables(new String[0]).length);
        same("namespaces", 0, catalog.listNamespaces().length);
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
      default -> {
        return; // what only a session of Spark's asks
      }
    }
    steps.forEachRemaining(
        step ->
            same(name + ": not asked", true, step.get("operation").asText().startsWith(Words.RELEASE)));
  }

  /** An expression that has no form in JSON. */
  private static final class Unknown implements Expression {
    @Override
    public Expression[] children() {
      return new Expression[0];
    }
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
