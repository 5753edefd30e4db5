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
    """Allocates spare device wires; each execution of a body or a branch frees its own.

    Args:
        target: the interpreter that gets the other operations.
        circuit: the circuit, whose wire map gets the allocated wires.
    """

    def __init__(self, target: Interpreter, circuit: GateReceiver) -> None:
        super().__init__(target)
        self._allocations = Allocations(circuit.wires, circuit.where)

    @staticmethod
    def is_needed(closed: ClosedJaxpr) -> bool:
        """Return whether a jaxpr with gates allocates wires."""
        return GateJaxpr(closed, ()).has_allocations

    @classmethod
    def wrap_circuit(cls, circuit: GateReceiver, closed: ClosedJaxpr) -> Interpreter:
        """Return a circuit behind its own passes and, if the jaxpr needs it, this pass."""
        target = circuit.add_own_passes(closed)
        is_needed = not circuit.allocates_wires and cls.is_needed(closed)
        return cls(target, circuit) if is_needed else target

    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations in order; allocate or deallocate wires for allocations."""

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
        is_nest: bool = False,
    ) -> tuple[Any, ...]:
        """Hand a for loop to the target, whose iterations free the wires that they allocate."""
        body = self._allocations.enter_part()(body)
        return super().for_loop(n_iterations, body, carried, is_nest=is_nest)

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Hand a while loop to the target, whose iterations free the wires that they allocate."""
        return super().while_loop(condition, self._allocations.enter_part()(body), carried)

    def branch(self, branches: Branches) -> Any:
        """Hand a conditional to the target, whose branches free the wires that they allocate."""
        return super().branch(branches.map_functions(self._allocations.enter_part()))
