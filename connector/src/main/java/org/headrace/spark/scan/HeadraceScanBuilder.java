package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;
import org.headrace.spark.Versions;
import org.headrace.spark.planner.Planners;

/**
 * Relays to Python what Spark's planner offers for one scan; driver JVM.
 *
 * <p>One method for each kind of pushdown: it tells or asks {@link Negotiation}, and says to Spark what Python answered.
 */
public final class HeadraceScanBuilder
    implements SupportsPushDownV2Filters, SupportsPushDownRequiredColumns, SupportsPushDownLimit {
  private final Negotiation negotiation;
  private final String tableName;
  private final List<Predicate> pushed = new ArrayList<>();
  private StructType columns;

  public HeadraceScanBuilder(String context, String tableId, String tableName, StructType schema) {
    this.negotiation = new Negotiation(context, tableId);
    this.tableName = tableName;
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
      boolean exact = answer.equals("exact") || answer.equals("implied");
      if (!exact) {
        left.add(predicates[i]);
      }
      if (exact || answer.equals("inexact")) {
        pushed.add(predicates[i]);
      }
    }
    return left.toArray(new Predicate[0]);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed.toArray(new Predicate[0]);
  }

  @Override
  public void pruneColumns(StructType requiredSchema) {
    columns = requiredSchema;
    negotiation.tell("columns", Planners.JSON.getNodeFactory().rawValueNode(new RawValue(columns.json())));
  }

  /** Partly pushed, the interface's default: Spark keeps its own limit, which many partitions need. */
  @Override
  public boolean pushLimit(int limit) {
    negotiation.tell("limit", Planners.JSON.getNodeFactory().numberNode(limit));
    return true;
  }

  @Override
  public Scan build() {
    ObjectNode settings = Planners.JSON.createObjectNode();
    Versions.partitioningSettings().forEach(settings::put);
    negotiation.tell("settings", settings);
    return new HeadraceScan(negotiation, tableName, columns, negotiation.plan());
  }
}
