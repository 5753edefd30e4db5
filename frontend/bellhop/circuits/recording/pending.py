"""Gates that are not bound yet, since the gates that follow may join their run.

``qml.RX(x, 0)`` and a ``for_loop`` of known wires after it are one ``quantum_gates``.  In the body
of a loop that may be one as well, all of the body's runs wait, as a ``Nest``.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bellhop.circuits.gates.gate_run import GateRun, RepeatedRun
from bellhop.circuits.gates.merging import merged
from bellhop.circuits.recording.nests import Enclosing, Inner, Nest


class PendingRuns:
    """The last run of gates of a circuit, which is pending until something else follows."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._is_fresh = True
        self._run: GateRun | RepeatedRun | Nest | None = None
        # Whether the pending gates are all that was traced of this loop's body or branch.
        self._is_one_run = False
        # The loop whose body this is, if the body may become a part of a straight run.
        self._enclosing: Enclosing | None = None

    @abstractmethod
    def _apply(self, run: GateRun, params: Any, wires: Any, n_iterations: Any = None) -> None:
        """Bind a run of gates."""

    @abstractmethod
    def _merging_passes(self) -> Sequence[str]:
        """Return the passes that merge gates."""

    def _bind(self, run: GateRun) -> None:
        before = self._run
        if isinstance(before, GateRun) and before.derivative is run.derivative:
            before.extend(run)
        else:
            self._wait(run)

    def _wait(self, run: GateRun | RepeatedRun | Inner) -> None:
        """Bind the pending run of gates, and make this one the pending one.

        In a body that may become a part of a straight run, both are pending.
        """
        self._is_fresh = False
        if self._enclosing is not None and not self._enclosing.may_hold(run):
            self._bind_pending()
            self._enclosing = None
        if self._enclosing is None or (self._run is None and not isinstance(run, Inner)):
            assert not isinstance(run, Inner)
            self._bind_pending()
            self._run = run
            return
        if not isinstance(self._run, Nest):
            before, self._run = self._run, Nest()
            if before is not None:
                self._run.take(before)
        self._run.take(run)

    def _bind_pending(self) -> None:
        """Bind the pending run of gates."""
        run, self._run = self._run, None
        if run is None:
            return
        self._is_one_run = False
        if isinstance(run, Nest):
            # Each piece is bound before the next.
            enclosing, self._enclosing = self._enclosing, None
            for piece in run.pieces:
                if isinstance(piece, Inner):
                    piece.apply()
                else:
                    self._wait(piece)
            self._bind_pending()
            self._enclosing = enclosing
            return
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

    def _only_run(self) -> RepeatedRun | Nest | None:
        """Return what was traced as one run of gates, repeated or not; None where it is more.

        In the body of a loop that may become a straight run it may be a nest.
        """
        run = self._run
        if run is None or not self._is_one_run:
            return None
        if isinstance(run, RepeatedRun | Nest):
            return run
        return RepeatedRun.once(merged(run, self._merging_passes(), is_last_sight=True))
