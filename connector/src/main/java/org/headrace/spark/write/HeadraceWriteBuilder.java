package org.headrace.spark.write;

import com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;

/** Relays to Python what a statement does to the rows that its table has; driver JVM. Python refuses what it cannot do. */
public final class HeadraceWriteBuilder implements WriteBuilder, SupportsOverwriteV2, SupportsDynamicOverwrite {
  private final WriteTarget target;
  private final LogicalWriteInfo info;
  private final Published published;
  private String mode = Words.APPEND;
  private ArrayNode filters = Planners.JSON.createArrayNode();

  /** {@code published} is told of what is committed. */
  public HeadraceWriteBuilder(
      String context, String tableId, String tableName, StructType schema, LogicalWriteInfo info, Published published) {
    this.target = new WriteTarget(context, tableId, tableName, schema);
    this.info = info;
    this.published = published;
  }

  @Override
  public WriteBuilder truncate() {
    mode = Words.TRUNCATE;
    return this;
  }

  /** Python is asked when the write is built: it says by name what it cannot replace. */
  @Override
  public boolean canOverwrite(Predicate[] predicates) {
    return true;
  }

  @Override
  public WriteBuilder overwrite(Predicate[] predicates) {
    mode = Words.OVERWRITE;
    filters = WriteTarget.filters(predicates);
    return this;
  }

  @Override
  public WriteBuilder overwriteDynamicPartitions() {
    mode = Words.DYNAMIC;
    return this;
  }

  @Override
  public Write build() {
    return new HeadraceWrite(target, mode, filters, info, published);
  }
}
