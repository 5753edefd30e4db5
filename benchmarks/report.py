"""Tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.case import LIMIT, SIMULATORS, Target
from benchmarks.measure import Outcome, Result

BASE = "bellhop"


def format_duration(seconds: float) -> str:
    """Write seconds with three digits and a fitting unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds < 1000 * scale else f"{seconds:.0f} s"
    return f"{seconds / 1e-9:.0f} ns"


class _Notes:
    """Numbers the reasons that stand below a table, each once."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        if text not in self.texts:
            self.texts.append(text)
        return f"[{self.texts.index(text) + 1}]"


def _seconds(outcome: Outcome | None, measure: str) -> float | None:
    value: float | None = None if outcome is None else getattr(outcome, measure)
    return value


def _cell(result: Result, framework: str, measure: str, items: int, notes: _Notes) -> str:
    outcome = result.outcomes.get(framework)
    if outcome is None:
        return ""
    if outcome.unavailable is not None:
        return f"n/a {notes.mark(f'n/a: {outcome.unavailable}')}"
    seconds = _seconds(outcome, measure)
    if seconds is None:
        return "-"
    text = format_duration(seconds / items)
    base = _seconds(result.outcomes.get(BASE), measure)
    if framework == BASE or not base:
        return text
    return f"{text} ({seconds / base:.3g}x)"


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table
    except ImportError:
        _plain_table(title, header, rows)
        return
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(header):
        table.add_column(name, justify="left" if index < 2 else "right")
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)


def _plain_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    print(f"\n{title}")
    for row in (header, ["-" * width for width in widths], *rows):
        cells = (
            cell.ljust(width) if index < 2 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(cells).rstrip())


def _rows(results: Sequence[Result], columns: Sequence[str], measure: str, notes: _Notes) -> Any:
    for result in results:
        items, unit = (result.case.items, result.case.unit) if measure == "run" else (1, "program")
        if result.wrong is not None:
            cells = [f"WRONG {notes.mark(f'WRONG: {result.wrong}')}"] * len(columns)
        else:
            cells = [_cell(result, column, measure, items, notes) for column in columns]
        yield [result.case.title, unit, *cells]


def show(results: Sequence[Result], frameworks: Sequence[str]) -> None:
    """Print the tables of run and compile times, and below them every reason."""
    notes = _Notes()
    compilers = [name for name in frameworks if name not in SIMULATORS]
    simulators = [name for name in frameworks if name in SIMULATORS]
    shared = [result for result in results if result.outcomes.keys() & {*simulators}]
    for title, measure in (
        ("Run time of a call, per unit (and its ratio to Bellhop's)", "run"),
        ("Compile time: the first call less a later one (and its ratio to Bellhop's)", "compile"),
    ):
        columns = [*compilers, LIMIT]
        rows = list(_rows(results, columns, measure, notes))
        _table(title, ["case", "per", *columns], rows)
        if shared:
            columns = [name for name in (BASE, *simulators) if name in frameworks]
            rows = list(_rows(shared, columns, measure, notes))
            _table(f"{title}: other simulators", ["case", "per", *columns], rows)
    header = ["case", "fastest peer", "ratio to it", "ratio to the limit"]
    _table("Bellhop's run time as a ratio, the worst case first", header, rank_by_ratio(results))
    for number, text in enumerate(notes.texts, 1):
        print(f"[{number}] {text}")
    print("\nTargets")
    for result in results:
        for target in result.case.targets:
            print(f"  {result.case.title}: {_verdict(result, target)}")
    print("\nLimits")
    for result in results:
        print(f"  {result.case.title}: {result.case.limit}")
    print(f"\n{summarize(results)}")


def summarize(results: Sequence[Result]) -> str:
    """Count the cases where Bellhop is faster than every peer, and the targets that it meets."""
    ratios = [ratio for result in results if (ratio := _compare_with_peers(result)[1])]
    targets = [
        (_compare_with_target(result, target), target.ratio)
        for result in results
        for target in result.case.targets
    ]
    ahead = sum(ratio < 1 for ratio in ratios)
    met = sum(ratio is not None and ratio >= goal for ratio, goal in targets)
    return (
        f"Faster than every peer: {ahead} of {len(ratios)} cases. "
        f"Targets met: {met} of {len(targets)}."
    )


def rank_by_ratio(results: Sequence[Result]) -> list[list[str]]:
    """Compare each case's run time with its fastest peer and its limit.

    Args:
        results: the measured cases; those with wrong values are left out.

    Returns:
        a row for each case: its title, the name of the fastest peer, Bellhop's run time divided by
        the peer's, and divided by the limit. The case with the largest ratio to its peer comes
        first; cases without a peer come last, by their ratio to the limit.
    """
    ranked = []
    for result in results:
        own = _seconds(result.outcomes.get(BASE), "run")
        if result.wrong is not None or not own:
            continue
        peer, to_peer = _compare_with_peers(result)
        limit = _seconds(result.outcomes.get(LIMIT), "run")
        to_limit = own / limit if limit else 0.0
        figures = (f"{ratio:.2f}" if ratio else "" for ratio in (to_peer, to_limit))
        ranked.append((to_peer, to_limit, [result.case.title, peer, *figures]))
    return [row for *_, row in sorted(ranked, key=lambda entry: entry[:2], reverse=True)]


def _compare_with_peers(result: Result) -> tuple[str, float]:
    """Return the name of the fastest peer and Bellhop's run time divided by the peer's.

    They are empty and 0 where a value is wrong, or Bellhop or every peer has no time.
    """
    times = {name: _seconds(outcome, "run") for name, outcome in result.outcomes.items()}
    own = times.pop(BASE, None)
    peers = {name: time for name, time in times.items() if time and name != LIMIT}
    if result.wrong is not None or not own or not peers:
        return "", 0.0
    peer = min(peers, key=lambda name: peers[name])
    return peer, own / peers[peer]


def _compare_with_target(result: Result, target: Target) -> float | None:
    """Return how many times as long as Bellhop the target's framework takes.

    None where a value is wrong or one of the two times was not measured.
    """
    own = _seconds(result.outcomes.get(BASE), target.measure)
    other = _seconds(result.outcomes.get(target.framework), target.measure)
    if result.wrong is not None or not own or other is None:
        return None
    return other / own


def _verdict(result: Result, target: Target) -> str:
    """Say how a target was met, limits as multiples and peers as speed-ups."""
    ratio = _compare_with_target(result, target)
    if ratio is None:
        return f"{target.measure} time against {target.framework} not measured"
    verdict = "met" if ratio >= target.ratio else "MISSED"
    if target.framework == LIMIT:
        figures = f"{1 / ratio:.3g}x the limit (at most {1 / target.ratio:.3g}x)"
    else:
        figures = f"{ratio:.3g}x faster than {target.framework} (at least {target.ratio:g}x)"
    return f"{target.measure} time {figures}: {verdict}"
