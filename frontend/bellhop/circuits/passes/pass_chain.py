"""``PassChain``: the passes of a circuit that do not depend on its backend.

A pass is in the chain only if the circuit needs it.  For a circuit with an adjoint of a function
and ``qml.allocate``, on a QNode with ``qml.transforms.merge_rotations``, the chain of interpreters
is ::

    RegionPass  ->  RewritePass  ->  AllocationPass  ->  circuit of the backend
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend.core import ClosedJaxpr

from bellhop.circuits.ir.circuit_config import CircuitConfig
from bellhop.circuits.ir.interpreter import GateReceiver, Interpreter
from bellhop.circuits.passes.allocate import AllocationPass
from bellhop.circuits.passes.fold import append_folds
from bellhop.circuits.passes.operation_transforms import Folding, make_rewrite
from bellhop.circuits.passes.regions.region_pass import RegionPass
from bellhop.circuits.passes.rewrite import Rewrite, add_rewrite


@dataclass(frozen=True)
class PassChain:
    """Expands adjoints and controls, folds the circuit, rewrites operations, allocates wires.

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

    def interpret(
        self,
        circuit: GateReceiver,
        first: Interpreter | None,
        closed: ClosedJaxpr,
        inputs: Sequence[Any],
    ) -> list[Any]:
        """Interpret a circuit.

        Args:
            circuit: the backend's circuit, which gets the plain gates.
            first: the first of the backend's own passes, which rewrite operations themselves and
                end in ``circuit``; None for a backend without passes.
            closed: the circuit, a jaxpr with gates.
            inputs: the inputs of the jaxpr.

        Returns:
            the results of the jaxpr.
        """
        target = first or add_rewrite(AllocationPass.wrap_circuit(circuit, closed), self.rewrite)
        expanding = RegionPass(target) if RegionPass.is_needed(closed) else target
        results = expanding.interpret(closed, *inputs)
        if self.n_folds:
            append_folds(target, closed, inputs, self.n_folds)
        return results
