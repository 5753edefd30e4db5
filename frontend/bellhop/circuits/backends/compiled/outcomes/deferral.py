"""Mid-circuit measurements that are deferred to the end of the circuit.

Where a wire is measured and only controls what follows, no outcome has to be drawn, and no branch
to be gone through: gates under the condition of the outcome may be controlled by the wire itself.
The quantum function ::

    qml.RX(x, 0)
    m = measure(0)                                 qml.RX(x, 0)
    qml.cond(m, qml.RY)(y, 1)                      qml.CRY(y, [0, 1])
    return qml.expval(qml.Z(1))                    return qml.expval(qml.Z(1))

on the left is traced like that on the right: one run instead of one for each combination of
outcomes, with the derivatives of straight circuits.

Whether they can be is seen in the jaxpr with gates, for the most part, before it is played.  What
only gates say, as the device gets them, and the jaxpr of the circuit is seen afterwards, and then
the function is played again.
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

# Each combination of the outcomes that decide a conditional has controlled gates of its own.
_MAX_OUTCOMES = 4

# What makes finite numbers, with finite derivatives, of finite ones.  In a branch there may be no
# other: it is computed whatever the outcome.
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
    """The mark of a deferred measurement's outcome, of which nothing may be computed in the end."""


@dataclass
class Deferral:
    """What became of the measurements of a circuit.

    Attributes:
        qubits: those that were measured.
        outcomes: by qubit, since a wire that is allocated may be one that was measured: label and
            outcome.
        fails: whether something needs an outcome; nothing more is applied then.
    """

    qubits: set[int]
    outcomes: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    fails: bool = False

    def can_defer(self, leaves: Sequence[Any]) -> bool:
        """Tell whether a circuit with these results needs no outcome, as far as gates say.

        What is no measurement at its end, only a run with outcomes has: numbers are those of one.
        """
        is_at_end = lambda leaf: is_measurement(leaf) and leaf.mv is None
        return not self.fails and (not self.outcomes or all(map(is_at_end, leaves)))


def _find_control_wires(op: qml.operation.Operator) -> set[Any]:
    """Return the wires of an operator on which it does no more than to be controlled."""
    if isinstance(op, qml.ops.Adjoint | qml.ops.Pow | qml.ops.SProd):
        return _find_control_wires(op.base)
    if isinstance(op, qml.ops.CompositeOp):
        changed = [set(part.wires) - _find_control_wires(part) for part in op.operands]
        return set(op.wires).difference(*changed)
    # Operators that are no operations have no controls.
    return set(getattr(op, "control_wires", ()))


def _can_be_controlled(wires: Sequence[Wire], op: qml.operation.Operator) -> bool:
    """Tell whether an operation can be controlled by wires: no channel is, none acts on them."""
    is_apart = set(wires).isdisjoint(op.wires) and not any(map(is_dynamic, op.wires))
    return is_apart and not isinstance(op, qml.operation.Channel)


@dataclass(frozen=True)
class DeferringPlayer(Player):
    """Plays on a circuit, and defers its mid-circuit measurements.

    Args:
        deferral: what became of them.
    """

    deferral: Deferral = field(kw_only=True)

    def emit(self, operations: list[Any]) -> None:
        """Apply operations, which may be controlled by deferred wires only."""
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
        """Allocate or deallocate wires, which must not be reset."""
        super().allocate(op)
        self.deferral.fails |= self.circuit.has_mid_circuit

    def mid_measure(self, label: Wire, *, reset: bool, postselect: int, site: str) -> Any:
        """Note that a wire is measured; return an outcome of which nothing is computed."""
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
        """Run a conditional; where deferred outcomes decide which branch, control each."""
        deferral = self.deferral
        measured = list(deferral.outcomes.values())
        used = find_deciding_inputs(index, [outcome for _, outcome in measured])
        deferral.fails |= len(used) > _MAX_OUTCOMES
        if not used or deferral.fails:
            return super().branch(index, branches)
        wires = [measured[place][0] for place in used]
        every = list(itertools.product((0, 1), repeat=len(used)))
        numbers = evaluate_static(index, [measured[place][1] for place in used], every)
        assert numbers is not None
        results: Any = ()

        def check_controllable(operations: Sequence[Any]) -> Sequence[Any]:
            deferral.fails |= not all(_can_be_controlled(wires, op) for op in operations)
            return () if deferral.fails else operations

        for values, number in zip(every, numbers, strict=True):
            controlled = self.add_controls(wires, list(map(bool, values))).prepend_change(
                check_controllable
            )
            results = branches[int(number)](controlled)
            deferral.fails |= bool(jax.tree.leaves(results))
        return results


def needs_outcomes(closed: ClosedJaxpr, qubits: Collection[int]) -> bool:
    """Tell whether a circuit needs outcomes of deferred qubits after all.

    Args:
        closed: as traced, without dead code.
        qubits: the deferred ones.
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
    """Return the qubits of which a measurement is not the same before and after they are measured.

    Args:
        measurement: of a device.
        qubits: all that there may be.
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
    """Tell whether a jaxpr with gates has measurements, and they may be deferred.

    What branches compute must do no harm where they are not taken.
    """
    measured = list(_iterate_outcomes(jaxpr))
    is_plain = lambda eqn: not eqn.params["reset"] and eqn.params["postselect"] < 0
    return bool(measured) and (
        # One in a part may be made several times, or not.
        len(measured) == sum(eqn.primitive is outcome_p for eqn in jaxpr.eqns)
        and all(map(is_plain, measured))
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
