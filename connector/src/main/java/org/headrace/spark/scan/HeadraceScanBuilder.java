package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
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
import org.headrace.spark.planner.Words;

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
  /** Whether Headrace may do in Arrow what a provider leaves undone. */
  private static final String WORK_AT_SOURCE = "spark.headrace.workAtSource";

  private static final Map<String, String> JOIN_TYPES =
      Map.of("INNER_JOIN", "inner", "LEFT_OUTER_JOIN", "left", "RIGHT_OUTER_JOIN", "right");

  private final Negotiation negotiation;
  private final String tableName;
  private final StreamOpener streams;
  private final boolean isOfRanges;
  private StructType schema;
  private final List<Predicate> pushed = new ArrayList<>();
  private StructType columns;
  private boolean cutByPython;
  private boolean isPartial;

  public HeadraceScanBuilder(String context, String tableId, String tableName, StructType schema) {
    this(context, tableId, tableName, schema, null);
  }

  /** {@code streams}: for a table that grows, how it is read as a stream; null for others. */
  public HeadraceScanBuilder(
      String context, String tableId, String tableName, StructType schema, StreamOpener streams) {
    this(context, tableId, tableName, schema, streams, false);
  }

  /** {@code isOfRanges}: whether this is known to be for ranges of a stream, and for no batch. */
  HeadraceScanBuilder(
      String context,
      String tableId,
      String tableName,
      StructType schema,
      StreamOpener streams,
      boolean isOfRanges) {
    this.streams = streams;
    this.isOfRanges = isOfRanges;
    this.negotiation = new Negotiation(context, tableId);
    this.tableName = tableName;
    this.schema = schema;
    this.columns = schema;
    negotiation.tell(Words.SETTINGS, settings(isOfRanges));
  }

  /**
   * What the session says, which Python has to know before it answers the first offer. No join learns from the filters of
   * a stream, whose columns are known before its plans.
   */
  private static ObjectNode settings(boolean isOfRanges) {
    ObjectNode settings = Planners.JSON.createObjectNode();
    Versions.partitioningSettings().forEach(settings::put);
    long most = isOfRanges ? 0 : SQLConf.get().autoBroadcastJoinThreshold();
    settings.put(Words.FILTERS_BACK_BYTES, Versions.putsFiltersBack() ? most : 0);
    settings.put(Words.BROADCAST_BYTES, most);
    settings.put(Words.WORK_AT_SOURCE, Boolean.parseBoolean(SQLConf.get().getConfString(WORK_AT_SOURCE, "true")));
    return settings.put(Words.ANSI, SQLConf.get().ansiEnabled());
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
    JsonNode answered = negotiation.offer(Words.FILTERS, filters);
    List<Predicate> left = new ArrayList<>();
    for (int i = 0; i < predicates.length; i++) {
      String answer = answered.get(i).asText();
      if (!answer.equals(Words.EXACT) && !answer.equals(Words.IMPLIED)) {
        left.add(predicates[i]);
      }
      if (!answer.equals(Words.UNSUPPORTED)) {
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
    join.put(Words.HOW, how);
    join.set(Words.LEFT, Planners.JSON.valueToTree(left));
    join.set(Words.RIGHT, Planners.JSON.valueToTree(right));
    join.set(Words.CONDITION, PredicateJson.of(condition));
    join.set(Words.OTHER, builder.negotiation.question());
    JsonNode joined = negotiation.offer(Words.JOIN, join).get(Words.SCHEMA);
    if (joined.isNull()) {
      return false;
    }
    schema = (StructType) DataType.fromJson(joined.toString());
    columns = schema;
    return true;
  }

  @Override
  public void pruneColumns(StructType requiredSchema) {
    columns = requiredSchema;
    negotiation.tell(Words.COLUMNS, Planners.JSON.getNodeFactory().rawValueNode(new RawValue(columns.json())));
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    ObjectNode json = AggregationJson.of(aggregation);
    return json != null && negotiation.offer(Words.ASKED_AGGREGATION, json).asText().equals(Words.COMPLETE);
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    ObjectNode json = AggregationJson.of(aggregation);
    JsonNode answered = json == null ? null : negotiation.offer(Words.AGGREGATION, json);
    if (answered == null || answered.get(Words.ANSWER).asText().equals(Words.UNSUPPORTED)) {
      return false;
    }
    columns = (StructType) DataType.fromJson(answered.get(Words.SCHEMA).toString());
    isPartial = !answered.get(Words.ANSWER).asText().equals(Words.COMPLETE);
    return true;
  }

  @Override
  public boolean pushTopN(SortOrder[] orders, int limit) {
    ObjectNode topN = Planners.JSON.createObjectNode();
    topN.put(Words.LIMIT, limit);
    ArrayNode order = topN.putArray(Words.ORDER);
    for (SortOrder key : orders) {
      if (!(key.expression() instanceof NamedReference column) || column.fieldNames().length != 1) {
        return false;
      }
      ObjectNode node = order.addObject();
      node.put(Words.COLUMN, column.fieldNames()[0]);
      node.put(Words.DESCENDING, key.direction() == SortDirection.DESCENDING);
      node.put(Words.NULLS_FIRST, key.nullOrdering() == NullOrdering.NULLS_FIRST);
    }
    String answer = negotiation.offer(Words.TOP_N, topN).asText();
    cutByPython = answer.equals(Words.EXACT);
    return !answer.equals(Words.UNSUPPORTED);
  }

  @Override
  public boolean pushOffset(int offset) {
    return negotiation.offer(Words.OFFSET, Planners.JSON.getNodeFactory().numberNode(offset)).asBoolean();
  }

  /** Asked after a limit and after a top-n. A mere limit is: Spark keeps its own, which many partitions need. */
  @Override
  public boolean isPartiallyPushed() {
    return !cutByPython;
  }

  @Override
  public boolean pushLimit(int limit) {
    negotiation.tell(Words.LIMIT, Planners.JSON.getNodeFactory().numberNode(limit));
    return true;
  }

  /**
   * Spark opens a stream without a question, and says afterwards what the scan is for. So does a batch that has nothing to
   * ask: nothing is lost where it is planned later. One with filters is planned here, as they may add columns.
   */
  @Override
  public Scan build() {
    if (isOfRanges || (streams != null && !negotiation.hasBegun())) {
      return new HeadraceScan(negotiation, tableName, columns, streams);
    }
    JsonNode plan = negotiation.plan();
    for (JsonNode added : plan.get(Words.ADDED_COLUMNS)) {
      columns = columns.add(schema.apply(added.asText()));
    }
    HeadraceScan scan = new HeadraceScan(negotiation, tableName, columns, plan);
    return isPartial ? scan.asPartial() : scan;
  }
}
