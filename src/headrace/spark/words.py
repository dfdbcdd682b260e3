"""The words of the planner's JSON, each written once; driver Python.

Java's half is ``org.headrace.spark.planner.Words``. Both are tested against ``connector/protocol/planner.json``, which
has an example of every question and answer too. What they mean is told in ``docs/protocol.md``.
"""

from __future__ import annotations

# Operations

OFFER, PLAN, RELEASE, RELEASE_PLAN, LOAD, LIST = "offer", "plan", "release", "release_plan", "load", "list"
SCHEMAS, SCHEMA, TABLE_FUNCTION, RELEASE_TABLE = "schemas", "schema", "table_function", "release_table"
ADD_TABLE, DROP_TABLE, QUERY_END, APPLICATION_END = "add_table", "drop_table", "query_end", "application_end"
RESULT_PARTITIONS, RESULT_LIMIT = "result_partitions", "result_limit"
PLAN_WRITE, BEGIN_WRITE, COMMIT_WRITE, ABORT_WRITE = "plan_write", "begin_write", "commit_write", "abort_write"
PLAN_DELETE, DELETE, CREATE_TABLE, REMOVE_TABLE = "plan_delete", "delete", "create_table", "remove_table"
REFRESH_TABLE = "refresh_table"
STREAM_INITIAL, STREAM_LATEST, STREAM_WAIT = "stream_initial", "stream_latest", "stream_wait"
STREAM_COMMIT, STREAM_BEHIND, STREAM_END = "stream_commit", "stream_behind", "stream_end"

# What is offered for a scan

FILTERS, COLUMNS, LIMIT, TOP_N, OFFSET = "filters", "columns", "limit", "top_n", "offset"
ASKED_AGGREGATION, AGGREGATION, JOIN = "asked_aggregation", "aggregation", "join"
RUNTIME_FILTERS_LEFT_OUT, SETTINGS = "runtime_filters_left_out", "settings"

# Answers to it

EXACT, INEXACT, IMPLIED, UNSUPPORTED, COMPLETE = "exact", "inexact", "implied", "unsupported", "complete"
PARTIAL = "partial"

# Why a runtime filter is left out

LONG_LIST, NO_FORM, DEEP = "long_list", "no_form", "deep"

# What becomes of the rows that a table has

APPEND, TRUNCATE, OVERWRITE, DYNAMIC = "append", "truncate", "overwrite", "dynamic"

# Fields of questions

SCAN, TABLE, OFFERS, SOURCE_FILTERS_OFF, NARROWS = "scan", "table", "offers", "source_filters_off", "narrows"
RUNTIME_FILTERS, REASON, VALUES, COLUMN = "runtime_filters", "reason", "values", "column"
FILTERS_BACK_BYTES, BROADCAST_BYTES = "filters_back_bytes", "broadcast_bytes"
WORK_AT_SOURCE, ANSI, ORDER, DESCENDING = "work_at_source", "ansi", "order", "descending"
NULLS_FIRST, GROUPS, FUNCTIONS, NAME, DISTINCT = "nulls_first", "groups", "functions", "name", "distinct"
OPERAND, HOW, LEFT, RIGHT, CONDITION, OTHER = "operand", "how", "left", "right", "condition", "other"
CATALOG, NAMESPACE, VERSION, TIMESTAMP, FUNCTION = "catalog", "namespace", "version", "timestamp", "function"
ARGS, KWARGS, EXECUTION, TABLES, ERROR, INBOX = "args", "kwargs", "execution", "tables", "error", "inbox"
FIRST, END, WRITE, MODE, QUERY, EPOCH = "first", "end", "write", "mode", "query", "epoch"
OPTIONS, MESSAGES = "options", "messages"
START, MAX_ROWS, MAX_BYTES, AVAILABLE_NOW = "start", "max_rows", "max_bytes", "available_now"

# Fields of answers

FAILURE, ANSWER, DESCRIPTION, PUSH = "failure", "answer", "description", "push"
PARTITIONS, PARTITIONING, KEYS, ORDERING, ROWS = "partitions", "partitioning", "keys", "ordering", "rows"
GROUPED, BYTES, FILTERS_COME_BACK, ADDED_COLUMNS = "grouped", "bytes", "filters_come_back", "added_columns"
RUNTIME_FILTER_COLUMNS, MOST_RUNTIME_VALUES = "runtime_filter_columns", "most_runtime_values"
ENDPOINT, WORKER, PYTHON, ARCHIVE, TASK = "endpoint", "worker", "python", "archive", "task"
EXISTS, NEAR = "exists", "near"
JOINS, HELD, LAYOUT, FILES = "joins", "held", "layout", "files"
STREAM, ADVANCES = "stream", "advances"
