"""What ran the circuits of a program, as the runtime counted it: for ``verbose``."""

from collections import defaultdict
from typing import Self

from bellhop_runtime import Profile

_ENGINE = ", engine"


class CircuitReport:
    """Counts circuits inside a ``with`` block, those of other threads too."""

    def __init__(self) -> None:
        self._recorder = Profile(0)

    def __enter__(self) -> Self:
        self._recorder.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._recorder.stop()

    def format_lines(self) -> list[str]:
        """Return a line for each circuit that ran."""
        ran: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for kind, name, _, definition, calls, *_ in self._recorder.rows():
            if not kind.startswith("circuit"):
                continue
            what = "with its derivative " if "derivative" in kind else ""
            where = "in the engine" if kind.endswith(_ENGINE) else "by the plugin"
            times = "once" if calls == 1 else f"{calls} times"
            ran[name, definition].append(f"{times} {what}{where}")
        return [f"ran {name} ({at}) {', '.join(how)}" for (name, at), how in ran.items()]
