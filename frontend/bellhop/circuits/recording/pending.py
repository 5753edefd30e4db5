"""Gates that are not bound yet, since the gates that follow may join their run.

``qml.RX(x, 0)`` and a ``for_loop`` of known wires after it are one ``quantum_gates``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bellhop.circuits.gates.gate_run import GateRun, RepeatedRun
from bellhop.circuits.gates.merging import merged


class PendingRuns:
    """The last run of gates of a circuit, which is pending until something else follows.

    Args:
        apply: binds a run, given its parameters, its wires and, in a loop, how many iterations
            there are.
        passes: those that merge gates.

    Attributes:
        is_fresh: whether nothing was applied to the state.
        run: the pending one.
        is_one_run: whether it is all that was traced of this loop's body or branch.
    """

    def __init__(self, apply: Callable[..., None], passes: Sequence[str]) -> None:
        self._apply = apply
        self._passes = passes
        self.is_fresh = True
        self.run: GateRun | RepeatedRun | None = None
        self.is_one_run = False

    def add(self, run: GateRun) -> None:
        """Let gates join the pending run, or be pending behind it."""
        if not run.gates:
            return
        if isinstance(self.run, GateRun) and self.run.derivative is run.derivative:
            self.run.extend(run)
        else:
            self.wait(run)

    def wait(self, run: GateRun | RepeatedRun) -> None:
        """Bind the pending run of gates, and make this one the pending one."""
        self.is_fresh = False
        self.flush()
        self.run = run

    def flush(self) -> None:
        """Bind the pending run of gates."""
        run, self.run = self.run, None
        if run is None:
            return
        self.is_one_run = False
        if isinstance(run, RepeatedRun):
            self._apply(run.run, run.params, run.wires, run.n_iterations)
            return
        run = merged(run, self._passes)
        if run.gates:
            self._apply(run, run.params_vector(), run.wires_vector())

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Keep the pending gates out of what is traced inside."""
        before, self.run = self.run, None
        try:
            yield
        finally:
            self.run = before

    def only_run(self) -> RepeatedRun | None:
        """Return what was traced as one run of gates, repeated or not; None where it is more."""
        run = self.run
        if run is None or not self.is_one_run:
            return None
        return run if isinstance(run, RepeatedRun) else RepeatedRun.once(merged(run, self._passes))
