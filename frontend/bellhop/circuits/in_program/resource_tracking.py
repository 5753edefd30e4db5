"""What circuits on ``null.qubit`` would have used, counted while the program runs.

A run of gates is counted when the program gets to it: so often as its loops run, and in the
branches that are taken.
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pennylane as qml

from bellhop.callbacks.io_callback import io_callback


class ResourceTracker:
    """Counts the gates of one run of a circuit, and writes them to a file at its end.

    Args:
        filename: of the file; without, one of its own for each run, by the time.
        wires: how many the device has.
    """

    def __init__(self, filename: str | None, wires: int) -> None:
        self._filename = filename
        self._wires = wires
        self._types: Counter[str] = Counter()
        self._sizes: Counter[int] = Counter()

    def begin(self) -> None:
        """Let the program begin to count."""

        def begin() -> None:
            self._types.clear()
            self._sizes.clear()

        io_callback(begin, ordered=True)()

    def count(self, operations: Sequence[Any]) -> None:
        """Let the program count operations where it gets to them."""
        names = [op.name for op in operations]
        sizes = [len(op.wires) for op in operations]

        def count() -> None:
            self._types.update(names)
            self._sizes.update(sizes)

        io_callback(count, ordered=True)()

    def end(self, processes: Sequence[Any]) -> None:
        """Let the program write what it counted, and what it measures."""
        tape = qml.tape.QuantumScript([], processes)
        measured = dict(qml.resource.resources_from_tape(tape, compute_depth=False).measurements)

        def end() -> None:
            name = self._filename or f"__pennylane_resources_data_{time.time_ns()}.json"
            resources = {
                "num_wires": self._wires,
                "num_gates": self._types.total(),
                "total_allocations": self._wires,
                "gate_types": dict(self._types),
                "gate_sizes": {str(size): n for size, n in self._sizes.items()},
                "measurements": measured,
                "depth": None,
            }
            Path(name).write_text(json.dumps(resources, indent=2))

        io_callback(end, ordered=True)()
