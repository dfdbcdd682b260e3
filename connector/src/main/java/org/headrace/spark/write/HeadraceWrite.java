package org.headrace.spark.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.headrace.spark.HeadraceMetric;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;
import org.headrace.spark.scan.SortKeys;
import org.headrace.spark.send.RowBatch;

/** One write that Python has agreed to, and how its rows should come; driver JVM, made while Spark plans. */
public final class HeadraceWrite implements RequiresDistributionAndOrdering {
  private final WriteTarget target;
  private final String mode;
  private final ArrayNode filters;
  private final LogicalWriteInfo info;
  private final Published published;
  private final JsonNode plan;

  HeadraceWrite(WriteTarget target, String mode, ArrayNode filters, LogicalWriteInfo info, Published published) {
    this.target = target;
    this.mode = mode;
    this.filters = filters;
    this.info = info;
    this.published = published;
    ObjectNode question = question();
    question.set(Words.SCHEMA, Planners.JSON.getNodeFactory().rawValueNode(new RawValue(info.schema().json())));
    this.plan = Planners.interruptible(() -> Planners.ask(target.context(), Words.PLAN_WRITE, question));
  }

  private ObjectNode question() {
    return target.question(filters).put(Words.MODE, mode);
  }

  @Override
  public String description() {
    return plan.get(Words.DESCRIPTION).asText();
  }

  /** Spark shows it in EXPLAIN. */
  @Override
  public String toString() {
    return description();
  }

  @Override
  public BatchWrite toBatch() {
    return new HeadraceBatchWrite(running());
  }

  @Override
  public StreamingWrite toStreaming() {
    return new HeadraceStreamingWrite(running());
  }

  private RunningWrite running() {
    ObjectNode question = question().put(Words.QUERY, info.queryId());
    question.set(Words.OPTIONS, Planners.JSON.valueToTree(new HashMap<>(info.options())));
    return new RunningWrite(target, question, published);
  }

  /** Whether its tasks can be given columns: all are of flat types. */
  boolean takesColumns() {
    return RowBatch.takesColumns(HeadraceDataWriter.arrowSchema(target.schema()));
  }

  @Override
  public Distribution requiredDistribution() {
    List<Expression> columns = new ArrayList<>();
    plan.get(Words.LAYOUT).path(Words.COLUMNS).forEach(column -> columns.add(SortKeys.column(column.asText())));
    return columns.isEmpty() ? Distributions.unspecified() : Distributions.clustered(columns.toArray(new Expression[0]));
  }

  @Override
  public int requiredNumPartitions() {
    return plan.get(Words.LAYOUT).path(Words.PARTITIONS).asInt(0);
  }

  /** Or a plan could take rows of one key in two tasks, where Spark found them skewed. */
  @Override
  public boolean distributionStrictlyRequired() {
    return true;
  }

  @Override
  public SortOrder[] requiredOrdering() {
    return SortKeys.of(plan.get(Words.LAYOUT).path(Words.ORDERING));
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return HeadraceMetric.ofWrites();
  }

  /** Asked when the statement is over. */
  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return published.metrics();
  }
}
