"""cancel-inverses: adjacent gates that are inverse to each other are removed."""

from bellhop_mlir._bindings import ir
from bellhop_mlir.adjacent_gates import AdjacentGate, AnyGate, simplify_chains
from bellhop_mlir.passes import CircuitPass

_SELF_INVERSE = frozenset(
    {
        *("Hadamard", "PauliX", "PauliY", "PauliZ", "CNOT", "CY", "CZ", "CH", "SWAP"),
        *("Toffoli", "CSWAP", "CCZ"),
    }
)


class CancelInverses(CircuitPass):
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

    def simplify(self, function: ir.Operation) -> bool:
        """Change one function in place; return whether it changed."""
        return simplify_chains(function, cancel)


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
