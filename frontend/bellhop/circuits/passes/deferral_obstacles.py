"""Find in a traced quantum function why its mid-circuit measurements cannot be deferred.

Applying the gates would show it too, but then they have to be applied again without deferral.  In

    m = quantum_outcome_of_wire[0]
    cond[branches=({ }, { quantum_operations[RY on 1] y })] m
    quantum_operations[CNOT on 1, 0]

the last gate changes the measured wire, so that the wire no longer holds the outcome.
"""

from collections.abc import Iterator
from typing import Any

from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal
from jax.extend.core.primitives import cond_p

from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.gates.operation_kind import OperationKind
from bellhop.circuits.ir.gate_jaxpr import GateJaxpr, UnknownValue, get_operations
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.jaxprs.equations import iterate_equations

# A conditional on n outcomes becomes 2**n sets of controlled gates, so n is limited.
MAX_OUTCOMES = 4


def has_deferral_obstacle(closed: ClosedJaxpr, *, rewrites: bool) -> bool:
    """Return whether the deferral of a function's mid-circuit measurements fails for sure.

    If False, the deferral may still fail while gates are applied.

    Args:
        closed: the quantum function, a jaxpr with gate equations whose measurements are outside of
            loops and branches.
        rewrites: whether a transform replaces operations before the deferral, so that the wires of
            the operations in ``closed`` are not checked.
    """
    return _uses_outcomes(closed) or (not rewrites and _changes_measured_wire(closed))


def _changes_measured_wire(closed: ClosedJaxpr) -> bool:
    """Return whether a measured wire may be changed or measured again.

    True if a gate after a mid-circuit measurement acts on a measured wire other than as a control,
    or on a traced wire; and if a traced wire is measured, or a wire is measured twice.

    Args:
        closed: the quantum function, a jaxpr with gate equations.
    """
    outcomes = {id(eqn) for eqn in GateJaxpr(closed, ()).outcomes}
    measured: set[Any] = set()
    for eqn in closed.jaxpr.eqns:
        if id(eqn) in outcomes:
            wires = eqn.params["operator"].with_values([UnknownValue() for _ in eqn.invars])
            if _is_unknown(wires[0]) or wires[0] in measured:
                return True
            measured.add(wires[0])
        elif measured and any(_may_change_wire(op, measured) for op in _iterate_operations(eqn)):
            return True
    return False


def _iterate_operations(eqn: JaxprEqn) -> Iterator[Any]:
    """Yield the PennyLane operations of an equation and of the jaxprs in it.

    These are the jaxprs of loop bodies and branches.

    Args:
        eqn: an equation of a jaxpr with gates.
    """
    yield from get_operations(eqn)
    for inner in eqn.params.values():
        for part in inner if isinstance(inner, tuple) else (inner,):
            if isinstance(part, ClosedJaxpr):
                for each in iterate_equations(part.jaxpr):
                    yield from get_operations(each)


def _may_change_wire(op: Any, measured: set[Any]) -> bool:
    """Return whether an operation is a gate that may change a measured wire.

    True if the gate acts on a traced wire, or on a measured wire other than as a control.

    Args:
        op: PennyLane operation.
        measured: the measured wires.
    """
    if OperationKind.classify(op) is not OperationKind.GATE or not hasattr(op, "wires"):
        return False
    controls = Modifiers.find_control_wires(op)
    return any(_is_unknown(w) or (w in measured and w not in controls) for w in op.wires)


def _is_unknown(wire: Any) -> bool:
    return isinstance(wire, UnknownValue) or is_dynamic(wire)


def _uses_outcomes(closed: ClosedJaxpr) -> bool:
    """Return whether outcomes do more than choose branches without results.

    True if an outcome, or a value computed from it,

    - is an operand of gates, of a for loop, or of an adjoint or controlled function;
    - is returned by the function;
    - chooses a branch of a conditional with gates, and the conditional has results, its branches
      use an outcome, or more than `MAX_OUTCOMES` outcomes choose the branch.

    Args:
        closed: a jaxpr with gate equations, and without other effects.
    """
    measured = {id(eqn) for eqn in GateJaxpr(closed, ()).outcomes}
    # For each variable that depends on outcomes, the equations of these outcomes.
    outcomes_of: dict[Any, set[int]] = {}
    find = lambda var: set() if isinstance(var, Literal) else outcomes_of.get(var, set())
    for eqn in closed.jaxpr.eqns:
        if id(eqn) in measured:
            outcomes_of[eqn.outvars[0]] = {id(eqn)}
            continue
        outcomes = set().union(*map(find, eqn.invars))
        if not outcomes:
            continue
        if eqn.primitive is cond_p and eqn.effects:
            is_too_much = eqn.outvars or any(map(find, eqn.invars[1:]))
            if is_too_much or len(outcomes) > MAX_OUTCOMES:
                return True
        elif eqn.primitive.name.startswith("quantum_"):
            return True
        else:
            outcomes_of |= dict.fromkeys(eqn.outvars, outcomes)
    return any(map(find, closed.jaxpr.outvars))
