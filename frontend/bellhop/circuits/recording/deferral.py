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

Whether they can be is seen in the jaxpr with gates, for the most part; what only gates and
measurements say, as the device gets them, ends the trace, and the function is played again.
"""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pennylane as qml
from jax.core import ShapedArray
from jax.extend.core import Jaxpr, Primitive
from jax.extend.core.primitives import cond_p

from bellhop.base.equations import equations_of, inner_jaxprs
from bellhop.base.known_values import deciding, known_at
from bellhop.circuits.circuit.traced_circuit import Once, Trace
from bellhop.circuits.gates.gates import GateList
from bellhop.circuits.gates.wires import is_dynamic
from bellhop.circuits.measure.device_measurements import Expval, Frequencies, Probs, Samples, Var
from bellhop.circuits.measure.measurements import MeasurementList
from bellhop.circuits.measure.observable_code import factors_of, is_diagonal, wires_of
from bellhop.circuits.measure.process import is_measurement
from bellhop.circuits.recording.gate_jaxpr import has_other_effects, outcome_p
from bellhop.circuits.recording.inverted_functions import control
from bellhop.circuits.recording.recording import Circuit
from bellhop.control_flow.steps import Branches

# Each combination of the outcomes that decide a conditional has controlled gates of its own.
_MOST_OUTCOMES = 4

# What makes finite numbers, with finite derivatives, of finite ones.  In a branch there may be no
# other: it is computed whatever the outcome.
# fmt: off
_FINITE = frozenset((
    "abs", "add", "add_any", "and", "broadcast_in_dim", "clamp", "concatenate", "cond",
    "convert_element_type", "copy", "cos", "dot_general", "dynamic_slice", "eq", "gather", "ge",
    "gt", "imag", "iota", "jit", "le", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "pack",
    "pad", "quantum_for_loop", "quantum_operations", "quantum_region", "real", "reduce_sum",
    "reshape", "rev", "select_n", "sign", "sin", "slice", "split", "square", "squeeze", "stack",
    "stop_gradient", "sub", "tanh", "transpose", "unstack", "xor",
))
# fmt: on

# The outcome of a deferred measurement, bool[], of which nothing may be computed in the end.
_outcome_p = Primitive("quantum_deferred_outcome")
_outcome_p.def_abstract_eval(lambda _: ShapedArray((), np.dtype(bool)))


class _NeedsOutcomesError(BaseException):
    """A circuit does what needs outcomes.  No ``except Exception`` is to see it."""


def _only_controlling(op: Any) -> set[Any]:
    """Return the wires of an operator on which it does no more than to be controlled."""
    if isinstance(op, qml.ops.Adjoint | qml.ops.Pow | qml.ops.SProd):
        return _only_controlling(op.base)
    if isinstance(op, qml.ops.CompositeOp):
        changed = [set(part.wires) - _only_controlling(part) for part in op.operands]
        return set(op.wires).difference(*changed)
    # Operators that are no operations have no controls.
    return set(getattr(op, "control_wires", ()))


class DeferringCircuit(Circuit):
    """A circuit whose mid-circuit measurements are deferred.

    Raises:
        _NeedsOutcomesError: where one of them cannot be.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # By qubit, since a wire that is allocated may be one that was measured: label and outcome.
        self._outcomes: dict[int, tuple[Any, Any]] = {}

    def expect(self, jaxpr: Jaxpr) -> None:
        """Take note of the jaxpr that is going to be played."""
        if not _may_be_deferred(jaxpr):
            raise _NeedsOutcomesError
        super().expect(jaxpr)

    def _runs(self, operations: list[Any], most: int | None = None) -> GateList:
        """Return the gates of operations, which may be controlled by deferred wires only."""
        for op in operations if self._outcomes else ():
            controls = _only_controlling(op)
            for wire in op.wires:
                if is_dynamic(wire) or (
                    self.wires(wire) in self._outcomes and wire not in controls
                ):
                    raise _NeedsOutcomesError
        return super()._runs(operations, most)

    def measure(self, measured: MeasurementList) -> list[Any]:
        """Measure; of deferred wires only what is the same before and after they are measured."""
        deferred = set(self._outcomes)
        for measurement in measured.measurements if deferred else ():
            if isinstance(measurement, Expval | Var):
                factors = itertools.chain.from_iterable(map(factors_of, measurement.terms))
                others = {w for f in factors if not is_diagonal(f) for w in wires_of(f)}
            elif isinstance(measurement, Probs | Samples | Frequencies):
                others = set()
            else:
                others = deferred
            if others & deferred:
                raise _NeedsOutcomesError
        return super().measure(measured)

    def _measured_now(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        if is_dynamic(label) or self.wires(label) in self._outcomes or reset:
            raise _NeedsOutcomesError
        self._is_fresh = False
        outcome = _outcome_p.bind(self._session)
        self._outcomes[self.wires(label)] = label, outcome
        return outcome

    def traced(self, function: Callable[..., Any], *args: Any) -> tuple[list[Any], Any]:
        """Run a quantum function; return the leaves and the structure of its result."""
        leaves, tree = super().traced(function, *args)
        # Numbers beside measurements are those of one run, and so is all.
        is_at_end = lambda leaf: is_measurement(leaf) and leaf.mv is None
        if self._outcomes and not all(map(is_at_end, leaves)):
            raise _NeedsOutcomesError
        return leaves, tree

    def branch(self, branches: Branches) -> Any:
        """Run one branch of a conditional; where deferred outcomes decide which, control each."""
        measured = list(self._outcomes.values())
        used = deciding(branches.index, [outcome for _, outcome in measured])
        if not used:
            return super().branch(branches)
        if len(used) > _MOST_OUTCOMES:
            raise _NeedsOutcomesError
        wires = [measured[place][0] for place in used]
        results: list[Any] = []
        every = list(itertools.product((0, 1), repeat=len(used)))
        numbers = known_at(branches.index, [measured[place][1] for place in used], every)
        assert numbers is not None
        for values, number in zip(every, numbers, strict=True):

            def run(function: Callable[..., Any] = branches.functions[int(number)]) -> None:
                results.append(function())

            try:
                control(self, wires, list(map(bool, values)), run)
            except Exception as error:
                # Some gates have no controlled form.
                raise _NeedsOutcomesError from error
        if jax.tree.leaves(results):
            raise _NeedsOutcomesError
        return results[0]


def deferring_if_possible(trace: Trace) -> Once:
    """Return a circuit, as traced, that defers its measurements if it can, else one with outcomes.

    Args:
        trace: traces the quantum function.
    """
    try:
        deferred = trace(DeferringCircuit)
    except _NeedsOutcomesError:
        return trace(Circuit)
    equations = equations_of(deferred.closed.jaxpr)
    needs_outcomes = any(eqn.primitive is _outcome_p for eqn in equations)
    return trace(Circuit) if needs_outcomes else deferred


def _may_be_deferred(jaxpr: Jaxpr) -> bool:
    """Tell whether the measurements of a jaxpr with gates may be deferred, if it has any.

    What branches compute must do no harm where they are not taken.
    """
    measured = [eqn for eqn in equations_of(jaxpr) if eqn.primitive is outcome_p]
    is_plain = lambda eqn: not eqn.params["reset"] and eqn.params["postselect"] < 0
    return not measured or (
        # One in a part may be made several times, or not.
        len(measured) == sum(eqn.primitive is outcome_p for eqn in jaxpr.eqns)
        and all(map(is_plain, measured))
        and not any(map(has_other_effects, jaxpr.eqns))
        and all(
            inner.primitive.name in _FINITE and inner.params.get("length", 0) is not None
            for eqn in equations_of(jaxpr)
            if eqn.primitive is cond_p
            for branch in inner_jaxprs(eqn)
            for inner in equations_of(branch)
        )
    )
