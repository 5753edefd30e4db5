"""The records that a step's processes write: one line of JSON for each result."""

from __future__ import annotations

import faulthandler
import json
import math
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Names the file that `record` appends to.
VARIABLE = "GPU_REPORT_RECORDS"
#: Has the seconds after which a process prints where each of its threads is, shortly before it is
#: killed: its output in the report then shows what hung.
HANGS = "GPU_REPORT_HANGS"
if HANGS in os.environ:
    faulthandler.dump_traceback_later(float(os.environ[HANGS]))


def record(name: str, ok: bool = True, **values: Any) -> None:
    """Append a result to the file of this process, or print it where there is none.

    Args:
        name: what was tried.
        ok: whether it worked, and its values are right.
        values: what was found, as JSON; a name says the unit, as ``us`` or ``seconds``.
    """
    values = {key: _to_json(value) for key, value in values.items()}
    line = json.dumps({"name": name, "ok": bool(ok), **values}, default=str) + "\n"
    path = os.environ.get(VARIABLE)
    if path is None:
        print(line, end="", flush=True)
        return
    # A single write, so that a process that is killed leaves whole lines.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def _to_json(value: Any) -> Any:
    """Return a value that JSON has: infinity and NaN become strings."""
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def try_case(name: str, run: Callable[..., Any], *arguments: Any) -> None:
    """Run a function and record its result, or its exception with the traceback.

    Args:
        name: of the record.
        run: returns the values of the record, ``ok`` among them if it compared any.
        arguments: of `run`.
    """
    begin = time.perf_counter()
    try:
        values = dict(run(*arguments) or {})
    except Exception:
        values = {"ok": False, "error": traceback.format_exc()}
    record(name, **{"case_seconds": round(time.perf_counter() - begin, 3), **values})


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a process's file; the last one may be unfinished."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]
