"""Defer mid-circuit measurements to the end of the circuit.

If a wire is measured and afterwards only controls gates, no outcome has to be drawn and no branch
executed: gates that depend on the outcome can be controlled by the wire itself.  For
``qml.cond(measure(0), qml.RY)(y, 1)``::

    quantum_operations[RX on 0] x                        apply([RX(x, 0)])
    m = quantum_outcome_of_wire[0]
    cond[branches=({ },                          --->    apply([ctrl(RY(y, 1), 0, 1)])
                   { quantum_operations[RY on 1] y })] m

The circuit then takes one run instead of one run for each combination of outcomes, and has the
derivatives of circuits without mid-circuit measurements.

``DeferralPass.is_needed`` rejects most circuits that need outcomes by their jaxpr with gates,
before the gates are applied.  Some circuits are rejected later: by their gates as the device gets
them (``DeferralPass.has_succeeded``), and by the recorded circuit.  The function is then applied
again without deferral.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jax.extend.core.primitives import cond_p

from bellhop.base.types import Wire
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.gates.operation_kind import OperationKind
from bellhop.circuits.ir.circuit_config import CircuitConfig
from bellhop.circuits.ir.gate_jaxpr import GateJaxpr, has_other_effects
from bellhop.circuits.ir.interpreter import Interpreter
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.passes.allocate import AllocationPass
from bellhop.circuits.passes.backend_circuit import BackendCircuit
from bellhop.circuits.passes.circuit_pass import CircuitPass
from bellhop.circuits.passes.deferral_obstacles import MAX_OUTCOMES, has_deferral_obstacle
from bellhop.circuits.passes.operation_transforms import make_rewrite
from bellhop.circuits.passes.regions.control import ControlPass
from bellhop.circuits.passes.rewrite import add_rewrite
from bellhop.control_flow.tagged_values import ValueTag
from bellhop.jaxprs.constant_eval import evaluate_static, find_deciding_inputs
from bellhop.jaxprs.equations import inner_jaxprs, iterate_equations
from bellhop.tracing.current_circuit import Branches

if TYPE_CHECKING:
    import pennylane as qml

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
    """Marks the value that replaces a deferred measurement's outcome in the jaxpr.

    The value is always False, so no equation of the recorded circuit may use it;
    `DeferralPass.uses_outcome` finds it by the tag.
    """


@dataclass
class _Deferral:
    """Progress of deferring the measurements of one circuit, shared by its passes.

    Attributes:
        outcomes: a dictionary from the qubit index of each measured wire to a pair: the wire's
            label, and the tagged value that replaces the outcome. The keys are not labels, since an
            allocated wire may map to a qubit that was measured.
        fails: whether an operation needs a real outcome, so that the circuit must be traced again
            without deferral. Once this is True, no more gates are applied.
    """

    outcomes: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    fails: bool = False


def _can_be_controlled(wires: Sequence[Wire], op: qml.operation.Operator) -> bool:
    """Return whether ``qml.ctrl`` can control an operation by the measured wires.

    False for a channel, for an operation on one of the measured wires, and for an operation on a
    traced wire, which may be one of them.

    Args:
        wires: the labels of the measured wires.
        op: the operation.
    """
    is_apart = set(wires).isdisjoint(op.wires) and not any(map(is_dynamic, op.wires))
    return is_apart and OperationKind.classify(op) is not OperationKind.CHANNEL


class _DeferredWiresCheck(CircuitPass):
    """Pass that fails the deferral if a gate changes a measured wire.

    After its measurement, a wire may only control gates; otherwise a measurement at the end would
    see another state. This pass is the last one, since transforms may replace operations.

    Args:
        target: the next interpreter, which gets the operations until deferral fails.
        circuit: the backend's circuit.
        deferral: the progress of deferring. This pass sets its ``fails``.
    """

    def __init__(self, target: Interpreter, circuit: BackendCircuit, deferral: _Deferral) -> None:
        super().__init__(target)
        self._circuit = circuit
        self._deferral = deferral

    def apply(self, operations: Sequence[Any]) -> None:
        """Pass operations on; fail the deferral if one may change a measured wire.

        An operation may change a measured wire if it acts on the wire other than as a control, if
        it acts on a traced wire, or if it acts on a NumPy scalar that is not a wire label of the
        device. After a failure, only allocations are passed on, which keep the circuit's wire map
        consistent. An allocation that resets a wire fails the deferral too.
        """
        deferral, circuit = self._deferral, self._circuit
        for are_allocations, group in itertools.groupby(operations, Allocations.is_allocation):
            part = list(group)
            for op in part if deferral.outcomes and not are_allocations else ():
                controls = Modifiers.find_control_wires(op)
                deferral.fails |= any(
                    self._is_unknown(wire)
                    or (circuit.wires(wire) in deferral.outcomes and wire not in controls)
                    for wire in op.wires
                )
            if are_allocations or not deferral.fails:
                self.target.apply(part)
            if are_allocations:
                # A wire that is reset needs an outcome.
                deferral.fails |= circuit.has_mid_circuit

    def _is_unknown(self, wire: Wire) -> bool:
        """Return whether a wire is traced, or a NumPy scalar that the device has no wire for."""
        is_computed = isinstance(wire, np.generic)
        return is_dynamic(wire) or (is_computed and wire not in self._circuit.labels())


class _DeferredControl(ControlPass):
    """Pass that controls the gates of a branch by the measured wires.

    If a gate cannot be controlled, the deferral fails.

    Args:
        target: the next interpreter, which gets the controlled operations.
        wires: the labels of the measured wires on whose outcomes the conditional depends.
        values: for each of these wires, the outcome for which the branch runs.
        deferral: the progress of deferring. This pass sets its ``fails``.
    """

    def __init__(
        self, target: Interpreter, wires: list[Any], values: list[bool], deferral: _Deferral
    ) -> None:
        super().__init__(target, wires, values)
        self._measured = wires
        self._deferral = deferral

    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations with controls; fail the deferral if one cannot be controlled."""
        self._deferral.fails |= not all(_can_be_controlled(self._measured, op) for op in operations)
        if not self._deferral.fails:
            super().apply(operations)


