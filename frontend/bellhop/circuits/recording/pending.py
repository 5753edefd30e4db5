"""Gates that are not bound yet, since the gates that follow may join their run.

``qml.RX(x, 0)`` and a ``for_loop`` of known wires after it are one ``quantum_gates``.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bellhop.base.types import Operand
from bellhop.circuits.gates.gate_run import GateRun, RepeatedRun
from bellhop.circuits.gates.merging import merged


class PendingRuns:
    """The last run of gates of a circuit, which is pending until something else follows."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._is_fresh = True
        self._run: GateRun | RepeatedRun | None = None
        # Whether the pending gates are all that was traced of this loop's body or branch.
        self._is_one_run = False

    @abstractmethod
    def _apply(
        self, run: GateRun, params: Operand, wires: Any, n_iterations: int | Operand | None = None
    ) -> None:
        """Bind a run of gates."""

    @abstractmethod
    def _merging_passes(self) -> Sequence[str]:
        """Return the passes that merge gates."""

    def _bind(self, run: GateRun) -> None:
        if not run.gates:
            return
        before = self._run
        if isinstance(before, GateRun) and before.derivative is run.derivative:
            before.extend(run)
        else:
            self._wait(run)

    def _wait(self, run: GateRun | RepeatedRun) -> None:
        """Bind the pending run of gates, and make this one the pending one."""
        self._is_fresh = False
        self._bind_pending()
        self._run = run

    def _bind_pending(self) -> None:
        """Bind the pending run of gates."""
        run, self._run = self._run, None
        if run is None:
            return
        self._is_one_run = False
        if isinstance(run, RepeatedRun):
            self._apply(run.run, run.params, run.wires, run.n_iterations)
            return
        run = merged(run, self._merging_passes())
        if run.gates:
            self._apply(run, run.params_vector(), run.wires_vector())

    @contextmanager
    def _nothing_waits(self) -> Iterator[None]:
        """Keep the pending gates out of what is traced inside."""
        before, self._run = self._run, None
        try:
            yield
        finally:
            self._run = before

    def _only_run(self) -> RepeatedRun | None:
        """Return what was traced as one run of gates, repeated or not; None where it is more."""
        run = self._run
        if run is None or not self._is_one_run:
            return None
        if isinstance(run, RepeatedRun):
            return run
        return RepeatedRun.once(merged(run, self._merging_passes()))
