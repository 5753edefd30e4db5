"""Profiles in Chrome's trace event format."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any


def save_trace(
    path: str | os.PathLike[str],
    rows: Sequence[tuple[Any, ...]],
    host_calls: Any,
    threads: Mapping[int, str],
) -> None:
    """Write the host calls of a profile as a file in Chrome's trace event format.

    Each call is a complete event, with times in microseconds since the first call.

    Args:
        path: path of the file, which is replaced if it exists.
        rows: the runtime's tuple for each call site, which begins with kind, name, call site and
            definition.
        host_calls: structured array of the calls: ``begin``, ``end``, ``busy`` and ``waited`` are
            times in nanoseconds, ``row`` is an index into `rows`, ``thread`` a number.
        threads: names of threads by their number; for other threads the name is ``thread <n>``.
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
        for number in sorted(set(host_calls["thread"].tolist()))
    ]
    start = int(host_calls["begin"].min()) if len(host_calls) else 0
    for host_call in host_calls:
        kind, name, site, definition, *_ = rows[host_call["row"]]
        events.append(
            {
                "ph": "X",
                "name": name,
                "cat": kind,
                "pid": process,
                "tid": int(host_call["thread"]),
                "ts": (int(host_call["begin"]) - start) / 1e3,
                "dur": int(host_call["end"] - host_call["begin"]) / 1e3,
                "args": {
                    "kind": kind,
                    "defined": definition,
                    "called": site,
                    "busy_us": int(host_call["busy"]) / 1e3,
                    "gil_wait_us": int(host_call["waited"]) / 1e3,
                    "bytes_out": int(host_call["bytes_out"]),
                    "bytes_in": int(host_call["bytes_in"]),
                    "failed": bool(host_call["failed"]),
                },
            }
        )
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)
