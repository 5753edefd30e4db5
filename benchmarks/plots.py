"""Plot the newest complete run for the README and the documentation.

Run as `python -m benchmarks.plots`; a test looks whether the plots are of the newest run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import records
from benchmarks.case import FRAMEWORKS, LIMIT, NAMES, SIMULATORS
from benchmarks.cases.circuits import SIZES
from benchmarks.mesh_scaling import newest as newest_of_mesh
from benchmarks.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = Path(__file__).resolve().parent.parent / "doc" / "pictures"
COLORS = {name: f"C{place}" for place, name in enumerate((*FRAMEWORKS, *SIMULATORS))}
COLORS[LIMIT] = "0.6"
BORDERS = {
    "callback": "one callback",
    "callback-traffic": "callback in a loop, each",
    "callback-vjp": "callback with a VJP, under grad",
    "callback-8mb": "8 MB in and out of a callback",
    "tap-loop": "tap in a loop, each",
    "print-loop": "print in a loop, each",
    "accelerate-other": "region on another device",
    "accelerate-chain": "10 regions in a row there",
}


def borders(record: Record) -> Figure:
    """Plot what it costs to cross each border of a program, a bar for each framework."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots()
    height = 0.2
    for place, framework in enumerate((*FRAMEWORKS, LIMIT)):
        times = [_microseconds(record, case, framework) for case in BORDERS]
        rows = [row + (place - 1.5) * height for row in range(len(BORDERS))]
        axes.barh(rows, times, height, color=COLORS[framework], label=NAMES[framework])
    axes.set_yticks(range(len(BORDERS)), list(BORDERS.values()))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("time (us)")
    axes.legend()
    return figure


def circuits(record: Record) -> Figure:
    """Plot the times of circuits and of their gradients against the number of qubits."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _lines(left, record, "circuit")
    _lines(right, record, "gradient")
    left.set_ylabel("time (us)")
    left.legend()
    return figure


def _lines(axes: Axes, record: Record, kind: str) -> None:
    for framework in (*FRAMEWORKS, *SIMULATORS, LIMIT):
        times = [_microseconds(record, f"{kind}-{qubits}", framework) for qubits in SIZES]
        style = ":" if framework == LIMIT else "-"
        name = "Lightning from Python" if framework == LIMIT else NAMES[framework]
        axes.plot(SIZES, times, f"o{style}", color=COLORS[framework], label=name)
    axes.set_title(kind)
    axes.set_yscale("log")
    axes.set_xticks(SIZES)
    axes.set_xlabel("qubits")


def mesh_scaling(document: dict[str, Any]) -> Figure:
    """Plot times of a state over devices, which share the cores, and what each device takes."""
    from matplotlib.figure import Figure

    rows = {(row["processes"], row["devices"], row["qubits"]): row for row in document["rows"]}
    smallest = min(qubits for _, _, qubits in rows)
    doublings = range(4)
    devices = [2**n for n in doublings]
    lines = {
        f"{smallest} qubits": ("C0o-", [(1, 2**n, smallest) for n in doublings]),
        f"{smallest} to {smallest + 3}": ("C1o-", [(1, 2**n, smallest + n) for n in doublings]),
        "as many on one device": ("ko:", [(1, 1, smallest + n) for n in doublings]),
        f"{smallest}, over processes": ("C2s", [(n, 1, smallest) for n in (2, 4)]),
    }
    figure = Figure(figsize=(8, 6.4), layout="constrained")
    for (left, right), what in zip(figure.subplots(2, 2), ("value", "gradient"), strict=True):
        for label, (style, places) in lines.items():
            found = [rows[place][what] for place in places]
            at = devices if len(found) == len(devices) else devices[1:3]
            left.plot(at, [min(each["seconds"]) for each in found], style, label=label)
            right.plot(at, [each["bytes"] / 2**20 for each in found], style, label=label)
        left.set_ylabel(f"{what}: time (s)")
        right.set_ylabel(f"{what}: MiB for each device")
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(devices, devices)
            axes.set_xlabel("devices")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=len(lines))
    return figure


def _microseconds(record: Record, case: str, framework: str) -> float:
    result = record[case]
    outcome = result.outcomes.get(framework)
    seconds = None if outcome is None or result.wrong else outcome.run
    return float("nan") if seconds is None else seconds / result.case.items * 1e6


def main() -> None:
    """Write all plots."""
    import matplotlib as mpl

    record = records.newest()
    # The same run makes the same file.
    mpl.rcParams |= {"svg.hashsalt": record.path.stem, "svg.fonttype": "none"}
    for plot in (borders, circuits):
        path = PICTURES / f"{plot.__name__}.svg"
        plot(record).savefig(path, metadata={"Date": None, "Source": record.path.name})
        print(f"{path.name}: from {record.path.name}")
    source = newest_of_mesh()
    mpl.rcParams["svg.hashsalt"] = source.stem
    figure = mesh_scaling(json.loads(source.read_text()))
    path = PICTURES / "mesh_scaling.svg"
    figure.savefig(path, metadata={"Date": None, "Source": source.name})
    print(f"{path.name}: from {source.name}")


if __name__ == "__main__":
    main()
