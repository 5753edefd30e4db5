"""Run circuits on ``default.clifford`` with shots, by one call of Stim.

The quantum function is traced to a jaxpr whose input is the measurement record of one shot.
Equations that do not depend on the record run once; one of them samples the records of all shots.
All other equations run for each shot, under ``jax.vmap``::

    { lambda ; record. let
        a = stim_sampler[H 0, M 0, CX rec[-1] 1, M 1]      once
        b = bit 0 of record                                for each shot
        c = bit 1 of all of a                              once
      in (a, b, c) }
"""

from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop._jax.jaxprs import bind_equation
from bellhop.circuits.backends.choose.choose_outcomes import choose_outcomes
from bellhop.circuits.backends.stim.clifford_circuit import CliffordCircuit
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.execution_plan import Declined
from bellhop.circuits.ir.executors import Outcomes
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.results import Results
from bellhop.circuits.ir.runtime_checks import FaultRecorder
from bellhop.circuits.ir.seeds import make_random_key, offer_device_seed
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.measure.measurement_registry import (
    measure_results,
    needs_snapshots,
)
from bellhop.errors import CompileError
from bellhop.jaxprs.jaxpr_interpreter import interpret_with


class _TracedShot(NamedTuple):
    """A circuit traced for one shot, whose mid-circuit outcomes are an input.

    Attributes:
        closed: jaxpr from the mid-circuit outcomes of one shot to the outcomes of all shots (eight
            outcomes per byte), the circuit's fault (its first invalid traced wire) and the values
            of its measurements.
        circuit: the circuit after its measurements.
        leaves: the leaves of the quantum function's result.
        results: computes the QNode's result from the values.
    """

    closed: ClosedJaxpr
    circuit: CliffordCircuit
    leaves: Sequence[Any]
    results: Results


def run_clifford(call: Circuit, device: Any, wires: WireMap) -> Any:
    """Trace a circuit on ``default.clifford`` with shots into the program.

    Args:
        device: the PennyLane device, whose random generator seeds the samples.

    Returns:
        the measurement results, in the structure of the quantum function's result; ``Declined`` if
        Stim's sampler does not support a measurement.

    Raises:
        CompileError: if the circuit is not a Clifford circuit that Stim supports.
    """
    where = call.where
    offer_device_seed(device)

    def run_row(rows: TracedRow, row: Any, *inputs: Any) -> tuple[Any, Sequence[Any], Any]:
        """Trace one batch row of the circuit for all shots.

        Args:
            rows: selects the row of batched gate parameters.
            row: the traced index of the row, which gives each row its own random numbers.
            *inputs: the quantum function's arguments that are arrays.

        Returns:
            the QNode's results, and the leaves and the tree structure of the quantum function's
            result; None as results if a measurement is not supported.
        """
        key = make_random_key(row, *inputs)
        faults = FaultRecorder(wires, where)

        def trace_shot(n_bytes: int, repeats: bool) -> _TracedShot | None:
            """Trace the circuit for one shot; None if Stim does not support a measurement.

            Args:
                n_bytes: the size of the shot's record of outcomes.
                repeats: whether loops may become ``REPEAT`` blocks; otherwise, they are unrolled.
            """
            record = jax.ShapeDtypeStruct((n_bytes,), np.uint8)
            outputs: Any = None

            def run(record: Any) -> list[Any]:
                """Apply and measure the circuit; the function that `trace_shot` traces.

                Args:
                    record: uint8 ``[n_bytes]``, the mid-circuit outcomes of one shot.

                Returns:
                    the records of all shots, the circuit's fault (its first invalid traced wire)
                    and the measured values; an empty list if a measurement is not supported.
                """
                nonlocal outputs
                circuit = CliffordCircuit(
                    wires,
                    where,
                    rows,
                    faults,
                    record=record,
                    shots=call.shots.shot_vector,
                    key=key,
                    repeats=repeats,
                )
                leaves, tree = call.function.apply_to_circuit(circuit, inputs)
                results = _measure(call, circuit, leaves, tree)
                if circuit.needs_tapes:
                    return []
                outputs = circuit, leaves, results
                return [circuit.packed_outcomes, circuit.fault, *results.take_values()]

            closed = jax.make_jaxpr(call.name_in_errors(run))(record)
            return None if outputs is None else _TracedShot(closed, *outputs)

        # The first trace determines the size of the record.
        once = trace_shot(1, True)
        if once is None:
            return None, (), None
        n_bytes = once.closed.out_avals[0].shape[1]
        if n_bytes > 1 and once.circuit.n_outcomes:
            once = trace_shot(n_bytes, True) or once
        evaluated = _evaluate_all_shots(once.closed)
        if evaluated is None and once.circuit.has_repeats:
            # A conditional after a `REPEAT` block depends on outcomes that the loop carries.
            once = trace_shot(n_bytes, False) or once
            evaluated = _evaluate_all_shots(once.closed)
        if evaluated is None:
            raise CompileError(
                f"{where}: a wire or a probability depends on mid-circuit outcomes, or a condition "
                "depends on mid-circuit outcomes and on other traced values, which Stim does not "
                "support. Use qml.device('lightning.qubit', wires=...)."
            )
        (_, fault, *values), (_, _, *are_of_shots) = evaluated
        values = _combine_shots(once, values, are_of_shots, where)
        results = faults.raise_faults(once.results.finish(values), fault)
        return results, once.leaves, once.results.tree

    results = call.trace_rows(run_row)
    if results is None:
        return Declined("Stim's sampler does not support a measurement of the circuit")
    return results


