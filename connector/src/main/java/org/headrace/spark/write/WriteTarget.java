package org.headrace.spark.write;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.expressions.filter.AlwaysTrue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.StructType;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;
import org.headrace.spark.scan.PredicateJson;

/** The table that is written to, or whose rows are deleted; driver JVM. {@code schema} is the table's own. */
record WriteTarget(String context, String id, String name, StructType schema) {
  /** What every question about a write or a deletion begins with. */
  ObjectNode question(ArrayNode filters) {
    ObjectNode question = Planners.JSON.createObjectNode().put(Words.TABLE, id);
    question.set(Words.FILTERS, filters);
    return question;
  }

  /** A condition of several parts, each as JSON; null for one that has no form there. */
  static ArrayNode filters(Predicate[] predicates) {
    ArrayNode filters = Planners.JSON.createArrayNode();
    for (Predicate predicate : predicates) {
      if (!(predicate instanceof AlwaysTrue)) {
        ObjectNode json = PredicateJson.of(predicate);
        filters.add(json == null ? Planners.JSON.nullNode() : json);
      }
    }
    return filters;
  }
}
