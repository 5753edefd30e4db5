"""``AllocationPass``: replace allocated wires by spare wires of the device.

On a device with the wires 0, 1 and 2, of which 2 is spare::

    quantum_operations[Allocate a]                   a is mapped to wire 2
    quantum_operations[CNOT on 0 and a]      --->    apply([CNOT on 0 and a])
    quantum_operations[Deallocate a]                 a is unmapped; wire 2 is spare again

Operations keep their labels, which the circuit's ``WireMap`` maps.  A wire that must be zero and
may not be is reset by a mid-circuit measurement.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr

from bellhop.base.source import user_site
from bellhop.base.types import Operand
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.ir.gate_jaxpr import GateJaxpr
from bellhop.circuits.ir.interpreter import GateReceiver, Interpreter
from bellhop.circuits.passes.circuit_pass import CircuitPass
from bellhop.tracing.current_circuit import Branches


class AllocationPass(CircuitPass):
    """Maps each wire of ``qml.allocate`` to a spare wire of the device.

    This pass removes ``Allocate`` and ``Deallocate`` operations from a circuit and passes
    everything else on. Operations keep the labels of allocated wires (``DynamicWire``): the
    circuit's `WireMap` maps them to qubits. The body of a loop or a branch must deallocate the
    wires that it allocates.

    Args:
        target: the next interpreter, which gets all operations that are not allocations.
        circuit: the backend's circuit at the end of the chain of passes. Its ``wires`` map is
            changed: labels are added when they are allocated and removed when they are deallocated.
    """

    def __init__(self, target: Interpreter, circuit: GateReceiver) -> None:
        super().__init__(target)
        self._allocations = Allocations(circuit.wires, circuit.where)

    @staticmethod
    def is_needed(closed: ClosedJaxpr) -> bool:
        """Return whether a jaxpr with gate equations allocates or deallocates wires."""
        return GateJaxpr(closed, ()).has_allocations

    @classmethod
    def wrap_circuit(cls, circuit: GateReceiver, closed: ClosedJaxpr) -> Interpreter:
        """Return the first interpreter of the chain of passes that ends in a circuit.

        The chain is this pass, the backend's own passes and ``circuit``. This pass is left out if
        the circuit allocates no wires, or if the backend allocates them itself.

        Args:
            circuit: the backend's circuit.
            closed: the jaxpr with gate equations that will be interpreted.

        Returns:
            the first interpreter of the chain; ``circuit`` itself if no pass is needed.
        """
        target = circuit.add_own_passes(closed)
        is_needed = not circuit.allocates_wires and cls.is_needed(closed)
        return cls(target, circuit) if is_needed else target

    def apply(self, operations: Sequence[Any]) -> None:
        """Allocate and deallocate wires, and forward all other operations in order.

        An ``Allocate`` or ``Deallocate`` changes the circuit's wire map, and may reset a wire by a
        mid-circuit measurement. The other operations go to ``self.target``, the next interpreter.

        Raises:
            CompileError: if no spare wire is left, or if a ``Deallocate`` has a wire that was not
                allocated in the same loop body or branch.
        """

        def reset(wire: Any) -> None:
            self.mid_measure(wire, reset=True, postselect=-1, site=user_site())

        for are_allocations, group in itertools.groupby(operations, Allocations.is_allocation):
            if are_allocations:
                for op in group:
                    self._allocations.apply(op, reset)
            else:
                self.target.apply(list(group))

    def for_loop(
        self,
        n_iterations: int | Operand,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *,
        can_unroll: bool = False,
    ) -> tuple[Any, ...]:
        """Forward a for loop to the next interpreter.

        The body must deallocate the wires that it allocates, so that each iteration begins with the
        same spare wires. The arguments and the result are as in `Interpreter.for_loop`.

        Raises:
            CompileError: if a wire that the body allocates is still allocated at its end.
        """
        body = self._allocations.enter_block()(body)
        return super().for_loop(n_iterations, body, carried, can_unroll=can_unroll)

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Forward a while loop to the next interpreter.

        The body must deallocate the wires that it allocates. The arguments and the result are as in
        `Interpreter.while_loop`.

        Raises:
            CompileError: if a wire that the body allocates is still allocated at its end.
        """
        return super().while_loop(condition, self._allocations.enter_block()(body), carried)

    def branch(self, branches: Branches) -> Any:
        """Forward a conditional to the next interpreter; return the result of its branch.

        Each branch must deallocate the wires that it allocates.

        Args:
            branches: the functions of the branches, and the index of the branch that runs.

        Raises:
            CompileError: if a wire that a branch allocates is still allocated at its end.
        """
        return super().branch(branches.map_functions(self._allocations.enter_block()))
