package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.Transform;
import org.headrace.spark.planner.Words;

/** Columns and sort keys that Python names, in Spark's terms; driver JVM. */
public final class SortKeys {
  private SortKeys() {}

  public static NamedReference column(String name) {
    return Expressions.column(PartitionKeys.quoted(name));
  }

  /** Each column's values as they are, of the names of columns that Python answered with. */
  public static Transform[] identities(JsonNode columns) {
    List<Transform> transforms = new ArrayList<>();
    columns.forEach(column -> transforms.add(Expressions.identity(PartitionKeys.quoted(column.asText()))));
    return transforms.toArray(new Transform[0]);
  }

  public static SortOrder[] of(JsonNode keys) {
    List<SortOrder> order = new ArrayList<>();
    for (JsonNode key : keys) {
      order.add(
          Expressions.sort(
              column(key.get(Words.COLUMN).asText()),
              key.get(Words.DESCENDING).asBoolean() ? SortDirection.DESCENDING : SortDirection.ASCENDING,
              key.get(Words.NULLS_FIRST).asBoolean() ? NullOrdering.NULLS_FIRST : NullOrdering.NULLS_LAST));
    }
    return order.toArray(new SortOrder[0]);
  }
}
