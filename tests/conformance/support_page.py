"""Write the support matrix: `python -m tests.conformance.support_page`.

The page comes from the tables of cells alone, whose cells `test_support_matrix.py` runs.
"""

import string
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.conformance.circuits import CIRCUITS
from tests.conformance.constructs import (
    CONSTRUCTS,
    TRANSFORMATIONS,
    run_construct,
    run_transformation,
)
from tests.conformance.support import (
    DEVICES,
    FEATURES,
    MEASUREMENTS,
    METHODS,
    SHOT_FEATURES,
    Cell,
    run_measurement,
    run_method,
)
from tests.conformance.test_conformance import BACKENDS, REFUSED
from tests.conformance.unsupported import find_unsupported

PAGE = Path(__file__).parents[2] / "doc" / "reference" / "support-matrix.md"
BOTH = ("value", "grad")
WITH_SHOTS = ("value, shots", "grad, shots")
NAMES = {"reference.qubit": "other devices"}
INTRODUCTION = """# Support matrix

You look up which device runs which measurement, derivative and transformation in a compiled
program.

| mark | meaning |
|---|---|
| ✓ | a test compares the result with PennyLane without compilation, or with finite differences |
| a letter | an error; the reason is below the table |
| – | does not exist, such as the derivative of samples |

`lightning.kokkos` supports the same as `lightning.qubit`. *Other devices* are devices that Bellhop
calls through Python; the tests use `reference.qubit`. `python -m tests.conformance.support_page`
writes this page.
"""
END = """
## See also

[Circuits](../concepts/circuits.md), [Devices](../concepts/devices.md), [Callbacks under
transformations](callback-transformations.md), [PennyLane's
transforms](../how-to/pennylane-transforms.md)
"""


# Facts about a device's ticks.
REMARKS = {
    "default.clifford": "`state` is a tableau here. PennyLane 0.45 returns wrong entries of some "
    "density matrices on this device, compiled or not.",
    "default.mixed": "`state` is a density matrix here.",
}


class Notes:
    """The reasons of one table, by letters."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def find_mark(self, cell: Cell) -> str:
        """Return the tick, the dash or the letter of a cell."""
        if not cell.exists:
            return "–"
        found = find_unsupported(cell)
        if found is None:
            return "✓"
        return self.letters.setdefault(found.reason, string.ascii_lowercase[len(self.letters)])

    def to_lines(self) -> list[str]:
        """Return the list of reasons."""
        if not self.letters:
            return []
        return ["", *(f"- {letter}: {reason}" for reason, letter in self.letters.items())]


def make_table(heads: Iterable[str], rows: Iterable[tuple[str, list[str]]]) -> list[str]:
    """Return the lines of a Markdown table."""
    heads = list(heads)
    lines = ["", f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    return lines + [f"| {row} | {' | '.join(marks)} |" for row, marks in rows]


def make_device_table(rows: Iterable[str], columns: tuple[str, ...]) -> list[str]:
    """Return a table with a column for each device, and the marks of some features in a cell."""
    notes = Notes()

    def combine(device: str, row: str) -> str:
        marks = [notes.find_mark(Cell(device, row, column)) for column in columns]
        return marks[0] if len(set(marks)) == 1 else " / ".join(marks)

    heads = [NAMES.get(device, f"`{device}`") for device in DEVICES]
    body = [(row, [combine(device, row) for device in DEVICES]) for row in rows]
    return make_table(heads, body) + notes.to_lines()


def make_measurement_table(device: str) -> list[str]:
    """Return the table of measurements on a device."""
    notes = Notes()
    heads = [*FEATURES, *(f"{feature}, shots" for feature in FEATURES)]
    body = [
        (
            row.replace(row.split()[0], f"`{row.split()[0]}`", 1),
            [notes.find_mark(Cell(device, row, column)) for column in (*FEATURES, *SHOT_FEATURES)],
        )
        for row in MEASUREMENTS
    ]
    return make_table(heads, body) + notes.to_lines()


def make_conformance_table() -> list[str]:
    """Return how many circuits of the conformance list each backend runs."""
    kinds = {name: name.split()[0].rstrip(",") for name in CIRCUITS}
    known = {
        "gate": "single gates",
        "adjoint": "adjoint gates and functions",
        "ctrl": "controlled gates and functions",
        "measure": "measurements",
        "outcome": "mid-circuit outcomes",
        "random": "random layers",
    }
    group = lambda name: known.get(kinds[name], "loops and conditionals")
    sizes = Counter(map(group, CIRCUITS))
    backends = [name for name in BACKENDS if name != "toy"]
    refused = Counter((backend, group(name)) for backend, name in REFUSED)
    body = [
        (kind, [f"{size - refused[backend, kind]} of {size}" for backend in backends])
        for kind, size in sizes.items()
    ]
    heads = {"compiled": "`lightning.qubit`", "arrays": "`default.mixed`"}
    return make_table([heads.get(name, f"`{name}`") for name in backends], body)


def list_cells() -> dict[Cell, Callable]:
    """Return all cells that exist, with the function that runs each."""
    cells: dict[Cell, Callable] = {}
    for device in DEVICES:
        for rows, columns, run in (
            (MEASUREMENTS, (*FEATURES, *SHOT_FEATURES), run_measurement),
            (METHODS, ("grad", "grad, shots"), run_method),
            (TRANSFORMATIONS, ("",), run_transformation),
            (CONSTRUCTS, (*BOTH, *WITH_SHOTS), run_construct),
        ):
            cells |= {Cell(device, row, column): run for row in rows for column in columns}
    return {cell: run for cell, run in cells.items() if cell.exists}


def write_page() -> str:
    """Return the text of the page."""
    lines = [INTRODUCTION, "## Measurements"]
    for device in DEVICES:
        lines += [
            "",
            f"### {NAMES.get(device, f'`{device}`').capitalize()}",
            *make_measurement_table(device),
            *(["", REMARKS[device]] if device in REMARKS else []),
        ]
    lines += [
        "",
        "## Derivatives by `diff_method`",
        "",
        "The gradient of `expval`, without shots / with shots:",
    ]
    lines += make_device_table(METHODS, ("grad", "grad, shots"))
    lines += ["", "## Transformations", "", "Of a circuit that returns `expval`:"]
    lines += make_device_table(TRANSFORMATIONS, ("",))
    lines += ["", "## Parts of circuits", "", "The value / the gradient, without shots:"]
    lines += make_device_table(CONSTRUCTS, BOTH)
    lines += [
        "",
        "The value / the gradient, with shots:",
        *make_device_table(CONSTRUCTS, WITH_SHOTS),
    ]
    lines += [
        "",
        "## Conformance list",
        "",
        "Circuits whose values, gradients and batches are right:",
    ]
    lines += make_conformance_table()
    return "\n".join(lines) + "\n" + END


if __name__ == "__main__":
    PAGE.write_text(write_page())
