package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.util.Base64;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
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
import org.headrace.spark.HeadraceException;

/** Partition keys as Spark's internal rows, from Python's JSON; driver JVM. */
final class PartitionKeys {
  private PartitionKeys() {}

  /** A partition's key: the values of its columns for a key partitioning, numbers for a hash partitioning. */
  static InternalRow row(JsonNode partitioning, int partition, StructType schema) {
    JsonNode columns = partitioning.get("columns");
    JsonNode key = partitioning.get("keys").get(partition);
    boolean identity = partitioning.get("kind").asText().equals("key");
    Object[] values = new Object[columns.size()];
    for (int i = 0; i < values.length; i++) {
      values[i] =
          identity ? value(key.get(i), schema.apply(columns.get(i).asText()).dataType()) : key.get(i).asInt();
    }
    return new GenericInternalRow(values);
  }

  /** A column name as Spark's expression parser takes it. */
  static String quoted(String column) {
    return "`" + column.replace("`", "``") + "`";
  }

  private static Object value(JsonNode json, DataType type) {
    if (json.isNull()) {
      return null;
    }
    if (type instanceof BooleanType) {
      return json.asBoolean();
    } else if (type instanceof ByteType) {
      return (byte) json.asInt();
    } else if (type instanceof ShortType) {
      return (short) json.asInt();
    } else if (type instanceof IntegerType || type instanceof DateType) {
      return json.asInt();
    } else if (type instanceof LongType
        || type instanceof TimestampType
        || type instanceof TimestampNTZType
        || type instanceof DayTimeIntervalType) {
      return json.asLong();
    } else if (type instanceof FloatType) {
      return Float.parseFloat(json.asText());
    } else if (type instanceof DoubleType) {
      return Double.parseDouble(json.asText());
    } else if (type instanceof DecimalType decimal) {
      return Decimal.apply(new BigDecimal(json.asText()), decimal.precision(), decimal.scale());
    } else if (type instanceof StringType) {
      return UTF8String.fromString(json.asText());
    } else if (type instanceof BinaryType) {
      return Base64.getDecoder().decode(json.asText());
    }
    throw new HeadraceException("a partition key cannot have the type " + type.catalogString(), null);
  }
}
