package org.headrace.spark.scan;

import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The name of a provider's hash function, for Spark to compare; driver JVM.
 *
 * <p>Spark never evaluates it: it only needs to know whether two tables were partitioned by the same function, into
 * as many partitions, over columns of the same type.
 */
public final class HashFunction implements UnboundFunction {
  private static final long serialVersionUID = 1L;
  public static final String PREFIX = "headrace_hash/";
  private final String name;

  public HashFunction(String name) {
    this.name = name;
  }

  /** The transform's name for one column of a hash partitioning. */
  static String nameOf(String function, int partitions, int column, int columns) {
    return PREFIX + function + "/" + partitions + "/" + column + "of" + columns;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String description() {
    return name;
  }

  @Override
  public BoundFunction bind(StructType inputType) {
    DataType type = inputType.fields()[0].dataType();
    String canonicalName = name + "/" + type.json();
    return new BoundFunction() {
      @Override
      public String name() {
        return name;
      }

      @Override
      public DataType[] inputTypes() {
        return new DataType[] {type};
      }

      @Override
      public DataType resultType() {
        return DataTypes.IntegerType;
      }

      @Override
      public String canonicalName() {
        return canonicalName;
      }
    };
  }
}
