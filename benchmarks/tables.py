"""Write the measured tables of the README and the documentation from the newest complete run.

Run as `python -m benchmarks.tables`; a test compares them with the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import records
from benchmarks.case import FRAMEWORKS, LIMIT, NAMES, PARAMETRIC, SIMULATORS
from benchmarks.records import Record
from benchmarks.report import format_duration

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "<!-- written by `python -m benchmarks.tables` -->"
END = "<!-- as far as here -->"


@dataclass(frozen=True)
class Table:
    """The cases of the rows, what they are called, and the columns."""

    rows: dict[str, str]
    columns: tuple[str, ...] = (*FRAMEWORKS, LIMIT)


# For each file, its tables in their order.
TABLES = {
    "README.md": (
        Table(
            {
                "empty-call": "empty call",
                "callback": "one callback",
                "callback-traffic": "callback in a compiled loop, each",
                "callback-vjp": "callback with a VJP, under grad",
                "callback-8mb": "8 MB in and out of a callback",
                "buffer-8mb": "the same, written in place (`buffer_callback(in_place=True)`)",
                "tap-loop": "tap in a compiled loop, each",
                "print-loop": "print in a compiled loop, each",
                "accelerate-other": "region on another device",
                "accelerate-chain": "10 regions in a row there",
            }
        ),
        Table(
            {
                "circuit-4": "circuit, 4 qubits",
                "circuit-10": "circuit, 10 qubits",
                "circuit-16": "circuit, 16 qubits",
                "circuit-20": "circuit, 20 qubits",
                "gradient-4": "gradient, 4 qubits",
                "gradient-10": "gradient, 10 qubits",
                "gradient-16": "gradient, 16 qubits",
                "gradient-20": "gradient, 20 qubits",
                "gradient-by-shifts-4": "gradient by parameter shifts, 4 qubits",
                "batch-of-1000-4": "`vmap` of 1000 circuits, 4 qubits, each",
                "batch-of-64-10": "`vmap` of 64 circuits, 10 qubits, each",
                "classifier-128-4": "loss of 128 rows and gradient, 4 qubits",
                "classifier-1000-4": "loss of 1000 rows and gradient, 4 qubits",
                "classifier-32-8": "loss of 32 rows and gradient, 8 qubits",
                "training-6": "training of 100 steps, 6 qubits",
                "vqe-8-100": "VQE step, 8 qubits, 100 terms",
                "vqe-12-600": "VQE step, 12 qubits, 600 terms",
                "gates-loop-20000": "gate in a compiled loop, each",
            },
            (*FRAMEWORKS, *PARAMETRIC),
        ),
    ),
    "doc/how-to/external-callbacks.md": (
        Table(
            {
                "callback-traffic": "`pure_callback` of a scalar",
                "callback-loop": "the same, with some arithmetic on it",
                "callback": "one call of a program with one",
                "callback-vjp": "with `fwd` and `bwd`, a gradient",
                "callback-8mb": "8 MB in, 8 MB out",
                "buffer-8mb": "`buffer_callback`, the same",
                "tap-loop": "`tap` of a scalar",
                "print-loop": "`debug.print` of a line",
            }
        ),
    ),
}


def written_from(record: Record, table: Table) -> str:
    """Return a table of run times in Markdown, below a line that says what was run."""
    return "\n".join(_lines(record, table))


def _lines(record: Record, table: Table) -> Iterator[str]:
    ours, catalyst = record.versions["bellhop"], record.versions["catalyst"]
    peers = [
        f"{NAMES[name]} {record.versions[name][package]}"
        for name, package in SIMULATORS.items()
        if name in table.columns
    ]
    yield BEGIN
    yield (
        f"Medians of {record.rounds} rounds, all frameworks in one run on "
        f"{record.machine.removesuffix('cpu')} cores ({record.date}, jax {ours['jax']}, PennyLane "
        f"{ours['pennylane']}, Catalyst {catalyst['pennylane-catalyst']}"
        f"{''.join(f', {peer}' for peer in peers)}; `make bench`):"
    )
    yield ""
    yield f"| | {' | '.join(NAMES[name] for name in table.columns)} |"
    yield "|---" * (1 + len(table.columns)) + "|"
    for case, label in table.rows.items():
        cells = [_time(record, case, framework) for framework in table.columns]
        if table.columns[-1] == LIMIT:
            cells[-1] = ", ".join(filter(None, [cells[-1], record[case].case.limit]))
        yield f"| {' | '.join([label, *cells])} |"
    yield ""
    yield END


def _time(record: Record, case: str, framework: str) -> str:
    result = record[case]
    outcome = result.outcomes.get(framework)
    seconds = None if outcome is None or result.wrong else outcome.run
    return "" if seconds is None else format_duration(seconds / result.case.items)


def written(file: str) -> list[str]:
    """Return the tables that stand in a file."""
    text = (ROOT / file).read_text()
    return re.findall(f"{re.escape(BEGIN)}.*?{re.escape(END)}", text, flags=re.S)


def main() -> None:
    """Write all tables."""
    record = records.newest()
    for file, tables in TABLES.items():
        path = ROOT / file
        text = path.read_text()
        for old, table in zip(written(file), tables, strict=True):
            text = text.replace(old, written_from(record, table), 1)
        path.write_text(text)
        print(f"{file}: from {record.path.name}")


if __name__ == "__main__":
    main()
