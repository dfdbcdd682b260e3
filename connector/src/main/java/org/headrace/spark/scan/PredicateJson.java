package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import java.util.function.IntFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Extract;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.UserDefinedScalarFunc;
import org.apache.spark.sql.types.ArrayType;
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
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;
import org.headrace.spark.planner.Planners;

/** Spark's V2 expressions as JSON for Python; driver JVM. What cannot be told faithfully is not told at all. */
public final class PredicateJson {
  /** Deeper trees (a thousand ORs chained by a program) would be more than JSON and Python's stack take. */
  private static final int MAX_DEPTH = 100;

  private PredicateJson() {}

  /** The expression in JSON, or null where a part of it has no faithful form. */
  public static ObjectNode of(Expression expression) {
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
    JsonNode value = value(literal.value(), type);
    if (value == null) {
      return null;
    }
    ObjectNode node = Planners.JSON.createObjectNode();
    boolean nested = type instanceof ArrayType || type instanceof StructType;
    node.put("type", type instanceof StringType ? "string" : nested ? type.json() : type.catalogString());
    node.set("literal", value);
    return node;
  }

  /** A value of Spark's in JSON, or null where it has no faithful form; arrays and structs as lists. */
  private static JsonNode value(Object value, DataType type) {
    JsonNodeFactory json = Planners.JSON.getNodeFactory();
    if (type instanceof StringType string && !string.isUTF8BinaryCollation()) {
      return null;
    }
    if (value == null) {
      return json.nullNode();
    }
    if (type instanceof BooleanType) {
      return json.booleanNode((Boolean) value);
    }
    if (type instanceof ByteType
        || type instanceof ShortType
        || type instanceof IntegerType
        || type instanceof LongType
        || type instanceof DateType
        || type instanceof TimestampType
        || type instanceof TimestampNTZType) {
      return json.numberNode(((Number) value).longValue());
    }
    if (type instanceof FloatType || type instanceof DoubleType) {
      return json.textNode(Double.toString(((Number) value).doubleValue()));
    }
    if (type instanceof DecimalType) {
      return json.textNode(value.toString());
    }
    if (type instanceof StringType) {
      String text = value.toString();
      // Bytes that are no UTF-8 would be others as a Java string.
      return UTF8String.fromString(text).equals(value) ? json.textNode(text) : null;
    }
    if (type instanceof BinaryType) {
      return json.textNode(Base64.getEncoder().encodeToString((byte[]) value));
    }
    if (type instanceof ArrayType array && value instanceof ArrayData data) {
      DataType element = array.elementType();
      return values(data.numElements(), i -> data.isNullAt(i) ? null : data.get(i, element), i -> element);
    }
    if (type instanceof StructType struct && value instanceof InternalRow row) {
      IntFunction<DataType> field = i -> struct.fields()[i].dataType();
      return values(row.numFields(), i -> row.isNullAt(i) ? null : row.get(i, field.apply(i)), field);
    }
    return null;
  }

  private static ArrayNode values(int count, IntFunction<Object> value, IntFunction<DataType> type) {
    ArrayNode values = Planners.JSON.createArrayNode();
    for (int i = 0; i < count; i++) {
      JsonNode one = value(value.apply(i), type.apply(i));
      if (one == null) {
        return null;
      }
      values.add(one);
    }
    return values;
  }
}
