"""Choose whether a density matrix averages over all mid-circuit outcomes of a circuit.

A measurement whose outcome is forgotten is a channel, and a conditional on the outcome is a gate
that the measured wire controls, as long as no other gate changes this wire::

    m = quantum_outcome_of_wire[0]                    apply([QubitChannel([P0, P1], 0)])
    cond[branches=({ },                        --->   apply([ctrl(RY(y), 0)])
                   { quantum_operations[RY on 1] y })] m

So a density matrix needs one run, and a state vector one for each combination of outcomes.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop.circuits.gates.operation_kind import OperationKind
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.gate_jaxpr import (
    ForLoop,
    GateJaxpr,
    UnknownValue,
    WhileLoop,
    get_operations,
    has_other_effects,
)
from bellhop.circuits.ir.interpreter import GateInterpreter
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.jaxprs.constant_eval import evaluate_or_none
from bellhop.tracing.state import trace_state

# A conditional on n outcomes becomes 2**n sets of controlled gates, so n is limited.
_MAX_DECIDING_OUTCOMES = 4

# Loops of circuits with at most this number of operations are unrolled.
_MAX_UNROLLED = 200

# A density matrix runs a circuit of the engine if the circuit has at most 6 qubits, at least 10
# outcomes, and two more than twice the qubits: a run for each combination of outcomes takes
# 2**outcomes * 2**qubits amplitudes, a density matrix 4**qubits numbers.  With fewer outcomes,
# calls are faster too, but the first call takes over twice as long (benchmarks/cases/outcomes.py).
_MAX_QUBITS, _MIN_OUTCOMES = 6, 10
_MEASUREMENTS = ("ExpectationMP", "VarianceMP", "ProbabilityMP")

# Primitives with finite results and derivatives for finite operands.  A branch computes its
# parameters with these alone, since it is computed even if its outcome has probability zero.
_FINITE_PRIMITIVES = frozenset(
    ("add", "broadcast_in_dim", "convert_element_type", "cos", "mul", "neg", "reshape", "sin")
    + ("slice", "squeeze", "sub")
)
_GATES = (OperationKind.GATE, OperationKind.GLOBAL_PHASE, OperationKind.IGNORED)


class _OutcomeTable(NamedTuple):
    """A value that depends on nothing but mid-circuit outcomes and constants.

    Attributes:
        outcomes: the outcomes on which it depends, each numbered in the order of measurement.
        values: the value for each combination of these outcomes (0 or 1), in the order of
            ``itertools.product``: the last outcome varies fastest.
    """

    outcomes: tuple[int, ...]
    values: Sequence[np.ndarray]

    def get_value(self, combination: dict[int, int]) -> np.ndarray:
        """Return the value for one combination of outcomes.

        Args:
            combination: maps the number of each outcome to its value, 0 or 1. It may have more
                outcomes than the table.
        """
        bits = "".join(str(combination[number]) for number in self.outcomes)
        return self.values[int(bits, 2)]


class OutcomeAverages(GateInterpreter):
    """Finds out whether a density matrix can average over a circuit's mid-circuit outcomes.

    It can if a channel can replace each mid-circuit measurement, and gates that the measured wires
    control can replace each conditional on outcomes. `find_outcome_averages` makes an instance for
    a traced circuit. The interpreter evaluates constants, and values of outcomes alone; all other
    values are unknown, which None represents.

    Args:
        closed: the circuit, a jaxpr with gates.
        unrolls: whether loops of static trip count are unrolled, so that the indices of their
            iterations are constants.

    Attributes:
        unrolls: the argument ``unrolls``.
        is_possible: whether all outcomes and conditionals of the circuit can be replaced. It is
            final after construction; if it is False, the other attributes have no meaning.
        n_outcomes: the largest number of outcomes of a run.
        n_operations: an upper bound of the number of operations and outcomes of a run.
        kinds: the kinds of operations in the circuit.
        measurements: the names of the classes of returned measurements; empty until
            `find_outcome_averages` sets it.
    """

    def __init__(self, closed: ClosedJaxpr, *, unrolls: bool = False) -> None:
        self.unrolls = unrolls
        self.is_possible = True
        self.n_outcomes = self.n_operations = 0
        self.kinds: set[OperationKind] = set()
        self.measurements: set[str] = set()
        # The measured wire of each outcome by its number, while the wire still holds the outcome.
        self._holders: dict[int, Any] = {}
        self._n_measurements = 0
        # The numbers of the outcomes whose wires are reset.
        self._are_reset: set[int] = set()
        self._reject_tables(self.interpret(closed, *[None] * len(closed.in_avals)))

    def interpret(self, closed: ClosedJaxpr, *inputs: Any) -> list[Any]:
        """Interpret a jaxpr, and return its results.

        Results and inputs are constants, tables of values by mid-circuit outcomes, or None if
        unknown. The constants of the jaxpr are taken as unknown.
        """
        unknown = [None] * len(closed.consts)
        return super().interpret(ClosedJaxpr(closed.jaxpr, unknown), *inputs)

    def _reject_tables(self, values: Sequence[Any]) -> None:
        """Clear ``is_possible`` if any of the values depends on mid-circuit outcomes.

        Called for values on which outcomes must have no influence: only predicates of conditionals,
        and classical values for them, may depend on outcomes.
        """
        self.is_possible &= not any(isinstance(value, _OutcomeTable) for value in values)

    def _forget_outcomes(self, wires: Sequence[Any]) -> None:
        """Note that gates change wires, which then no longer hold their mid-circuit outcomes.

        A conditional on an outcome needs the measured wire as a control, so the wire must be
        unchanged.

        Args:
            wires: wire labels. For a traced wire or an ``UnknownValue``, which may be any wire, no
                wire holds its outcome afterwards.
        """
        labels = set(map(find_label, wires))
        kept = {} if None in labels else self._holders
        self._holders = {number: label for number, label in kept.items() if label not in labels}

    def _forget_reset_outcomes(self) -> None:
        """Note that wires which are reset after their measurement no longer hold the outcome.

        Called at the ends of a loop's body or a branch: there, if not before, the compiler pass
        that averages over outcomes applies a delayed reset.
        """
        kept = self._holders.keys() - self._are_reset
        self._holders = {number: self._holders[number] for number in kept}

    def _interpret_part(self, closed: ClosedJaxpr, *inputs: Any) -> None:
        """Interpret the body of a loop, or a branch.

        ``is_possible`` is cleared if the body or branch returns a value that depends on outcomes.
        Wires that are reset after their measurement no longer hold the outcome at its beginning and
        at its end.
        """
        self._forget_reset_outcomes()
        self._reject_tables(self.interpret(closed, *inputs))
        self._forget_reset_outcomes()

    def _interpret_classical(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]:
        """Evaluate an equation without gates, for each combination of its operands' outcomes.

        ``is_possible`` is cleared for an equation with effects, for more than four outcomes, and if
        an unknown operand makes a result depend on more than outcomes.

        Args:
            eqn: the equation.
            *operands: constants, tables of values by mid-circuit outcomes, or None if unknown.

        Returns:
            for each result a table of values, if an operand is a table. Otherwise its constant
            value, or None if it is unknown.
        """
        self.is_possible &= not eqn.effects
        tables = [value for value in operands if isinstance(value, _OutcomeTable)]
        if not tables:
            return evaluate_or_none(eqn, *operands)
        outcomes = sorted({number for table in tables for number in table.outcomes})
        unknown = [None] * len(eqn.outvars)
        if len(outcomes) > _MAX_DECIDING_OUTCOMES:
            self.is_possible = False
            return unknown
        rows = []
        for bits in itertools.product((0, 1), repeat=len(outcomes)):
            combination = dict(zip(outcomes, bits, strict=True))
            rows.append(
                evaluate_or_none(
                    eqn,
                    *(
                        value.get_value(combination) if isinstance(value, _OutcomeTable) else value
                        for value in operands
                    ),
                )
            )
        if any(value is None for row in rows for value in row):
            self.is_possible = False
            return unknown
        return [_OutcomeTable(tuple(outcomes), column) for column in zip(*rows, strict=True)]

    def _interpret_operations(self, eqn: JaxprEqn, *operands: Any) -> list[Any]:
        """Count the operations of an equation, and note their kinds.

        Their wires no longer hold mid-circuit outcomes. ``is_possible`` is cleared if a parameter
        depends on outcomes, for control flow among the operations, and for operations that allocate
        wires.

        Returns:
            an empty list: the equation has no results.
        """
        self._reject_tables(operands)
        self.is_possible &= not eqn.params["allocates"]
        for op in get_operations(eqn, _mark_unknown(operands)):
            self.n_operations += 1
            self.is_possible &= not ControlFlow.is_instance(op)
            self.kinds.add(OperationKind.classify(op))
            self._forget_outcomes(op.wires)
        return []

    def _interpret_outcome(self, eqn: JaxprEqn, *operands: Any) -> list[Any]:
        """Count a mid-circuit measurement, whose wire now holds its outcome.

        ``is_possible`` is cleared if it postselects.

        Returns:
            a list of one table: the outcome is False or True.
        """
        self._reject_tables(operands)
        self.is_possible &= eqn.params["postselect"] < 0
        wires = eqn.params["operator"].with_values(_mark_unknown(operands))
        self._forget_outcomes(wires)
        number = self._n_measurements
        self._n_measurements += 1
        self._are_reset |= {number} if eqn.params["reset"] else set()
        label = find_label(wires[0])
        if label is not None:
            self._holders[number] = label
        self.n_outcomes += 1
        self.n_operations += 1
        return [_OutcomeTable((number,), [np.asarray(False), np.asarray(True)])]

    def _interpret_region(self, eqn: JaxprEqn, *operands: Any) -> list[Any]:
        """Interpret the adjoint of a function, or a function with control wires.

        ``is_possible`` is cleared if the function measures. The control wires count as changed, so
        they no longer hold outcomes.

        Returns:
            an empty list: the equation has no results.
        """
        self._reject_tables(operands)
        body, controls = eqn.params["body"], eqn.params["controls"]
        n, before = len(body.in_avals), self.n_outcomes
        self.interpret(body, *operands[:n])
        self.is_possible &= self.n_outcomes == before
        if controls is not None:
            self._forget_outcomes(controls.with_values(_mark_unknown(operands[n:]))[0])
        return []

    def _interpret_for_loop(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]:
        """Interpret a loop: each iteration if it is unrolled, else one iteration for all.

        Without unrolling, carried values are unknown. The outcomes and operations of the iteration
        are counted once, or multiplied by the trip count if it is static. ``is_possible`` is
        cleared if a loop with a dynamic trip count measures.

        Returns:
            the carried values after the loop; None for unknown values.
        """
        loop = ForLoop.from_equation(eqn, operands)
        if self.unrolls and isinstance(loop.length, int):
            carried: Sequence[Any] = loop.carried
            for number in range(loop.length):
                inputs = [*loop.constants, np.asarray(number), *carried]
                carried = self.interpret(loop.body, *inputs)
            return carried
        self._reject_tables(operands)
        unknown = [None] * len(loop.carried)
        before = self.n_outcomes, self.n_operations
        self._interpret_part(loop.body, *loop.constants, None, *unknown)
        is_known = isinstance(loop.length, int)
        self.is_possible &= is_known or self.n_outcomes == before[0]
        if is_known:
            self.n_outcomes, self.n_operations = (
                first + loop.length * (now - first)
                for first, now in zip(before, (self.n_outcomes, self.n_operations), strict=True)
            )
        return unknown

    def _interpret_while_loop(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]:
        """Interpret a ``while`` loop: one iteration, whose carried values are unknown.

        ``is_possible`` is cleared if the loop measures, or has effects other than gates.

        Returns:
            None for each carried value after the loop.
        """
        self._reject_tables(operands)
        loop = WhileLoop.from_equation(eqn, operands)
        unknown, before = [None] * len(loop.carried), self.n_outcomes
        self._interpret_part(loop.body, *loop.constants, *unknown)
        self.is_possible &= self.n_outcomes == before and not has_other_effects(eqn)
        return unknown

    def _interpret_cond(self, eqn: JaxprEqn, *given: Any) -> list[Any]:
        """Interpret all branches of a conditional; its results are unknown (None).

        The numbers of outcomes and of operations each grow by the largest number of any branch. If
        mid-circuit outcomes decide the branch, `_interpret_decided` interprets the conditional
        instead.
        """
        index, *operands = given
        self._reject_tables(operands)
        unknown = [None] * len(eqn.outvars)
        if isinstance(index, _OutcomeTable):
            self._interpret_decided(eqn, index, operands)
            return unknown
        before, ends = (self.n_outcomes, self.n_operations), []
        for branch in eqn.params["branches"]:
            self.n_outcomes, self.n_operations = before
            self._interpret_part(branch, *operands)
            ends.append((self.n_outcomes, self.n_operations))
        self.n_outcomes, self.n_operations = map(max, zip(*ends, strict=True))
        return unknown

    def _interpret_decided(
        self, eqn: JaxprEqn, index: _OutcomeTable, operands: Sequence[Any]
    ) -> None:
        """Interpret a conditional whose branch mid-circuit outcomes decide.

        It can be replaced by gates that the measured wires control. ``is_possible`` is cleared
        unless each deciding outcome is still on its wire, and the branches have no results and
        apply only gates that can be controlled, on other static wires, with parameters that are
        computed by primitives with finite results.

        Args:
            eqn: the conditional.
            index: the number of the branch that runs, for each combination of outcomes.
            operands: the operands of the branches.
        """
        holders = [self._holders.get(number) for number in index.outcomes]
        self.is_possible &= None not in holders and not eqn.outvars
        for branch in eqn.params["branches"]:
            inner = branch.jaxpr.eqns
            by_equation = [get_operations(each) for each in inner]
            self.is_possible &= all(
                found or each.primitive.name in _FINITE_PRIMITIVES
                for each, found in zip(inner, by_equation, strict=True)
            )
            operations = [op for found in by_equation for op in found]
            labels = {find_label(wire) for op in operations for wire in op.wires}
            self.is_possible &= all(map(_can_be_controlled, operations))
            self.is_possible &= None not in labels and labels.isdisjoint(holders)
            self.interpret(branch, *operands)


def _can_be_controlled(op: Any) -> bool:
    """Return whether an operation is a gate to which control wires can be added."""
    return not ControlFlow.is_instance(op) and OperationKind.classify(op) in _GATES


def find_label(wire: Any) -> Any:
    """Return the label of a wire; None for a traced wire."""
    if isinstance(wire, UnknownValue) or is_dynamic(wire):
        return None
    return int(wire) if isinstance(wire, np.ndarray | np.generic) else wire


def _mark_unknown(operands: Sequence[Any]) -> list[Any]:
    """Replace each None by an ``UnknownValue``, to rebuild operations from operands."""
    return [UnknownValue() if operand is None else operand for operand in operands]


class _SurroundingCircuit(NamedTuple):
    """Stand-in for a circuit, with which a quantum function can be traced.

    It has only the wires of a circuit. `find_outcome_averages` only reads the traced function, so
    no operations are recorded.

    Attributes:
        wires: maps wire labels to qubit indices.
        has_operation_outcomes: False: outcomes are not PennyLane operations here.
    """

    wires: WireMap
    has_operation_outcomes: bool = False

    def labels(self) -> Sequence[Any]:
        """Return the wire labels of the device."""
        return self.wires.labels


def find_outcome_averages(call: Circuit, wires: WireMap) -> OutcomeAverages | None:
    """Find out whether a density matrix can average over a circuit's mid-circuit outcomes.

    This traces the quantum function. Channels must be able to replace the measurements.

    Returns:
        the result of the analysis; None if outcomes cannot be replaced. None also for a circuit
        without mid-circuit outcomes, if the circuit returns anything but measurements of wires or
        observables, and for a circuit with shots, transforms, compiler passes, foldings, mitigation
        or a ``mcm_method`` of the user, which need another treatment.
    """
    config, state = call.config, trace_state()
    is_plain = not (config.shots.total or config.mcm_method or config.transforms or config.passes)
    if not is_plain or state.folding is not None or state.mitigation is not None:
        return None
    traced = call.function.get_traced(
        call.where, call.inputs, cast(Any, _SurroundingCircuit(wires))
    )
    if not GateJaxpr(traced.closed, ()).has_outcomes:
        return None
    leaves = traced.leaves.with_values([UnknownValue()] * len(traced.closed.out_avals))
    if not all(is_measurement(leaf) and leaf.mv is None for leaf in leaves):
        return None
    averages = OutcomeAverages(traced.closed)
    if averages.n_operations <= _MAX_UNROLLED:
        averages = OutcomeAverages(traced.closed, unrolls=True)
    averages.measurements = {type(leaf).__name__ for leaf in leaves}
    return averages if averages.is_possible else None


def explain_density_matrix(call: Circuit, wires: WireMap) -> str:
    """Return why a density matrix is better than the engine for a circuit; else "".

    Bellhop's engine runs a circuit once for each combination of mid-circuit outcomes. A density
    matrix is better for many outcomes (at least 10, and ``2 * qubits + 2``) on up to 6 qubits, if
    channels can replace the outcomes, ``diff_method`` is ``best``, and all measurements are expval,
    var or probs. Not in a region (a part of the program on another device), and not in a mesh of
    explicit or manual axes.
    """
    n_qubits = len(wires)
    # In a region, or a mesh of explicit or manual axes, the engine runs on one device.
    is_inside = trace_state().in_region or jax.sharding.get_abstract_mesh().axis_types
    is_free = call.config.diff_method == DiffMethod.BEST and not is_inside
    averages = find_outcome_averages(call, wires) if is_free and n_qubits <= _MAX_QUBITS else None
    if (
        averages is None
        or averages.n_outcomes < max(_MIN_OUTCOMES, 2 * n_qubits + 2)
        or not averages.kinds.issubset(_GATES)
        or not averages.measurements.issubset(_MEASUREMENTS)
    ):
        return ""
    return f"a density matrix is cheaper than all {averages.n_outcomes} outcomes"
