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

# What is offered for a scan

FILTERS, COLUMNS, LIMIT, TOP_N, OFFSET = "filters", "columns", "limit", "top_n", "offset"
ASKED_AGGREGATION, AGGREGATION, JOIN = "asked_aggregation", "aggregation", "join"
RUNTIME_FILTERS_LEFT_OUT, SETTINGS = "runtime_filters_left_out", "settings"

# Answers to it

EXACT, INEXACT, IMPLIED, UNSUPPORTED, COMPLETE = "exact", "inexact", "implied", "unsupported", "complete"
PARTIAL = "partial"

# Why a runtime filter is left out

LONG_LIST, NO_FORM, DEEP = "long_list", "no_form", "deep"

# Fields of questions

SCAN, TABLE, OFFERS, SOURCE_FILTERS_OFF, NARROWS = "scan", "table", "offers", "source_filters_off", "narrows"
RUNTIME_FILTERS, REASON, VALUES, COLUMN = "runtime_filters", "reason", "values", "column"
FILTERS_BACK_BYTES, ORDER, DESCENDING = "filters_back_bytes", "order", "descending"
NULLS_FIRST, GROUPS, FUNCTIONS, NAME, DISTINCT = "nulls_first", "groups", "functions", "name", "distinct"
OPERAND, HOW, LEFT, RIGHT, CONDITION, OTHER = "operand", "how", "left", "right", "condition", "other"
CATALOG, NAMESPACE, VERSION, TIMESTAMP, FUNCTION = "catalog", "namespace", "version", "timestamp", "function"
ARGS, KWARGS, EXECUTION, TABLES, ERROR, INBOX = "args", "kwargs", "execution", "tables", "error", "inbox"
FIRST, END = "first", "end"

# Fields of answers

FAILURE, ANSWER, DESCRIPTION, PUSH = "failure", "answer", "description", "push"
PARTITIONS, PARTITIONING, KEYS, ORDERING, ROWS = "partitions", "partitioning", "keys", "ordering", "rows"
BYTES, FILTERS_COME_BACK, ADDED_COLUMNS = "bytes", "filters_come_back", "added_columns"
RUNTIME_FILTER_COLUMNS, MOST_RUNTIME_VALUES = "runtime_filter_columns", "most_runtime_values"
ENDPOINT, WORKER, PYTHON, ARCHIVE, TASK, EXISTS = "endpoint", "worker", "python", "archive", "task", "exists"
JOINS, HELD = "joins", "held"