def _measure(call: Circuit, circuit: CliffordCircuit, leaves: Sequence[Any], tree: Any) -> Results:
    """Apply the final measurements to a circuit, and sample it.

    Args:
        circuit: the circuit after its last gate. Its ``treatment``, ``is_at_end``, ``needs_tapes``
            and ``packed_outcomes`` are set.
        leaves: the leaves of the quantum function's result, such as measurement processes.
        tree: the tree structure of this result.

    Returns:
        the object that computes the QNode's result; without statistics if a measurement is not
        supported (``circuit.needs_tapes``).

    Raises:
        CompileError: for ``mcm_method="single-branch-statistics"``.
    """
    circuit.treatment = choose_outcomes(call.config, circuit, leaves)
    if circuit.treatment is Outcomes.ONE_RUN:
        raise CompileError(
            f"{call.where}: mcm_method={call.config.mcm_method!r} on default.clifford is not "
            "supported by bellhop. Remove mcm_method: each shot has its own outcomes."
        )
    circuit.is_at_end = True
    circuit.needs_tapes = any(map(needs_snapshots, leaves))
    statistics = [] if circuit.needs_tapes else measure_results(leaves, circuit)
    if circuit.packed_outcomes is None:
        circuit.sample([])
    return Results(statistics, tree, call.shots, circuit.precision, call.where)


# Placeholder for a value that depends on the record of a shot.
_PER_SHOT = object()


def _evaluate_all_shots(closed: ClosedJaxpr) -> tuple[list[Any], list[bool]] | None:
    """Evaluate a jaxpr of one shot's outcomes for the outcomes of all shots.

    The outcomes of a shot, eight per byte, are its *record*. Equations that do not depend on the
    record are evaluated once, all others under ``jax.vmap``.

    Args:
        closed: jaxpr from the record of one shot to a list. The first element is the records of all
            shots, which one of the equations samples.

    Returns:
        the list of values, and for each whether it depends on the record of a shot and therefore
        has a leading axis of shots; None if the records of all shots themselves depend on the
        record.
    """
    once: dict[int, Sequence[Any]] = {}

    def evaluate_equation(eqn: JaxprEqn, *operands: Any) -> Sequence[Any]:
        """Evaluate an equation once, unless an operand depends on the record of a shot.

        The results are stored in ``once``. If an operand depends on the record, the equation is not
        evaluated, and the placeholder `_PER_SHOT` is returned for each result.
        """
        if any(operand is _PER_SHOT for operand in operands):
            return [_PER_SHOT] * len(eqn.outvars)
        once[id(eqn)] = bind_equation(eqn, *operands)
        return once[id(eqn)]

    def evaluate_shot_equation(eqn: JaxprEqn, *operands: Any) -> Sequence[Any]:
        """Evaluate an equation for one shot; reuse its result from ``once`` if there is one."""
        return once[id(eqn)] if id(eqn) in once else bind_equation(eqn, *operands)

    values = interpret_with(closed, lambda _: evaluate_equation, _PER_SHOT)
    are_of_shots = [value is _PER_SHOT for value in values]
    if are_of_shots[0]:
        return None
    evaluate = lambda record: interpret_with(closed, lambda _: evaluate_shot_equation, record)
    if any(are_of_shots):
        values_of_shot = lambda record: [*compress(evaluate(record), are_of_shots)]
        each = iter(jax.vmap(values_of_shot)(values[0]))
        values = [next(each) if value is _PER_SHOT else value for value in values]
    return values, are_of_shots


def _combine_shots(
    once: _TracedShot, values: Sequence[Any], is_per_shot: Sequence[bool], where: str
) -> list[Any]:
    """Compute samples, and means over shot groups, from the values of each shot.

    A group is an entry of the shot vector.

    Args:
        once: the traced circuit.
        values: the values of the circuit's results (arrays of `Statistic`), in order.
        is_per_shot: for each value, whether it has a leading axis of shots.
        where: the QNode's name and line, which begin error messages.

    Returns:
        the values with a leading axis of shots or of shot groups, as ``Results.finish`` expects
        them.

    Raises:
        CompileError: if a final measurement depends on a mid-circuit outcome.
    """
    groups = once.circuit.groups
    ends = np.cumsum(groups)

    def combine_value(value: Any, varies: bool, statistic: Any, leaf: Any) -> Any:
        """Return a value for each shot, or a mean for each shot group.

        Args:
            value: array ``[shots, 1, ...]`` if `varies`. Otherwise ``[1, ...]``, one value that
                holds for all shots and is repeated.
            varies: whether the value depends on the mid-circuit outcomes of a shot.
            statistic: the result to which the value belongs; its ``is_per_shot`` decides between
                shots and means.
            leaf: the return value of the quantum function from which the statistic was computed.

        Raises:
            CompileError: if `varies` and `leaf` is a measurement of the final state, not of
                mid-circuit outcomes.
        """
        size = sum(groups) if statistic.is_per_shot else len(groups)
        if not varies:
            return jnp.broadcast_to(value, (size, *value.shape[1:]))
        if is_measurement(leaf) and leaf.mv is None:
            raise CompileError(
                f"{where}: the returned {type(leaf).__name__} is itself chosen or computed by a "
                "mid-circuit outcome, which Stim does not support (gates may depend on outcomes). "
                "Return qml.sample of each fixed observable and of the outcome, and combine the "
                "samples afterwards."
            )
        each = value[:, 0]
        if statistic.is_per_shot:
            return each
        parts = zip(ends - groups, ends, strict=True)
        return jnp.stack([jnp.mean(each[start:end], axis=0) for start, end in parts])

    pairs = iter(zip(values, is_per_shot, strict=True))
    return [
        combine_value(*next(pairs), statistic, leaf)
        for statistic, leaf in zip(once.results.statistics, once.leaves, strict=True)
        for _ in jax.tree.leaves(statistic.values)
    ]
