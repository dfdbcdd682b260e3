"""The producer's own error where Spark runs tasks again (argument: the master); prints what was seen as JSON."""

from __future__ import annotations

import gc
import json
import sys
import threading

import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([("a", pa.int64())])
ROW = pa.record_batch([pa.array([1], pa.int64())], schema=SCHEMA)


def end(ctx: hr.SessionContext, name: str, sinks: list[hr.TableSink], how: str) -> None:
    if how == "failed":
        sinks.pop().fail(LookupError("no such shard"))
    elif how == "dropped":
        sinks.clear()
        gc.collect()
    else:
        ctx.deregister_table(name)


def consume(ctx: hr.SessionContext, name: str, action: str, had_rows: threading.Event) -> None:
    frame = ctx.sql(f"SELECT a FROM {name}")
    if action == "collect":
        ctx.collect(frame)
    elif action == "native":
        frame.collect()
    else:
        with ctx.execute_stream(frame) as stream:
            for _ in stream:
                had_rows.set()


def outcome(ctx: hr.SessionContext, how: str, action: str) -> list[str]:
    name = f"{how}_{action}"
    sinks = [ctx.register_streaming_table(name, SCHEMA)]
    sinks[0].write(ROW)
    had_rows = threading.Event()
    caught: list[BaseException] = []

    def run() -> None:
        try:
            consume(ctx, name, action, had_rows)
        except Exception as error:
            caught.append(error)

    query = threading.Thread(target=run, daemon=True)
    query.start()
    while sinks[0].stats.rows_delivered == 0:
        threading.Event().wait(0.02)
    if action == "execute_stream":
        had_rows.wait(60)  # the harder case: part of the result is in the caller's hands
    end(ctx, name, sinks, how)
    query.join(60)
    if not caught:
        return ["hangs" if query.is_alive() else "no error", ""]
    error = caught[0]
    return [type(error).__name__, str(error), type(error.__cause__).__name__]


def main() -> None:
    with hr.SessionContext(master=sys.argv[1]) as ctx:
        found = {
            f"{how} {action}": outcome(ctx, how, action)
            for how in ("failed", "dropped", "deregistered")
            for action in ("collect", "native", "execute_stream")
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
