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
  public static final String OFFER = "offer", PLAN = "plan", RELEASE = "release", RELEASE_PLAN = "release_plan";
  public static final String LOAD = "load", LIST = "list", SCHEMAS = "schemas", SCHEMA = "schema";
  public static final String TABLE_FUNCTION = "table_function", RELEASE_TABLE = "release_table";
  public static final String ADD_TABLE = "add_table", DROP_TABLE = "drop_table", QUERY_END = "query_end";
  public static final String APPLICATION_END = "application_end", RESULT_PARTITIONS = "result_partitions";
  public static final String RESULT_LIMIT = "result_limit", PLAN_WRITE = "plan_write", BEGIN_WRITE = "begin_write";
  public static final String COMMIT_WRITE = "commit_write", ABORT_WRITE = "abort_write";
  public static final String PLAN_DELETE = "plan_delete", DELETE = "delete", CREATE_TABLE = "create_table";
  public static final String REMOVE_TABLE = "remove_table", REFRESH_TABLE = "refresh_table";
  public static final String STREAM_INITIAL = "stream_initial", STREAM_LATEST = "stream_latest";
  public static final String STREAM_WAIT = "stream_wait", STREAM_COMMIT = "stream_commit";
  public static final String STREAM_BEHIND = "stream_behind", STREAM_END = "stream_end";

  // What is offered for a scan
  public static final String FILTERS = "filters", COLUMNS = "columns", LIMIT = "limit", TOP_N = "top_n";
  public static final String OFFSET = "offset", ASKED_AGGREGATION = "asked_aggregation", AGGREGATION = "aggregation";
  public static final String JOIN = "join", RUNTIME_FILTERS_LEFT_OUT = "runtime_filters_left_out";
  public static final String SETTINGS = "settings";

  // Answers to it
  public static final String EXACT = "exact", INEXACT = "inexact", IMPLIED = "implied", UNSUPPORTED = "unsupported";
  public static final String COMPLETE = "complete", PARTIAL = "partial";

  // Why a runtime filter is left out
  public static final String LONG_LIST = "long_list", NO_FORM = "no_form", DEEP = "deep";

  // What becomes of the rows that a table has
  public static final String APPEND = "append", TRUNCATE = "truncate", OVERWRITE = "overwrite", DYNAMIC = "dynamic";

  // Fields of questions
  public static final String SCAN = "scan", TABLE = "table", OFFERS = "offers";
  public static final String SOURCE_FILTERS_OFF = "source_filters_off", NARROWS = "narrows";
  public static final String RUNTIME_FILTERS = "runtime_filters", REASON = "reason", VALUES = "values";
  public static final String COLUMN = "column", FILTERS_BACK_BYTES = "filters_back_bytes", ORDER = "order";
  public static final String BROADCAST_BYTES = "broadcast_bytes", WORK_AT_SOURCE = "work_at_source", ANSI = "ansi";
  public static final String DESCENDING = "descending", NULLS_FIRST = "nulls_first", GROUPS = "groups";
  public static final String FUNCTIONS = "functions", NAME = "name", DISTINCT = "distinct", OPERAND = "operand";
  public static final String HOW = "how", LEFT = "left", RIGHT = "right", CONDITION = "condition", OTHER = "other";
  public static final String CATALOG = "catalog", NAMESPACE = "namespace", VERSION = "version";
  public static final String TIMESTAMP = "timestamp", FUNCTION = "function", ARGS = "args", KWARGS = "kwargs";
  public static final String EXECUTION = "execution", TABLES = "tables", ERROR = "error", INBOX = "inbox";
  public static final String FIRST = "first", END = "end", WRITE = "write", MODE = "mode", QUERY = "query";
  public static final String EPOCH = "epoch", OPTIONS = "options", MESSAGES = "messages";
  public static final String START = "start", MAX_ROWS = "max_rows", MAX_BYTES = "max_bytes";
  public static final String AVAILABLE_NOW = "available_now";

  // Fields of answers
  public static final String FAILURE = "failure", ANSWER = "answer", DESCRIPTION = "description";
  public static final String PUSH = "push", PARTITIONS = "partitions", PARTITIONING = "partitioning";
  public static final String KEYS = "keys", ORDERING = "ordering", GROUPED = "grouped", ROWS = "rows", BYTES = "bytes";
  public static final String FILTERS_COME_BACK = "filters_come_back", ADDED_COLUMNS = "added_columns";
  public static final String RUNTIME_FILTER_COLUMNS = "runtime_filter_columns";
  public static final String MOST_RUNTIME_VALUES = "most_runtime_values", ENDPOINT = "endpoint", WORKER = "worker";
  public static final String PYTHON = "python", ARCHIVE = "archive", TASK = "task", EXISTS = "exists", NEAR = "near";
  public static final String JOINS = "joins", HELD = "held", LAYOUT = "layout", FILES = "files";
  public static final String STREAM = "stream", ADVANCES = "advances";
}
