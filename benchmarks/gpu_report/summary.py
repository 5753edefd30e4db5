"""The tables of a report: a line for each question, and the circuits.

::

    python -m benchmarks.gpu_report.summary     # writes them into doc/how-to/gpu.md

The page has the tables of the newest report of a real GPU in `benchmarks/results/gpu/`, and "not
measured yet" where there is none.  A test compares them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.gpu_report.report_file import find_records, read_report

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "gpu"
PAGE = ROOT / "doc" / "how-to" / "gpu.md"
BEGIN = "<!-- written by `python -m benchmarks.gpu_report.summary` -->"
END = "<!-- as far as here -->"
MISSING = "not measured yet"
_SIZES = (16, 20, 24, 28)
_WAYS = {
    "region": "region on the GPU",
    "jit": "PennyLane under `jax.jit` on the GPU",
    "engine": "the engine on the CPU",
}
Document = Mapping[str, Any]
Records = list[dict[str, Any]]


def _count_right(records: Iterable[Mapping[str, Any]]) -> str:
    """Say how many records are right, and name up to five that are not."""
    records = list(records)
    if not records:
        return MISSING
    wrong = [record["name"] for record in records if not record["ok"]]
    names = f"; wrong: {', '.join(wrong[:5])}{', ...' if len(wrong) > 5 else ''}" if wrong else ""
    return f"{len(records) - len(wrong)} of {len(records)} right{names}"


def _count_first_calls(document: Document, default: str) -> str:
    children = [
        child
        for step in document["steps"]
        if step["name"] == "first calls"
        for child in step["children"]
        if child["label"].endswith(default) and child["state"] not in ("waiting", "skipped")
    ]
    if not children:
        return MISSING
    right = [
        child for child in children if child["records"] and all(r["ok"] for r in child["records"])
    ]
    wrong = [f"{c['label'].partition(',')[0]} ({c['state']})" for c in children if c not in right]
    names = f"; not: {', '.join(wrong)}" if wrong else ""
    return f"{len(right)} of {len(children)}{names}"


def _count_tests(document: Document, step: str) -> str:
    records = find_records(document, step)
    begun = {record["name"] for record in records if record.get("counted") == "begun"}
    ended = [record for record in records if record.get("counted") != "begun"]
    outcomes = Counter(str(record["outcome"]).split()[-1] for record in ended)
    hanging = begun - {record["name"] for record in ended}
    if hanging:
        outcomes["begun and not ended"] = len(hanging)
    return ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()) or MISSING


def _find(document: Document, step: str, name: str) -> dict[str, Any]:
    """Return the record of that name which has values, or an empty one."""
    records = [r for r in find_records(document, step) if r["name"] == name and "error" not in r]
    return records[0] if records else {}


def _values(document: Document, name: str, keys: Mapping[str, str]) -> str:
    """Return values of a record of the costs, each with its label."""
    record = _find(document, "costs", name)
    if not record:
        return MISSING
    return ", ".join(f"{label} {_number(record[key])}" for key, label in keys.items())


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _values_of_overlaps(document: Document, *names: str) -> str:
    found = [(name, _find(document, "costs", name)) for name in names]
    texts = [
        f"{name}: {_number(r['together over longest'])}, {_number(r['together over sum'])}"
        for name, r in found
        if r
    ]
    return "; ".join(texts) or MISSING


def _describe_machine(document: Document) -> str:
    devices, versions = (
        _find(document, "machine", "devices"),
        _find(document, "machine", "versions"),
    )
    processors = _find(document, "machine", "processors")
    if not devices or not versions:
        return MISSING
    kind = {"real": devices.get("kind"), "stand-in": "a stand-in for a GPU"}.get(devices["gpu"])
    packages = ", ".join(
        f"{name} {versions[name]}" for name in ("pennylane-bellhop", "jax", "numpy")
    )
    return f"{kind or 'no GPU'}; {processors.get('usable cores', '?')} cores; {packages}"


def _transfers(document: Document, where: str, ours: str, theirs: str) -> str:
    texts = []
    for size in ("4 KB", "1 MB", "16 MB", "256 MB"):
        record = _find(document, "costs", f"{size} to the {where}")
        if record:
            pair = [f"{_number(record[f'{way} us'])}" for way in (ours, theirs)]
            texts.append(f"{size} {pair[0]} / {pair[1]} us")
    return "; ".join(texts) or MISSING


QUESTIONS: dict[str, Callable[[Document], str]] = {
    "machine": _describe_machine,
    "first calls right, the GPU as default": lambda d: _count_first_calls(d, "GPU is the default"),
    "first calls right, the CPU as default": lambda d: _count_first_calls(d, "CPU is the default"),
    "tests marked `gpu`, the GPU as default": lambda d: _count_tests(d, "tests"),
    "tests marked `gpu`, the CPU as default": lambda d: _count_tests(d, "tests on the CPU"),
    "a region, one number there and back (us)": lambda d: _values(
        d, "one number there and back", {"region us": "region", "by hand us": "by hand"}
    ),
    "ten regions in a row (us)": lambda d: _values(
        d, "10 regions in a row, against one", {"chain us": "ten", "one region us": "one"}
    ),
    "ten regions that cannot be fused (us)": lambda d: _values(
        d, "10 regions that are not fused, against one", {"chain us": "ten", "one region us": "one"}
    ),
    "to the device, region / `jax.device_put`": lambda d: _transfers(
        d, "device", "region", "device_put"
    ),
    "to the host, region / by hand": lambda d: _transfers(d, "host", "region", "by hand"),
    "a callback from a region (us)": lambda d: _values(
        d,
        "callback with a number",
        {
            "callback from a region us": "region with it",
            "the region without it us": "without",
            "jax.pure_callback us": "`jax.pure_callback`",
        },
    ),
    "two regions at once, time over the longest, over the sum": lambda d: _values_of_overlaps(
        d, "two regions, on the GPU and on a second CPU device", "two regions on the GPU"
    ),
    "a region and the host at once, the same": lambda d: _values_of_overlaps(
        d, "a region and a callback", "a region and code of the host", "a region and a circuit"
    ),
    "precision against the CPU in f64": lambda d: _count_right(find_records(d, "precision")),
    "float32 products at the default precision of JAX": lambda d: str(
        _find(d, "precision", "product of float32 matrices, precision=None").get(
            "JAX multiplies in", MISSING
        )
    ),
    "linear algebra, FFT, random numbers": lambda d: _count_right(find_records(d, "libraries")),
}


def _circuit_cell(document: Document, way: str, qubits: int, precision: str, what: str) -> str:
    name = f"{way}, {qubits} qubits, {precision}, {what}"
    record = _find(document, "circuits", name)
    first = _find(document, "circuits", f"{name}, first call")
    if record:
        memory = record.get("GPU MiB", record.get("host MiB"))
        return f"{_time(record['seconds'])} ({first['first seconds']:.1f} s, {memory} MiB)"
    if first:
        return f"stopped after the first call ({first['first seconds']:.1f} s)"
    label = f"{way}, {qubits} qubits, {precision}"
    states = [
        f"{child['state']}{': ' + child['detail'] if child['detail'] else ''}"
        for step in document["steps"]
        for child in step["children"]
        if child["label"] == label and child["state"] not in ("waiting", "running", "finished")
    ]
    failed = any(r["name"] == name for r in find_records(document, "circuits"))
    return "failed" if failed else next(iter(states), MISSING)


def _time(seconds: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{_number(seconds * factor)} {unit}"
    return f"{_number(seconds * 1e6)} us"


def lines_of_summary(document: Document) -> list[str]:
    """Return both tables in Markdown."""
    lines = ["| question | answer |", "|---|---|"]
    lines += [f"| {question} | {answer(document)} |" for question, answer in QUESTIONS.items()]
    lines += ["", "Circuits of `default.qubit`, two layers: a later call (the first call, memory)."]
    lines += ["", f"| circuit | {' | '.join(_WAYS.values())} |", "|---|---|---|---|"]
    for precision in ("f32", "f64"):
        for what in ("value", "gradient"):
            for qubits in _SIZES:
                cells = [_circuit_cell(document, way, qubits, precision, what) for way in _WAYS]
                lines.append(f"| {what}, {qubits} qubits, {precision} | {' | '.join(cells)} |")
    return lines


def lines_of_page() -> list[str]:
    """Return what stands in the page, with the newest report or with none."""
    reports = sorted(RESULTS.glob("*.json"))
    document = read_report(reports[-1]) if reports else {"steps": []}
    return [BEGIN, *lines_of_summary(document), "", END]


def written_tables(page: Path = PAGE) -> str:
    """Return what the page has between its marks."""
    found = re.findall(f"{re.escape(BEGIN)}.*?{re.escape(END)}", page.read_text(), flags=re.S)
    return "".join(found)


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().replace(written_tables(), "\n".join(lines_of_page())))
