"""Data that a program holds already, joined in one query: a pandas frame, a list of dicts, a polars frame, CSV files.

Nothing is wrapped: names in the query stand for what Python has. Needs pandas and polars: pip install pandas polars

    python examples/data_you_hold.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl

import headrace as hr

QUERY = """
    SELECT name, round(sum(amount * rate), 2) AS euros
    FROM {orders} JOIN {customers} USING (customer) JOIN {rates} USING (currency) JOIN {regions} USING (region)
    WHERE amount >= {least} AND region_name = :region
    GROUP BY name ORDER BY name
"""


def main(ctx: hr.SessionContext) -> list[dict[str, Any]]:
    orders = pd.DataFrame({"customer": [1, 1, 2, 3], "amount": [10.0, 20.0, 5.0, 1.0], "currency": ["EUR", "USD"] * 2})
    customers = [
        {"customer": 1, "name": "ann", "region": 1},
        {"customer": 2, "name": "bob", "region": 1},
        {"customer": 3, "name": "cyd", "region": 2},
    ]
    rates = pl.DataFrame({"currency": ["EUR", "USD"], "rate": [1.0, 0.9]})
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "north.csv").write_text("region,region_name\n1,north\n")
        Path(folder, "south.csv").write_text("region,region_name\n2,south\n")
        regions = hr.DatasetTable(folder)
        result = ctx.collect(
            QUERY, {"region": "north"}, orders=orders, customers=customers, rates=rates, regions=regions, least=2
        )
    return result.to_pylist()  # type: ignore[no-any-return]


if __name__ == "__main__":
    with hr.SessionContext() as context:
        for row in main(context):
            print(row)
