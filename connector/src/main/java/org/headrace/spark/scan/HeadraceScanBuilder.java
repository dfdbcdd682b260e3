package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
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

/** Collects what Spark's planner offers for one scan and relays it to Python; driver JVM. */
public final class HeadraceScanBuilder
    implements SupportsPushDownV2Filters, SupportsPushDownRequiredColumns, SupportsPushDownLimit {
  private final String context;
  private final String tableId;
  private final String tableName;
  private final ArrayNode filters = Planners.JSON.createArrayNode();
  private final ArrayNode answers = Planners.JSON.createArrayNode();
  private final List<Predicate> pushed = new ArrayList<>();
  private StructType columns;
  private Integer limit;

  public HeadraceScanBuilder(String context, String tableId, String tableName, StructType schema) {
    this.context = context;
    this.tableId = tableId;
    this.tableName = tableName;
    this.columns = schema;
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    if (predicates.length == 0) {
      return predicates;
    }
    for (Predicate predicate : predicates) {
      ObjectNode json = PredicateJson.of(predicate);
      filters.add(json == null ? Planners.JSON.nullNode() : json);
    }
    ObjectNode question = Planners.JSON.createObjectNode();
    question.put("table", tableId);
    question.set("filters", filters);
    JsonNode answered = Planners.ask(context, "filters", question).get("answers");
    List<Predicate> left = new ArrayList<>();
    for (int i = 0; i < predicates.length; i++) {
      String answer = answered.get(i).asText();
      answers.add(answer);
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
  }

  /** Partly pushed, the interface's default: Spark keeps its own limit, which many partitions need. */
  @Override
  public boolean pushLimit(int limit) {
    this.limit = limit;
    return true;
  }

  @Override
  public Scan build() {
    ObjectNode question = Planners.JSON.createObjectNode();
    question.put("table", tableId);
    question.set("filters", filters);
    question.set("answers", answers);
    question.put("limit", limit);
    ObjectNode settings = question.putObject("settings");
    Versions.partitioningSettings().forEach(settings::put);
    question.putRawValue("columns", new com.fasterxml.jackson.databind.util.RawValue(columns.json()));
    JsonNode answer = Planners.ask(context, "scan", question);
    return new HeadraceScan(context, tableName, columns, answer);
  }
}
