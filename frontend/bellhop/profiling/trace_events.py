"""Profiles in Chrome's trace event format."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any


def save_trace(
    path: str | os.PathLike[str],
    rows: Sequence[tuple[Any, ...]],
    crossings: Any,
    threads: Mapping[int, str],
) -> None:
    """Write host calls as complete events, in microseconds since the first call.

    Args:
        path: path of the file.
        rows: the runtime's description of each call site.
        crossings: structured array of the calls.
        threads: names of threads.
    """
    process = os.getpid()
    events: list[dict[str, Any]] = [
        {
            "ph": "M",
            "name": "thread_name",
            "pid": process,
            "tid": number,
            "args": {"name": threads.get(number, f"thread {number}")},
        }
        for number in sorted(set(crossings["thread"].tolist()))
    ]
    start = int(crossings["begin"].min()) if len(crossings) else 0
    for crossing in crossings:
        kind, name, site, definition, *_ = rows[crossing["row"]]
        events.append(
            {
                "ph": "X",
                "name": name,
                "cat": kind,
                "pid": process,
                "tid": int(crossing["thread"]),
                "ts": (int(crossing["begin"]) - start) / 1e3,
                "dur": int(crossing["end"] - crossing["begin"]) / 1e3,
                "args": {
                    "kind": kind,
                    "defined": definition,
                    "called": site,
                    "busy_us": int(crossing["busy"]) / 1e3,
                    "gil_wait_us": int(crossing["waited"]) / 1e3,
                    "bytes_out": int(crossing["bytes_out"]),
                    "bytes_in": int(crossing["bytes_in"]),
                    "failed": bool(crossing["failed"]),
                },
            }
        )
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)
