"""The words of the planner's JSON, each written once; driver Python.

Java's half is ``org.headrace.spark.planner.Words``. Both are tested against ``connector/protocol/planner.json``, which
has an example of every question and answer too. What they mean is told in ``docs/protocol.md``.
"""

from __future__ import annotations

# Operations

OFFER = "offer"
PLAN = "plan"
RELEASE = "release"
RELEASE_PLAN = "release_plan"
LOAD = "load"
LIST = "list"
SCHEMAS = "schemas"
SCHEMA = "schema"
TABLE_FUNCTION = "table_function"
RELEASE_TABLE = "release_table"
ADD_TABLE = "add_table"
DROP_TABLE = "drop_table"
QUERY_END = "query_end"
APPLICATION_END = "application_end"
RESULT_PARTITIONS = "result_partitions"
RESULT_LIMIT = "result_limit"

# What is offered for a scan

FILTERS = "filters"
COLUMNS = "columns"
LIMIT = "limit"
TOP_N = "top_n"
OFFSET = "offset"
ASKED_AGGREGATION = "asked_aggregation"
AGGREGATION = "aggregation"
JOIN = "join"
RUNTIME_FILTERS_LEFT_OUT = "runtime_filters_left_out"
SETTINGS = "settings"

# Answers to it

EXACT = "exact"
INEXACT = "inexact"
IMPLIED = "implied"
UNSUPPORTED = "unsupported"
COMPLETE = "complete"
PARTIAL = "partial"

# Why a runtime filter is left out

LONG_LIST = "long_list"
NO_FORM = "no_form"
DEEP = "deep"

# Fields of questions

SCAN = "scan"
TABLE = "table"
OFFERS = "offers"
SOURCE_FILTERS_OFF = "source_filters_off"
NARROWS = "narrows"
RUNTIME_FILTERS = "runtime_filters"
REASON = "reason"
VALUES = "values"
COLUMN = "column"
FILTERS_BACK_BYTES = "filters_back_bytes"
ORDER = "order"
DESCENDING = "descending"
NULLS_FIRST = "nulls_first"
GROUPS = "groups"
FUNCTIONS = "functions"
NAME = "name"
DISTINCT = "distinct"
OPERAND = "operand"
HOW = "how"
LEFT = "left"
RIGHT = "right"
CONDITION = "condition"
OTHER = "other"
CATALOG = "catalog"
NAMESPACE = "namespace"
VERSION = "version"
TIMESTAMP = "timestamp"
FUNCTION = "function"
ARGS = "args"
KWARGS = "kwargs"
EXECUTION = "execution"
TABLES = "tables"
ERROR = "error"
INBOX = "inbox"
FIRST = "first"
END = "end"

# Fields of answers

FAILURE = "failure"
ANSWER = "answer"
DESCRIPTION = "description"
STREAMING = "streaming"
PARTITIONS = "partitions"
PARTITIONING = "partitioning"
KEYS = "keys"
ORDERING = "ordering"
ROWS = "rows"
BYTES = "bytes"
FILTERS_COME_BACK = "filters_come_back"
ADDED_COLUMNS = "added_columns"
RUNTIME_FILTER_COLUMNS = "runtime_filter_columns"
MOST_RUNTIME_VALUES = "most_runtime_values"
ENDPOINT = "endpoint"
WORKER = "worker"
PYTHON = "python"
ARCHIVE = "archive"
TASK = "task"
EXISTS = "exists"
JOINS = "joins"
HELD = "held"
