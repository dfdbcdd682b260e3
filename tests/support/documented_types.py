"""The rows of docs/types.md, which the tests check with and without Spark."""

from __future__ import annotations

import re

import pyarrow as pa

from places import ROOT

DOCS = ROOT / "docs" / "types.md"


ROWS = re.findall(r"^\| `(pa\..+?)` \| (?:`(.+?)`|(refused)) \| (.+?) \|$", DOCS.read_text(), re.MULTILINE)


def documented_type(text: str) -> pa.DataType:
    return eval(text, {"pa": pa})
