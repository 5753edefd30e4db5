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
    """The passes that a circuit goes through on every backend.

    They expand adjoint and controlled functions, fold the circuit, rewrite operations and allocate
    wires. Each quantum function has a chain, through which its gates reach a backend's circuit.

    Attributes:
        n_folds: the number of global foldings for zero-noise extrapolation, 0 for none.
        rewrite: maps a list of operations to the operations that replace them, after expansion and
            folding; None to keep all operations.
    """

    n_folds: int = 0
    rewrite: Rewrite | None = None

    @classmethod
    def from_config(cls, config: CircuitConfig) -> "PassChain":
        """Return the passes for a QNode's transforms, twirling and folding.

        The folding is the current one, set by `Folding.fold_circuits`.
        """
        return cls(Folding.count_global_folds(), make_rewrite(config))

    def interpret(
        self,
        circuit: GateReceiver,
        first: Interpreter | None,
        closed: ClosedJaxpr,
        inputs: Sequence[Any],
    ) -> list[Any]:
        """Apply a quantum function to a backend's circuit, through the passes that it needs.

        Args:
            circuit: the backend's circuit, which gets only operations, mid-circuit measurements,
                loops and conditionals.
            first: the first of the backend's own passes, such as a `NoisePass`, whose chain ends in
                ``circuit``. These passes replace the chain's rewriting and allocation. None for a
                backend without such passes.
            closed: the quantum function, a jaxpr with gate equations.
            inputs: the values of the jaxpr's inputs.

        Returns:
            the values of the jaxpr's outputs.
        """
        target = first or add_rewrite(AllocationPass.wrap_circuit(circuit, closed), self.rewrite)
        expanding = RegionPass(target) if RegionPass.is_needed(closed) else target
        results = expanding.interpret(closed, *inputs)
        if self.n_folds:
            append_folds(target, closed, inputs, self.n_folds)
        return results
