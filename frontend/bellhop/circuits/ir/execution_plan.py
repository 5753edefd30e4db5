"""``ExecutionPlan``: the executor of a circuit, and its settings."""

from dataclasses import dataclass
from typing import Any

from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.executors import Executor, Outcomes


@dataclass(frozen=True)
class ExecutionPlan:
    """The executor of a circuit, and its settings.

    ``backends/choose`` makes the plan, and backends complete it while they trace the circuit.

    ``f.mlir``, drawings, profiles and ``verbose=True`` print it::

        engine, outcomes all, derivatives by adjoint, double precision
        plugin: the circuit has more than 32 qubits, derivatives by adjoint, double precision

    Attributes:
        executor: the engine, a plugin, ...
        reason: why the engine does not execute it; empty for the engine.
        outcomes: how random outcomes are treated.
        diff_method: the derivative method, or the user's name of an unknown one.  ``BEST`` leaves
            the choice to each measurement.
        diff_options: the method's ``gradient_kwargs``, as pairs of name and value.
        precision: 32 or 64, the bits of the real part of an amplitude.
    """

    executor: Executor
    reason: str = ""
    outcomes: Outcomes = Outcomes.NONE
    diff_method: str = DiffMethod.BEST
    diff_options: tuple[tuple[str, Any], ...] = ()
    precision: int = 64

    @property
    def backend(self) -> str:
        """The executor, with the reason why it is not the engine."""
        return f"{self.executor.value}: {self.reason}" if self.reason else self.executor.value

    def __str__(self) -> str:
        is_random = self.outcomes is not Outcomes.NONE
        parts = [
            self.backend,
            *([f"outcomes {self.outcomes.value}"] if is_random else []),
            f"derivatives by {self.diff_method}",
            "single precision" if self.precision == 32 else "double precision",
        ]
        return ", ".join(parts)


@dataclass(frozen=True)
class Declined:
    """A backend's return value for a circuit that it does not support.

    It takes the place of results; ``backends/choose`` then chooses another backend.

    Attributes:
        reason: the unsupported feature, for example a measurement; later the plan's ``reason``.
        needs_tape: whether no backend but ``tapes`` supports the circuit.
    """

    reason: str
    needs_tape: bool = False
