"""Some runs of a campaign in one driver process; prints an outcome a line, as JSON. Started by the campaign."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from faults.injection import World
from faults.judge import Verdict, run

HANG_STATUS = 3


def main(settings: dict[str, object]) -> None:
    """Ends the process after a hang: what still hangs would disturb the runs that follow."""
    builder = SparkSession.builder.master(str(settings["master"]))
    for key, value in dict(settings["config"]).items():  # type: ignore[call-overload]
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    world = World(
        spark.sparkContext.applicationId,
        [Path(path) for path in list(settings["scratch"])],  # type: ignore[call-overload]
        str(settings["switch"]),
        list(settings["links"]),  # type: ignore[call-overload]
    )
    for index in list(settings["runs"]):  # type: ignore[call-overload]
        outcome = run(spark, world, int(str(settings["seed"])), index, sys.stderr, str(settings["only"]))
        print(json.dumps(outcome.as_dict()), flush=True)
        if outcome.verdict == Verdict.HANG.value:
            os._exit(HANG_STATUS)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
