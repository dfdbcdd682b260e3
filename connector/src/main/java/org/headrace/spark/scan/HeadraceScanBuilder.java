package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownOffset;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.headrace.spark.Versions;
import org.headrace.spark.planner.Planners;

/**
 * Relays to Python what Spark's planner offers for one scan; driver JVM.
 *
 * <p>One method for each kind of pushdown: it tells or asks {@link Negotiation}, and says to Spark what Python answered.
 */
public final class HeadraceScanBuilder
    implements SupportsPushDownV2Filters,
        SupportsPushDownAggregates,
        SupportsPushDownTopN,
        SupportsPushDownOffset,
        SupportsPushDownLimit,
        SupportsPushDownRequiredColumns,
        Versions.JoinTaker {
  private static final Map<String, String> JOIN_TYPES =
      Map.of("INNER_JOIN", "inner", "LEFT_OUTER_JOIN", "left", "RIGHT_OUTER_JOIN", "right");

  private final Negotiation negotiation;
  private final String tableName;
  private StructType schema;
  private final List<Predicate> pushed = new ArrayList<>();
  private final List<Predicate> exact = new ArrayList<>();
  private StructType columns;
  private boolean cutByPython;
  private boolean aggregated;
  private boolean limited;

  public HeadraceScanBuilder(String context, String tableId, String tableName, StructType schema) {
    this.negotiation = new Negotiation(context, tableId);
    this.tableName = tableName;
    this.schema = schema;
    this.columns = schema;
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    if (predicates.length == 0) {
      return predicates;
    }
    ArrayNode filters = Planners.JSON.createArrayNode();
    for (Predicate predicate : predicates) {
      ObjectNode json = PredicateJson.of(predicate);
      filters.add(json == null ? Planners.JSON.nullNode() : json);
    }
    JsonNode answered = negotiation.offer("filters", filters);
    List<Predicate> left = new ArrayList<>();
    for (int i = 0; i < predicates.length; i++) {
      String answer = answered.get(i).asText();
      boolean done = answer.equals("exact") || answer.equals("implied");
      (done ? exact : left).add(predicates[i]);
      if (done || answer.equals("inexact")) {
        pushed.add(predicates[i]);
      }
    }
    return left.toArray(new Predicate[0]);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed.toArray(new Predicate[0]);
  }

  /** Python is asked about all that Spark could offer, also where it must refuse: explain then says why. */
  @Override
  public boolean canJoin(Versions.JoinTaker other) {
    return other instanceof HeadraceScanBuilder builder && negotiation.isWith(builder.negotiation);
  }

  /** After a join that was taken this builder is about the joined rows, and Spark forgets the other one. */
  @Override
  public boolean pushJoin(
      Versions.JoinTaker other, String type, List<String[]> left, List<String[]> right, Predicate condition) {
    String how = JOIN_TYPES.get(type);
    if (how == null || !(other instanceof HeadraceScanBuilder builder)) {
      return false;
    }
    ObjectNode join = Planners.JSON.createObjectNode();
    join.put("how", how);
    join.set("left", Planners.JSON.valueToTree(left));
    join.set("right", Planners.JSON.valueToTree(right));
    join.set("condition", PredicateJson.of(condition));
    join.set("other", builder.negotiation.question());
    JsonNode joined = negotiation.offer("join", join).get("schema");
    if (joined.isNull()) {
      return false;
    }
    schema = (StructType) DataType.fromJson(joined.toString());
    columns = schema;
    exact.clear();
    return true;
  }

  @Override
  public void pruneColumns(StructType requiredSchema) {
    columns = requiredSchema;
    negotiation.tell("columns", Planners.JSON.getNodeFactory().rawValueNode(new RawValue(columns.json())));
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    ObjectNode json = AggregationJson.of(aggregation);
    return json != null && negotiation.offer("asked_aggregation", json).asText().equals("complete");
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    ObjectNode json = AggregationJson.of(aggregation);
    JsonNode answered = json == null ? null : negotiation.offer("aggregation", json);
    if (answered == null || answered.get("answer").asText().equals("unsupported")) {
      return false;
    }
    columns = (StructType) DataType.fromJson(answered.get("schema").toString());
    aggregated = true;
    return true;
  }

  @Override
  public boolean pushTopN(SortOrder[] orders, int limit) {
    ObjectNode topN = Planners.JSON.createObjectNode();
    topN.put("limit", limit);
    ArrayNode order = topN.putArray("order");
    for (SortOrder key : orders) {
      if (!(key.expression() instanceof NamedReference column) || column.fieldNames().length != 1) {
        return false;
      }
      ObjectNode node = order.addObject();
      node.put("column", column.fieldNames()[0]);
      node.put("descending", key.direction() == SortDirection.DESCENDING);
      node.put("nulls_first", key.nullOrdering() == NullOrdering.NULLS_FIRST);
    }
    String answer = negotiation.offer("top_n", topN).asText();
    cutByPython = answer.equals("exact");
    return !answer.equals("unsupported");
  }

  @Override
  public boolean pushOffset(int offset) {
    return negotiation.offer("offset", Planners.JSON.getNodeFactory().numberNode(offset)).asBoolean();
  }

  /** Asked after a limit and after a top-n. A mere limit is: Spark keeps its own, which many partitions need. */
  @Override
  public boolean isPartiallyPushed() {
    return !cutByPython;
  }

  @Override
  public boolean pushLimit(int limit) {
    negotiation.tell("limit", Planners.JSON.getNodeFactory().numberNode(limit));
    limited = true;
    return true;
  }

  @Override
  public Scan build() {
    boolean filtersComeBack = filtersComeBack();
    if (filtersComeBack) {
      pruneColumns(withColumnsOf(exact));
    }
    ObjectNode settings = Planners.JSON.createObjectNode();
    Versions.partitioningSettings().forEach(settings::put);
    negotiation.tell("settings", settings);
    return new HeadraceScan(negotiation, tableName, columns, negotiation.plan(), filtersComeBack);
  }

  /**
   * Whether Spark should filter again what the provider filters exactly. In a join it looks for a filter on the small
   * side, to tell the large side the keys that are left; without one it would not. Worth it for a table that is small
   * enough to be broadcast: the columns of the filters have to be read then.
   */
  private boolean filtersComeBack() {
    boolean cut = aggregated || limited || cutByPython;
    if (exact.isEmpty() || cut || !Versions.putsFiltersBack() || !areOfPlainColumns(exact)) {
      return false;
    }
    long most = SQLConf.get().autoBroadcastJoinThreshold();
    return most > 0 && negotiation.offer("is_small", Planners.JSON.getNodeFactory().numberNode(most)).asBoolean();
  }

  private static boolean areOfPlainColumns(List<Predicate> predicates) {
    return predicates.stream()
        .flatMap(predicate -> Arrays.stream(predicate.references()))
        .allMatch(reference -> reference.fieldNames().length == 1);
  }

  private StructType withColumnsOf(List<Predicate> predicates) {
    Set<String> present = new LinkedHashSet<>(Arrays.asList(columns.fieldNames()));
    StructType wider = columns;
    for (Predicate predicate : predicates) {
      for (NamedReference reference : predicate.references()) {
        String name = reference.fieldNames()[0];
        if (present.add(name)) {
          wider = wider.add(schema.apply(name));
        }
      }
    }
    return wider;
  }
}
