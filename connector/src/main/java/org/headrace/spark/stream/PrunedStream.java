package org.headrace.spark.stream;

import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.headrace.spark.scan.HeadraceScan;

/**
 * A stream with the columns and filters of a query, kept for the query's next batches; driver JVM.
 *
 * <p>{@code left} are the filters that Spark still has to apply.
 */
record PrunedStream(
    List<Expression> filters, Set<String> columns, HeadraceScan scan, HeadraceStream stream, List<Expression> left) {
  boolean isFor(List<Expression> otherFilters, Set<String> otherColumns) {
    return filters.equals(otherFilters) && columns.equals(otherColumns);
  }
}