class DeferralPass(CircuitPass):
    """Pass that replaces mid-circuit measurements by controls on the measured wires.

    A conditional on outcomes becomes the gates of all its branches, each controlled by the measured
    wires. If this turns out to be impossible while gates are applied, `has_succeeded` returns
    False.

    Args:
        circuit: the backend's circuit, at the end of the chain of passes.
        closed: the quantum function, a jaxpr with gate equations.
        config: the QNode's settings. Its transforms are applied to the controlled operations.
    """

    def __init__(self, circuit: BackendCircuit, closed: ClosedJaxpr, config: CircuitConfig) -> None:
        self._deferral = _Deferral()
        target = AllocationPass.wrap_circuit(circuit, closed)
        check = _DeferredWiresCheck(target, circuit, self._deferral)
        super().__init__(add_rewrite(check, make_rewrite(config)))
        self._circuit = circuit

    @staticmethod
    def is_needed(closed: ClosedJaxpr, measures_at_end: bool, config: CircuitConfig) -> bool:
        """Return whether a circuit has mid-circuit measurements that may be deferred.

        All of them must be outside of loops and branches, without reset and postselection, and the
        circuit must have no callbacks with effects. With deferral, the gates of all branches are
        applied, so branches must have no values that may be infinite or NaN, no allocations and no
        loops with a dynamic trip count. Also False if the jaxpr shows already that deferral would
        fail, see `has_deferral_obstacle`.

        Args:
            closed: the quantum function, a jaxpr with gate equations.
            measures_at_end: whether it returns only measurements at the end of the circuit.
            config: the QNode's settings.
        """
        jaxpr = closed.jaxpr
        outcomes = GateJaxpr(closed, ()).outcomes
        is_plain = lambda eqn: not eqn.params["reset"] and eqn.params["postselect"] < 0
        return (
            measures_at_end
            and bool(outcomes)
            # A measurement in a loop or a branch may be executed several times, or never.
            and set(map(id, outcomes)) <= set(map(id, jaxpr.eqns))
            and all(map(is_plain, outcomes))
            and not any(map(has_other_effects, jaxpr.eqns))
            and all(
                inner.primitive.name in _FINITE_PRIMITIVES
                and inner.params.get("length", 0) is not None
                and not inner.params.get("allocates", False)
                for eqn in iterate_equations(jaxpr)
                if eqn.primitive is cond_p
                for branch in inner_jaxprs(eqn)
                for inner in iterate_equations(branch)
            )
            and not has_deferral_obstacle(closed, rewrites=make_rewrite(config) is not None)
        )

    def has_succeeded(self, leaves: Sequence[Any]) -> bool:
        """Return whether the circuit was applied without any mid-circuit outcome.

        False if the deferral failed, or if a measurement was deferred and the function returns
        other values than measurements at the end of the circuit: numbers, or ``qml.expval(m)`` of
        an outcome ``m``. The caller then applies the circuit again, with real mid-circuit
        measurements. An outcome that is used as a number, such as an angle, is found by
        `uses_outcome` instead.

        Args:
            leaves: the leaves of the quantum function's result.
        """
        deferral = self._deferral
        is_at_end = lambda leaf: is_measurement(leaf) and leaf.mv is None
        return not deferral.fails and (not deferral.outcomes or all(map(is_at_end, leaves)))

    @property
    def qubits(self) -> set[int]:
        """The qubits whose measurements are deferred."""
        return set(self._deferral.outcomes)

    @staticmethod
    def uses_outcome(eqn: JaxprEqn) -> bool:
        """Return whether an equation of a recorded circuit shows that an outcome is used.

        A deferred outcome is replaced by a tagged constant. If the equation with the tag remains
        after dead-code elimination, the circuit uses the outcome, and must be traced again without
        deferral.

        Args:
            eqn: an equation of the recorded circuit.
        """
        return _DeferredTag.is_tagging(eqn)

    def mid_measure(
        self, label: Wire, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Register a wire as measured without measuring it, or fail the deferral.

        Deferral fails for a traced wire, a wire that was measured before, and a reset. The
        arguments are as in `Interpreter.mid_measure`; `is_needed` excludes a postselection.

        Returns:
            a traced False in place of the outcome, tagged so that its uses can be found.
        """
        del postselect, site
        deferral, wires = self._deferral, self._circuit.wires
        outcome = _DeferredTag().tag(jnp.asarray(False))
        if is_dynamic(label) or wires(label) in deferral.outcomes or reset:
            deferral.fails = True
        else:
            deferral.outcomes[wires(label)] = label, outcome
        return outcome

    def branch(self, branches: Branches) -> Any:
        """Replace a conditional on deferred outcomes by the controlled gates of its branches.

        For ``cond(m, f)`` of the outcome ``m`` of wire 0, this applies the gates of ``f``
        controlled by wire 0. Deferral fails if the conditional depends on more than `MAX_OUTCOMES`
        outcomes, or if a branch returns values. A conditional on other values, or after deferral
        has failed, is forwarded to the next interpreter unchanged.

        Returns:
            the result of the conditional, which is empty if it was replaced.
        """
        deferral = self._deferral
        measured = list(deferral.outcomes.values())
        used = find_deciding_inputs(branches.index, [outcome for _, outcome in measured])
        deferral.fails |= len(used) > MAX_OUTCOMES
        if not used or deferral.fails:
            return super().branch(branches)
        wires = [measured[place][0] for place in used]
        combinations = list(itertools.product((0, 1), repeat=len(used)))
        indices = evaluate_static(
            branches.index, [measured[place][1] for place in used], combinations
        )
        assert indices is not None
        results: Any = ()
        outer = self.target
        try:
            for values, branch_index in zip(combinations, indices, strict=True):
                # The branch applies its gates with this pass.
                self.target = _DeferredControl(outer, wires, list(map(bool, values)), deferral)
                results = branches.functions[int(branch_index)]()
                deferral.fails |= bool(jax.tree.leaves(results))
        finally:
            self.target = outer
        return results
