"""``PassChain``: the passes of a circuit that do not depend on its backend.

A pass is in the chain only if the circuit needs it.  For a circuit with an adjoint of a function,
on a QNode with ``qml.transforms.merge_rotations``, the chain of interpreters is ::

    RegionPass  ->  RewritePass  ->  circuit of the backend
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jax.extend.core import ClosedJaxpr

from bellhop.circuits.ir.circuit_config import CircuitConfig
from bellhop.circuits.ir.interpreter import Interpreter
from bellhop.circuits.passes.fold import append_folds
from bellhop.circuits.passes.operation_transforms import Folding, make_rewrite
from bellhop.circuits.passes.regions import RegionPass
from bellhop.circuits.passes.rewrite import Rewrite, add_rewrite


@dataclass(frozen=True)
class PassChain:
    """Expands adjoints and controls, folds the circuit, and rewrites its operations.

    Attributes:
        n_folds: the number of global foldings for zero-noise extrapolation.
        rewrite: replaces operations after all are expanded and folded; None to keep them.
    """

    n_folds: int = 0
    rewrite: Rewrite | None = None

    @classmethod
    def from_config(cls, config: CircuitConfig) -> "PassChain":
        """Return the passes that a QNode's configuration and the current folding ask for."""
        return cls(Folding.count_global_folds(), make_rewrite(config))

    def drop_rewrite(self) -> "PassChain":
        """Return the passes before a pass of the backend that rewrites operations itself."""
        return replace(self, rewrite=None)

    def interpret(
        self, interpreter: Interpreter, closed: ClosedJaxpr, inputs: Sequence[Any]
    ) -> list[Any]:
        """Interpret a circuit.

        Args:
            interpreter: gets the plain gates: a backend's circuit, or a pass before it.
            closed: the circuit, a jaxpr with gates.
            inputs: the inputs of the jaxpr.

        Returns:
            the results of the jaxpr.
        """
        interpreter = add_rewrite(interpreter, self.rewrite)
        expanding = RegionPass(interpreter) if RegionPass.is_needed(closed) else interpreter
        results = expanding.interpret(closed, *inputs)
        if self.n_folds:
            append_folds(interpreter, closed, inputs, self.n_folds)
        return results
