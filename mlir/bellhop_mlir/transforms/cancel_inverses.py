"""cancel-inverses: adjacent gates that are inverse to each other are removed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import functions
from bellhop_mlir.adjacent_gates import AdjacentGate, AnyGate, chains, simplify

_SELF_INVERSE = frozenset(
    {
        *("Hadamard", "PauliX", "PauliY", "PauliZ", "CNOT", "CY", "CZ", "CH", "SWAP"),
        *("Toffoli", "CSWAP", "CCZ"),
    }
)


@dataclass(frozen=True)
class CancelInverses:
    """Drop pairs of gates that are each other's inverse and meet on the same wires.

    Before::

        %1 = "quantum.gate"(%0, %p, %o, %w) {name = "Hadamard", wires = array<i64: 0>, ...}
        %2 = "quantum.gate"(%1, %p, %o, %w) {name = "PauliX", wires = array<i64: 1>, ...}
        %3 = "quantum.gate"(%2, %p, %o, %w) {name = "Hadamard", wires = array<i64: 0>, ...}

    After::

        %1 = "quantum.gate"(%0, %p, %o, %w) {name = "PauliX", wires = array<i64: 1>, ...}

    A pair is a gate that is its own inverse, twice, or any gate with constant parameters and its
    adjoint; what stands between may act on other wires.  Gates with parameters that the program
    computes stay, and so do their places in its parameters.
    """

    name: ClassVar[str] = "cancel-inverses"

    def apply(self, module: ir.Module) -> bool:
        """Change ``module`` in place; return False where nothing changed."""
        return self.apply_to(functions(module).values())

    def apply_to(self, circuits: Iterable[ir.Operation]) -> bool:
        """Change these functions in place; return whether any changed."""
        found = False
        for function in circuits:
            for chain in list(chains(function)):
                kept = simplify(chain, cancel)
                stay = {id(placed.op) for placed in kept}
                for placed in chain:
                    if id(placed.op) not in stay:
                        found = True
                        placed.op.results[0].replace_all_uses_with(placed.op.operands[0])
                        placed.op.erase()
        return found


def cancel(earlier: AnyGate, later: AnyGate) -> list[AnyGate] | None:
    """Let two gates on the same wires go where they undo one another."""
    return [] if are_inverse(earlier, later) else None


def are_inverse(one: AdjacentGate, other: AdjacentGate) -> bool:
    """Tell whether two gates on the same wires undo one another."""
    if not one.acts_as(other) or not one.is_constant() or not other.is_constant():
        return False
    if one.gate.name in _SELF_INVERSE:
        return True
    return one.gate.adjoint != other.gate.adjoint and one.angles == other.angles
