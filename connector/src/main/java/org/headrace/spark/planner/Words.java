package org.headrace.spark.planner;

/**
 * The words of the planner's JSON, each written once; driver JVM.
 *
 * <p>Python's half is {@code headrace/spark/words.py}. Both are tested against {@code connector/protocol/planner.json}. What
 * they mean is told in {@code docs/protocol.md}.
 */
public final class Words {
  private Words() {}

  // Operations
  public static final String OFFER = "offer";
  public static final String PLAN = "plan";
  public static final String RELEASE = "release";
  public static final String RELEASE_PLAN = "release_plan";
  public static final String LOAD = "load";
  public static final String LIST = "list";
  public static final String SCHEMAS = "schemas";
  public static final String SCHEMA = "schema";
  public static final String TABLE_FUNCTION = "table_function";
  public static final String RELEASE_TABLE = "release_table";
  public static final String ADD_TABLE = "add_table";
  public static final String DROP_TABLE = "drop_table";
  public static final String QUERY_END = "query_end";
  public static final String APPLICATION_END = "application_end";
  public static final String RESULT_PARTITIONS = "result_partitions";
  public static final String RESULT_LIMIT = "result_limit";

  // What is offered for a scan
  public static final String FILTERS = "filters";
  public static final String COLUMNS = "columns";
  public static final String LIMIT = "limit";
  public static final String TOP_N = "top_n";
  public static final String OFFSET = "offset";
  public static final String ASKED_AGGREGATION = "asked_aggregation";
  public static final String AGGREGATION = "aggregation";
  public static final String JOIN = "join";
  public static final String RUNTIME_FILTERS_LEFT_OUT = "runtime_filters_left_out";
  public static final String SETTINGS = "settings";

  // Answers to it
  public static final String EXACT = "exact";
  public static final String INEXACT = "inexact";
  public static final String IMPLIED = "implied";
  public static final String UNSUPPORTED = "unsupported";
  public static final String COMPLETE = "complete";
  public static final String PARTIAL = "partial";

  // Why a runtime filter is left out
  public static final String LONG_LIST = "long_list";
  public static final String NO_FORM = "no_form";
  public static final String DEEP = "deep";

  // Fields of questions
  public static final String SCAN = "scan";
  public static final String TABLE = "table";
  public static final String OFFERS = "offers";
  public static final String SOURCE_FILTERS_OFF = "source_filters_off";
  public static final String NARROWS = "narrows";
  public static final String RUNTIME_FILTERS = "runtime_filters";
  public static final String REASON = "reason";
  public static final String VALUES = "values";
  public static final String COLUMN = "column";
  public static final String FILTERS_BACK_BYTES = "filters_back_bytes";
  public static final String ORDER = "order";
  public static final String DESCENDING = "descending";
  public static final String NULLS_FIRST = "nulls_first";
  public static final String GROUPS = "groups";
  public static final String FUNCTIONS = "functions";
  public static final String NAME = "name";
  public static final String DISTINCT = "distinct";
  public static final String OPERAND = "operand";
  public static final String HOW = "how";
  public static final String LEFT = "left";
  public static final String RIGHT = "right";
  public static final String CONDITION = "condition";
  public static final String OTHER = "other";
  public static final String CATALOG = "catalog";
  public static final String NAMESPACE = "namespace";
  public static final String VERSION = "version";
  public static final String TIMESTAMP = "timestamp";
  public static final String FUNCTION = "function";
  public static final String ARGS = "args";
  public static final String KWARGS = "kwargs";
  public static final String EXECUTION = "execution";
  public static final String TABLES = "tables";
  public static final String ERROR = "error";
  public static final String INBOX = "inbox";
  public static final String FIRST = "first";
  public static final String END = "end";

  // Fields of answers
  public static final String FAILURE = "failure";
  public static final String ANSWER = "answer";
  public static final String DESCRIPTION = "description";
  public static final String STREAMING = "streaming";
  public static final String PARTITIONS = "partitions";
  public static final String PARTITIONING = "partitioning";
  public static final String KEYS = "keys";
  public static final String ORDERING = "ordering";
  public static final String ROWS = "rows";
  public static final String BYTES = "bytes";
  public static final String FILTERS_COME_BACK = "filters_come_back";
  public static final String ADDED_COLUMNS = "added_columns";
  public static final String RUNTIME_FILTER_COLUMNS = "runtime_filter_columns";
  public static final String MOST_RUNTIME_VALUES = "most_runtime_values";
  public static final String ENDPOINT = "endpoint";
  public static final String WORKER = "worker";
  public static final String PYTHON = "python";
  public static final String ARCHIVE = "archive";
  public static final String TASK = "task";
  public static final String EXISTS = "exists";
  public static final String JOINS = "joins";
  public static final String HELD = "held";
}
