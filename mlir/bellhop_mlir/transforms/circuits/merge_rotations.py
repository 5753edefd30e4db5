"""merge-rotations: rotations about the same axis become one, by the sum of the angles."""

from bellhop_mlir._bindings import ir
from bellhop_mlir.adjacent_gates import AdjacentGate, GateOperation, simplify_chains, with_angle
from bellhop_mlir.passes import CircuitPass

# Of one parameter, and angles add up.
ROTATIONS = frozenset(
    {
        *("RX", "RY", "RZ", "PhaseShift", "CRX", "CRY", "CRZ", "ControlledPhaseShift"),
        *("MultiRZ", "IsingXX", "IsingYY", "IsingZZ", "PauliRot"),
    }
)


class MergeRotations(CircuitPass):
    """Merge rotations by constant angles about the same axis that meet on the same wires.

    Before::

        %1 = "quantum.gate"(%0, %p, %o, %w) {name = "RX", slots = array<i64: -1>,
            constants = array<f64: 0.5>, ...}
        %2 = "quantum.gate"(%1, %p, %o, %w) {name = "RX", slots = array<i64: -1>,
            constants = array<f64: 0.25>, ...}

    After::

        %1 = "quantum.gate"(%0, %p, %o, %w) {name = "RX", slots = array<i64: -1>,
            constants = array<f64: 0.75>, ...}

    A sum of zero is no gate.  Angles that the program computes are summed before a module is
    made of it, where the derivative of the sum is JAX's; here they stay in their places.
    """

    def simplify(self, function: ir.Operation) -> bool:
        """Change one function in place; return whether it changed."""
        return simplify_chains(function, _meet)


def are_alike(one: AdjacentGate, other: AdjacentGate) -> bool:
    """Tell whether two gates are rotations about the same axis of the same wires."""
    return one.gate.name.partition(":")[0] in ROTATIONS and one.acts_as(other)


def constant_angle(rotation: AdjacentGate) -> float:
    """Return the angle that a rotation turns by, where it is known."""
    (angle,) = rotation.angles
    assert isinstance(angle, float)
    return -angle if rotation.gate.adjoint else angle


def _meet(earlier: GateOperation, later: GateOperation) -> list[GateOperation] | None:
    if not are_alike(earlier, later) or not (earlier.is_constant() and later.is_constant()):
        return None
    total = constant_angle(earlier) + constant_angle(later)
    return [GateOperation(with_angle(later.gate, total), later.op)] if total != 0.0 else []
