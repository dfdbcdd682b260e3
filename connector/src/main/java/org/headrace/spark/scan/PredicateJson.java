package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Extract;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.UserDefinedScalarFunc;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;
import org.headrace.spark.planner.Planners;

/** Spark's V2 expressions as JSON for Python; driver JVM. What cannot be told faithfully is not told at all. */
final class PredicateJson {
  /** Deeper trees (a thousand ORs chained by a program) would be more than JSON and Python's stack take. */
  private static final int MAX_DEPTH = 100;

  private PredicateJson() {}

  /** The expression in JSON, or null where a part of it has no faithful form. */
  static ObjectNode of(Expression expression) {
    return of(expression, 0);
  }

  private static ObjectNode of(Expression expression, int depth) {
    if (depth > MAX_DEPTH) {
      return null;
    }
    if (expression instanceof Literal<?> literal) {
      return literal(literal);
    }
    ObjectNode node = Planners.JSON.createObjectNode();
    if (expression instanceof NamedReference reference) {
      ArrayNode path = node.putArray("column");
      for (String part : reference.fieldNames()) {
        path.add(part);
      }
      return node;
    }
    if (expression instanceof Cast cast) {
      ObjectNode operand = of(cast.expression(), depth + 1);
      node.put("cast", cast.dataType().catalogString());
      node.set("operand", operand);
      return operand == null ? null : node;
    }
    if (expression instanceof Extract extract) {
      return call(node, depth, "EXTRACT_" + extract.field(), extract.source());
    }
    if (expression instanceof UserDefinedScalarFunc function) {
      return call(node, depth, function.canonicalName(), function.children());
    }
    if (expression instanceof GeneralScalarExpression in && in.name().equals("IN") && in.children().length > 2) {
      ObjectNode compact = inList(node, depth, in.children());
      if (compact != null) {
        return compact;
      }
    }
    if (expression instanceof GeneralScalarExpression call) {
      return call(node, depth, call.name(), call.children());
    }
    return null;
  }

  /** A list of values of one type, which may be long: the type once, then the bare values. Null for other lists. */
  private static ObjectNode inList(ObjectNode node, int depth, Expression[] children) {
    ObjectNode operand = of(children[0], depth + 1);
    ArrayNode values = Planners.JSON.createArrayNode();
    String type = null;
    for (int i = 1; i < children.length; i++) {
      ObjectNode value = children[i] instanceof Literal<?> literal ? literal(literal) : null;
      if (value == null || (type != null && !type.equals(value.get("type").asText()))) {
        return null;
      }
      type = value.get("type").asText();
      values.add(value.get("literal"));
    }
    if (operand == null) {
      return null;
    }
    node.set("in", operand);
    node.put("type", type);
    node.set("values", values);
    return node;
  }

  private static ObjectNode call(ObjectNode node, int depth, String name, Expression... children) {
    node.put("call", name);
    ArrayNode args = node.putArray("args");
    for (Expression child : children) {
      ObjectNode arg = of(child, depth + 1);
      if (arg == null) {
        return null;
      }
      args.add(arg);
    }
    return node;
  }

  private static ObjectNode literal(Literal<?> literal) {
    DataType type = literal.dataType();
    Object value = literal.value();
    ObjectNode node = Planners.JSON.createObjectNode();
    if (type instanceof StringType string && !string.isUTF8BinaryCollation()) {
      return null;
    }
    node.put("type", type instanceof StringType ? "string" : type.catalogString());
    if (value == null) {
      node.putNull("literal");
    } else if (type instanceof BooleanType) {
      node.put("literal", (Boolean) value);
    } else if (type instanceof ByteType
        || type instanceof ShortType
        || type instanceof IntegerType
        || type instanceof LongType
        || type instanceof DateType
        || type instanceof TimestampType
        || type instanceof TimestampNTZType) {
      node.put("literal", ((Number) value).longValue());
    } else if (type instanceof FloatType || type instanceof DoubleType) {
      node.put("literal", Double.toString(((Number) value).doubleValue()));
    } else if (type instanceof DecimalType) {
      node.put("literal", value.toString());
    } else if (type instanceof StringType) {
      String text = value.toString();
      if (!UTF8String.fromString(text).equals(value)) {
        return null; // bytes that are no UTF-8: as a Java string they are others
      }
      node.put("literal", text);
    } else if (type instanceof BinaryType) {
      node.put("literal", Base64.getEncoder().encodeToString((byte[]) value));
    } else if (!(type instanceof NullType)) {
      return null;
    }
    return node;
  }
}
