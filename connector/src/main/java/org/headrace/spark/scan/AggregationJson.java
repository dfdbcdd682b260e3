package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Avg;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;

/** Spark's V2 aggregations as JSON for Python; driver JVM. */
final class AggregationJson {
  private AggregationJson() {}

  /**
   * The aggregation in JSON, or null where a part of it has no faithful form. Spark has the count of rows once; a second
   * is {@code count(DISTINCT 1)} (see DistinctLiteralRule), and nothing tells which of the two.
   */
  static ObjectNode of(Aggregation aggregation) {
    if (Arrays.stream(aggregation.aggregateExpressions()).filter(CountStar.class::isInstance).count() > 1) {
      return null;
    }
    ObjectNode node = Planners.JSON.createObjectNode();
    ArrayNode groups = node.putArray(Words.GROUPS);
    for (Expression group : aggregation.groupByExpressions()) {
      ObjectNode json = PredicateJson.of(group);
      if (json == null) {
        return null;
      }
      groups.add(json);
    }
    ArrayNode functions = node.putArray(Words.FUNCTIONS);
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      ObjectNode json = of(function);
      if (json == null) {
        return null;
      }
      functions.add(json);
    }
    return node;
  }

  private static ObjectNode of(AggregateFunc function) {
    if (function instanceof CountStar) {
      return function("count", null, false);
    } else if (function instanceof Count count) {
      return function("count", count.column(), count.isDistinct());
    } else if (function instanceof Min min) {
      return function("min", min.column(), false);
    } else if (function instanceof Max max) {
      return function("max", max.column(), false);
    } else if (function instanceof Sum sum) {
      return function("sum", sum.column(), sum.isDistinct());
    } else if (function instanceof Avg avg) {
      return function("avg", avg.column(), avg.isDistinct());
    }
    return null;
  }

  private static ObjectNode function(String name, Expression operand, boolean distinct) {
    ObjectNode node = Planners.JSON.createObjectNode();
    node.put(Words.NAME, name);
    node.put(Words.DISTINCT, distinct);
    if (operand == null) {
      node.putNull(Words.OPERAND);
      return node;
    }
    ObjectNode json = PredicateJson.of(operand);
    node.set(Words.OPERAND, json);
    return json == null ? null : node;
  }
}
