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

The first trace has outcomes, and notes whether anything needs them.  If nothing does, the quantum
function is traced again, with all of its measurements deferred.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import jax
import numpy as np
import pennylane as qml
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Primitive

from bellhop.base.equations import equations_of, inner_jaxprs
from bellhop.base.known_values import deciding, known_at
from bellhop.circuits.circuit.traced_circuit import Once, Trace
from bellhop.circuits.gates.wires import is_dynamic
from bellhop.circuits.measure.device_measurements import Expval, Frequencies, Probs, Samples, Var
from bellhop.circuits.measure.measurements import MeasurementList
from bellhop.circuits.measure.observable_code import factors_of, is_diagonal, wires_of
from bellhop.circuits.measure.process import is_measurement
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
    "pad", "quantum_gates", "real", "reduce_sum", "reshape", "rev", "select_n", "sign", "sin",
    "slice", "split", "square", "squeeze", "stack", "stop_gradient", "sub", "tanh", "transpose",
    "unstack", "xor",
))
# fmt: on

# The outcome of a deferred measurement, bool[], of which nothing may be computed in the end.
_outcome_p = Primitive("quantum_deferred_outcome")
_outcome_p.def_abstract_eval(lambda _: ShapedArray((), np.dtype(bool)))


class _NeedsOutcomesError(BaseException):
    """A circuit does what needs outcomes.  No ``except Exception`` of the user's is to see it."""


def _only_controlling(op: Any) -> set[Any]:
    """Return the wires of an operator on which it does no more than to be controlled."""
    if isinstance(op, qml.ops.Adjoint | qml.ops.Pow | qml.ops.SProd):
        return _only_controlling(op.base)
    if isinstance(op, qml.ops.CompositeOp):
        changed = [set(part.wires) - _only_controlling(part) for part in op.operands]
        return set(op.wires).difference(*changed)
    # Operators that are no operations have no controls.
    return set(getattr(op, "control_wires", ()))


class CircuitOfOutcomes(Circuit):
    """A circuit that notes whether its mid-circuit measurements could be deferred."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # By qubit, since a wire that is allocated may be one that was measured: label and outcome.
        self._outcomes: dict[int, tuple[Any, Any]] = {}
        self._may_defer = True
        self._is_part = False

    @property
    def may_defer(self) -> bool:
        """Whether there are measurements, and nothing that needs their outcomes was noticed."""
        return self._may_defer and bool(self._outcomes)

    def _needs_outcomes(self) -> None:
        """Note that something needs outcomes."""
        self._may_defer = False

    def apply(self, operations: list[Any]) -> None:
        """Append the gates of operations, which may be controlled by deferred wires only."""
        for op in operations if self.may_defer else ():
            controls = _only_controlling(op)
            for wire in op.wires:
                if is_dynamic(wire) or (
                    self.wires(wire) in self._outcomes and wire not in controls
                ):
                    self._needs_outcomes()
        super().apply(operations)

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
                self._needs_outcomes()
        return super().measure(measured)

    @contextmanager
    def _part(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        was_part, self._is_part = self._is_part, True
        try:
            with super()._part(*args, **kwargs):
                yield
        finally:
            self._is_part = was_part

    def _measured_now(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        qubit = None if is_dynamic(label) else self.wires(label)
        is_special = reset or postselect >= 0 or self._is_part
        if is_special or qubit is None or qubit in self._outcomes:
            self._needs_outcomes()
        outcome = self._outcome_of(label, reset=reset, postselect=postselect, site=site)
        if qubit is not None and not self._is_part:
            self._outcomes[qubit] = label, outcome
        return outcome

    def _outcome_of(self, label: Any, **options: Any) -> Any:
        return super()._measured_now(label, **options)

    def traced(self, function: Callable[..., Any], *args: Any) -> tuple[list[Any], Any]:
        """Run a quantum function; return the leaves and the structure of its result."""
        leaves, tree = super().traced(function, *args)
        # Numbers beside measurements are those of one run, and so is all.
        if self._outcomes and not all(map(is_measurement, leaves)):
            self._needs_outcomes()
        return leaves, tree


class DeferringCircuit(CircuitOfOutcomes):
    """A circuit whose mid-circuit measurements are deferred."""

    def _needs_outcomes(self) -> NoReturn:
        raise _NeedsOutcomesError

    def _outcome_of(self, label: Any, **options: Any) -> Any:
        self._is_fresh = False
        return _outcome_p.bind(self._session)

    def branch(self, branches: Branches) -> Any:
        """Run one branch of a conditional; where deferred outcomes decide which, control each."""
        measured = list(self._outcomes.values())
        used = deciding(branches.index, [outcome for _, outcome in measured])
        if not used:
            return super().branch(branches)
        if len(used) > _MOST_OUTCOMES:
            self._needs_outcomes()
        self.flush_active(branches.construct)
        wires = [measured[place][0] for place in used]
        results: list[Any] = []
        every = list(itertools.product((0, 1), repeat=len(used)))
        numbers = known_at(branches.index, [measured[place][1] for place in used], every)
        assert numbers is not None
        for values, number in zip(every, numbers, strict=True):

            def run(function: Callable[..., Any] = branches.functions[int(number)]) -> None:
                results.append(function())

            control(self, wires, list(map(bool, values)), run)
        if jax.tree.leaves(results):
            self._needs_outcomes()
        return results[0]


def deferring_if_possible(trace: Trace) -> Once:
    """Return a circuit, as traced, that defers its measurements if it can, else one with outcomes.

    Args:
        trace: traces the quantum function.
    """
    made: list[CircuitOfOutcomes] = []

    def make(*args: Any) -> Circuit:
        made.append(CircuitOfOutcomes(*args))
        return made[-1]

    once = trace(make)
    if not (made[-1].may_defer and _may_compute_all_branches(once.closed)):
        return once
    try:
        deferred = trace(DeferringCircuit)
    except (_NeedsOutcomesError, Exception):
        # Some gates have no controlled form.
        return once
    equations = equations_of(deferred.closed.jaxpr)
    return once if any(eqn.primitive is _outcome_p for eqn in equations) else deferred


def _may_compute_all_branches(closed: ClosedJaxpr) -> bool:
    """Tell whether what the branches of a circuit compute does no harm where they are not taken."""
    return not closed.effects and all(
        inner.primitive.name in _FINITE
        for eqn in equations_of(closed.jaxpr)
        if eqn.primitive.name == "cond"
        for branch in inner_jaxprs(eqn)
        for inner in equations_of(branch)
    )
