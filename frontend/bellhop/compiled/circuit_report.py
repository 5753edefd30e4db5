"""Report of the backends that ran a program's circuits, for ``verbose``."""

from collections import defaultdict
from typing import Self

from bellhop_runtime import Profile

_ENGINE = ", engine"


class CircuitReport:
    """Counts the circuits that run in a ``with`` block, for ``qjit(verbose=True)``.

    Made for the first execution of a program. The counts include circuits that other threads run
    meanwhile.
    """

    def __init__(self) -> None:
        self._recorder = Profile(0)

    def __enter__(self) -> Self:
        self._recorder.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._recorder.stop()

    def format_lines(self) -> list[str]:
        """Format how often and where each QNode ran, one line for each QNode.

        For example ``ran circuit (file.py:3) 2 times in the engine, once with its derivative by the
        plugin``: a comma separates backends, and executions with and without derivative. "The
        plugin" is the plugin of the QNode's device. The executions since the beginning of the
        ``with`` block count.
        """
        counts: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for kind, name, _, definition, calls, *_ in self._recorder.rows():
            if not kind.startswith("circuit"):
                continue
            part = "with its derivative " if "derivative" in kind else ""
            backend = "in the engine" if kind.endswith(_ENGINE) else "by the plugin"
            times = "once" if calls == 1 else f"{calls} times"
            counts[name, definition].append(f"{times} {part}{backend}")
        return [f"ran {name} ({site}) {', '.join(parts)}" for (name, site), parts in counts.items()]
