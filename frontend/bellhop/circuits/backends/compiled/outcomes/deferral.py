"""Defer mid-circuit measurements to the end of the circuit.

If a wire is measured and afterwards only controls gates, no outcome has to be drawn and no branch
executed: gates that depend on the outcome can be controlled by the wire itself.  The quantum
function on the left is traced like the function on the right::

    qml.RX(x, 0)
    m = measure(0)                                 qml.RX(x, 0)
    qml.cond(m, qml.RY)(y, 1)                      qml.CRY(y, [0, 1])
    return qml.expval(qml.Z(1))                    return qml.expval(qml.Z(1))

It then takes one run instead of one run for each combination of outcomes, and has the derivatives
of circuits without mid-circuit measurements.

``can_be_deferred`` rejects most circuits that need outcomes by their jaxpr with gates, before the
gates are applied.  Some circuits are rejected later: by their gates as the device gets them
(``Deferral.can_defer``), and by the recorded circuit (``needs_outcomes``).  The function is then
applied again without deferral.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn
from jax.extend.core.primitives import cond_p

from bellhop.base.types import Wire
from bellhop.circuits.backends.compiled.differentiable.compiled_state import CircuitEquation
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.ir.device_measurements import (
    Expval,
    Frequencies,
    Measurement,
    Probs,
    Samples,
    Var,
)
from bellhop.circuits.ir.gate_jaxpr import get_operations, has_gates, has_other_effects, outcome_p
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.passes.gate_replay import Player
from bellhop.control_flow.tagged_values import ValueTag, has_tag, tag_value
from bellhop.jaxprs.constant_eval import evaluate_static, find_deciding_inputs
from bellhop.jaxprs.equations import inner_jaxprs, iterate_equations

# A conditional on n outcomes becomes 2**n sets of controlled gates, so n is limited.
_MAX_OUTCOMES = 4

# Primitives with finite results and derivatives for finite operands.  Branches may contain no other
# primitives, since with deferral all branches are computed.
# fmt: off
_FINITE_PRIMITIVES = frozenset((
    "abs", "add", "add_any", "and", "broadcast_in_dim", "clamp", "concatenate", "cond",
    "convert_element_type", "copy", "cos", "dot_general", "dynamic_slice", "eq", "gather", "ge",
    "gt", "imag", "iota", "jit", "le", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "pack",
    "pad", "quantum_for_loop", "quantum_operations", "quantum_region", "real", "reduce_sum",
    "reshape", "rev", "select_n", "sign", "sin", "slice", "split", "square", "squeeze", "stack",
    "stop_gradient", "sub", "tanh", "transpose", "unstack", "xor",
))
# fmt: on


class _DeferredTag(ValueTag):
    """The tag of a deferred measurement's outcome.

    The tagged value is a placeholder, so no equation of the recorded circuit may use it.
    """


@dataclass
class Deferral:
    """The state of deferring a circuit's measurements.

    Attributes:
        qubits: the qubits that were measured.
        outcomes: label and outcome of each measurement, by qubit, since an allocated wire may be a
            qubit that was measured.
        fails: whether an operation needs an outcome.  No more gates are applied then.
    """

    qubits: set[int]
    outcomes: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    fails: bool = False

    def can_defer(self, leaves: Sequence[Any]) -> bool:
        """Return whether the gates and results of a circuit need no outcome.

        A result that is not a measurement at the end of the circuit needs a run with outcomes.

        Args:
            leaves: the results of the quantum function.
        """
        is_at_end = lambda leaf: is_measurement(leaf) and leaf.mv is None
        return not self.fails and (not self.outcomes or all(map(is_at_end, leaves)))


def _find_control_wires(op: qml.operation.Operator) -> set[Any]:
    """Return the wires of an operator that are only controls."""
    if isinstance(op, qml.ops.Adjoint | qml.ops.Pow | qml.ops.SProd):
        return _find_control_wires(op.base)
    if isinstance(op, qml.ops.CompositeOp):
        changed = [set(part.wires) - _find_control_wires(part) for part in op.operands]
        return set(op.wires).difference(*changed)
    # Operators that are not operations have no ``control_wires``.
    return set(getattr(op, "control_wires", ()))


def _can_be_controlled(wires: Sequence[Wire], op: qml.operation.Operator) -> bool:
    """Return whether an operation can be controlled by these wires.

    Channels cannot be controlled, nor can operations on these wires or on traced wires.
    """
    is_apart = set(wires).isdisjoint(op.wires) and not any(map(is_dynamic, op.wires))
    return is_apart and not isinstance(op, qml.operation.Channel)


@dataclass(frozen=True)
class DeferringPlayer(Player):
    """Applies gates to a circuit, and defers mid-circuit measurements.

    Args:
        deferral: the state of deferring, which is updated.
    """

    deferral: Deferral = field(kw_only=True)

    def emit(self, operations: list[Any]) -> None:
        """Apply operations, which may use deferred wires only as controls."""
        deferral = self.deferral
        for op in operations if deferral.outcomes else ():
            controls = _find_control_wires(op)
            deferral.fails |= any(
                is_dynamic(wire)
                or (self.circuit.wires(wire) in deferral.outcomes and wire not in controls)
                for wire in op.wires
            )
        if not deferral.fails:
            super().emit(operations)

    def allocate(self, op: qml.operation.Operator) -> None:
        """Allocate or deallocate wires; a wire that is reset fails the deferral."""
        super().allocate(op)
        self.deferral.fails |= self.circuit.has_mid_circuit

    def mid_measure(self, label: Wire, *, reset: bool, postselect: int, site: str) -> Any:
        """Defer a measurement, and return a tagged placeholder of its outcome."""
        del postselect, site
        deferral = self.deferral
        outcome = tag_value(jnp.asarray(False), mark=_DeferredTag())
        if is_dynamic(label) or self.circuit.wires(label) in deferral.outcomes or reset:
            deferral.fails = True
        else:
            deferral.outcomes[self.circuit.wires(label)] = label, outcome
            deferral.qubits.add(self.circuit.wires(label))
        return outcome

    def branch(self, index: Any, branches: Sequence[Callable[[Player], Any]]) -> Any:
        """Run a conditional; control each branch if deferred outcomes decide.

        Args:
            index: the index of the branch, an integer scalar.
            branches: functions that apply gates with the interpreter that is their argument.
        """
        deferral = self.deferral
        measured = list(deferral.outcomes.values())
        used = find_deciding_inputs(index, [outcome for _, outcome in measured])
        deferral.fails |= len(used) > _MAX_OUTCOMES
        if not used or deferral.fails:
            return super().branch(index, branches)
        wires = [measured[place][0] for place in used]
        combinations = list(itertools.product((0, 1), repeat=len(used)))
        indices = evaluate_static(index, [measured[place][1] for place in used], combinations)
        assert indices is not None
        results: Any = ()

        def check_controllable(operations: Sequence[Any]) -> Sequence[Any]:
            deferral.fails |= not all(_can_be_controlled(wires, op) for op in operations)
            return () if deferral.fails else operations

        for values, branch_index in zip(combinations, indices, strict=True):
            controlled = self.add_controls(wires, list(map(bool, values))).prepend_change(
                check_controllable
            )
            results = branches[int(branch_index)](controlled)
            deferral.fails |= bool(jax.tree.leaves(results))
        return results


def needs_outcomes(closed: ClosedJaxpr, qubits: Collection[int]) -> bool:
    """Return whether a recorded circuit needs outcomes of deferred qubits after all.

    Args:
        closed: the jaxpr of the recorded circuit, without dead code.
        qubits: the qubits whose measurements were deferred.
    """
    if not qubits:
        return False
    equations = list(iterate_equations(closed.jaxpr))
    measured = [CircuitEquation(eqn).measurements for eqn in equations]
    return any(has_tag(eqn, _DeferredTag) for eqn in equations) or any(
        set(qubits) & _find_disturbed_qubits(measurement, qubits)
        for measurement in itertools.chain.from_iterable(measured)
    )


def _find_disturbed_qubits(measurement: Measurement, qubits: Collection[int]) -> set[int]:
    """Return the qubits that must not be measured before a final measurement.

    A mid-circuit measurement of such a qubit would change the result.

    Args:
        measurement: the final measurement.
        qubits: all qubits that may be returned.
    """
    if isinstance(measurement, Expval | Var):
        factors = itertools.chain.from_iterable(measurement.terms)
        return {wire for factor in factors if not factor.is_diagonal for wire in factor.wires}
    return set() if isinstance(measurement, Probs | Samples | Frequencies) else set(qubits)


def _iterate_outcomes(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Yield the mid-circuit measurements of a jaxpr with gates, and of the jaxprs in it."""
    for eqn in filter(has_gates, jaxpr.eqns):
        if eqn.primitive is outcome_p:
            yield eqn
        for inner in inner_jaxprs(eqn):
            yield from _iterate_outcomes(inner)


def can_be_deferred(jaxpr: Jaxpr) -> bool:
    """Return whether a jaxpr with gates has measurements that can be deferred.

    Deferral computes all branches, so branches must be free of effects and of non-finite values.
    """
    outcomes = list(_iterate_outcomes(jaxpr))
    is_plain = lambda eqn: not eqn.params["reset"] and eqn.params["postselect"] < 0
    return bool(outcomes) and (
        # A measurement in a loop or a branch may be executed several times, or never.
        len(outcomes) == sum(eqn.primitive is outcome_p for eqn in jaxpr.eqns)
        and all(map(is_plain, outcomes))
        and not any(map(has_other_effects, jaxpr.eqns))
        and all(
            inner.primitive.name in _FINITE_PRIMITIVES
            and inner.params.get("length", 0) is not None
            and not any(map(Allocations.is_allocation, get_operations(inner)))
            for eqn in iterate_equations(jaxpr)
            if eqn.primitive is cond_p
            for branch in inner_jaxprs(eqn)
            for inner in iterate_equations(branch)
        )
    )
