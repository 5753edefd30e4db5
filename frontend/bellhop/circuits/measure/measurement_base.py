"""Define the base class of measurement processes.

A process requests values from a backend, and computes its result from these values::

    request_exact      exact values without shots       for expval: the expectation value
    request_samples    frequencies or samples           for expval: frequencies @ [1, -1]

Processes of mid-circuit outcomes (``qml.expval(m)``) compute their result from the outcomes,
without a request.  ``measurement_registry`` lists the classes.  The requested
``device_measurements`` define the shape, type and derivative of a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
import numpy as np

from bellhop.circuits.ir.answers import Answers, MeasurementSite
from bellhop.circuits.ir.circuit_config import Shots
from bellhop.circuits.ir.statistics import ExactValues, Statistic, unsupported_error
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.measure.dynamic_wires import expand_dynamic_wires
from bellhop.circuits.measure.observables import MatrixFactor, make_factor_operation
from bellhop.circuits.measure.sampling import SamplingRounds
from bellhop.errors import CompileError

if TYPE_CHECKING:
    import pennylane as qml


class Process:
    """Base class of Bellhop's classes that compute the result of a PennyLane measurement process.

    An instance belongs to one returned value of a quantum function, while the circuit is traced.
    ``measure_results`` calls ``request_exact`` (without shots) or ``request_samples`` (with shots)
    of all instances, lets the backend compute all requested values together, and then calls the
    functions that the ``request_...`` methods returned.

    Args:
        name: the function that users call, such as ``"expval"``, for errors.
        process: PennyLane's measurement process.
        answers: the traced circuit after its last gate, which is sampled and checks wires.

    Attributes:
        process: PennyLane's measurement process.
        needs_snapshots: whether the result is computed from a random basis for each shot, as a
            classical shadow is.
    """

    needs_snapshots: ClassVar[bool] = False

    def __init__(
        self, name: str, process: qml.measurements.MeasurementProcess, answers: Answers
    ) -> None:
        self.process = process
        self._name = name
        self._answers = answers
        self._wires = answers.wires
        self._where = answers.where

    def request_exact(self, asked: ExactValues) -> Callable[[Any], Statistic]:
        """Request the exact values from which this process computes its result.

        A process of mid-circuit outcomes requests only the probability of the outcomes.

        Args:
            asked: collects the exact values that the circuit's processes request.

        Returns:
            a function from the result of ``asked.compute()`` to a ``Statistic``, which has the
            values of this execution of the circuit, and computes the result from the combined
            values of all executions.

        Raises:
            CompileError: if the process needs shots or is not supported.
        """
        with self._name_in_errors():
            if self.process.mv is None:
                return self._request_exact(asked)
            statistic = self._make_outcome_statistic(self._outcomes())
        weight = asked.request_probability()
        return lambda values: statistic.map_values(lambda value: weight(values) * value)

    def request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request the samples from which this process computes its result.

        A process of mid-circuit outcomes requests nothing.

        Args:
            rounds: collects the samples that the circuit's processes request.

        Returns:
            a function from the result of ``rounds.sample()`` to a ``Statistic``, which has values
            with an axis of shots or shot groups, and computes the result of each group from them.

        Raises:
            CompileError: if the process does not support shots.
        """
        with self._name_in_errors():
            if self.process.mv is None:
                return self._request_samples(rounds)
            statistic = self._make_sampled_outcome_statistic(self._outcomes())
        return lambda _: statistic

    @contextmanager
    def _name_in_errors(self) -> Iterator[None]:
        """Context manager that adds this process's source line to errors of the ``with`` block.

        A `WireMap.TracedWireError` becomes a ``CompileError`` that names the measurement.
        """
        with self._answers.error_location(self.process):
            try:
                yield
            except WireMap.TracedWireError:
                name = self._name if self.process.obs is None else f"{self._name} of an observable"
                raise CompileError(
                    f"{self._where}: {name} is not supported on a traced wire. Traced wires are "
                    "allowed in gates, in observables of expval and var, and in probs, sample and "
                    "counts of wires. For this measurement use a static wire: apply "
                    "qml.SWAP(wires=[i, 0]), and measure wire 0."
                ) from None

    def _request_exact(self, asked: ExactValues) -> Callable[[Any], Statistic]:
        """Raise an error; subclasses that support circuits without shots override this method.

        An override implements `request_exact` for a process of wires or of an observable, with the
        same argument and result.
        """
        raise self._unsupported_error(
            "without shots", "Measure expval, var, probs, state or density_matrix."
        )

    def _request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Raise an error; subclasses that support shots override this method.

        An override implements `request_samples` for a process of wires or of an observable, with
        the same argument and result.
        """
        instead = "Measure expval, var, probs, sample or counts"
        has_exact = type(self)._request_exact is not Process._request_exact
        raise self._unsupported_error(
            "with shots", f"{instead}, or set shots to None." if has_exact else f"{instead}."
        )

    def _make_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        """Raise an error; subclasses that measure outcomes without shots override this method.

        An override returns the statistic of the mid-circuit outcomes of the current execution. The
        caller averages its values over all executions.

        Args:
            outcomes: traced scalars, the outcomes that the process measures.
        """
        raise self._needs_shots_error()

    def _make_sampled_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        """Return the statistic of mid-circuit outcomes, averaged over each group of shots."""
        return self._make_outcome_statistic(outcomes).map_values(self._answers.average_over_groups)

    def _outcomes(self) -> Sequence[Any]:
        """Return the mid-circuit outcomes that this process measures, after a check."""
        return check_outcomes(self.process, self._name, self._answers)

    def _needs_shots_error(self) -> CompileError:
        """Make the error for a measurement that needs shots, in a circuit without shots."""
        return CompileError(
            f"{self._where}: {self._name} needs shots, and the QNode has none. Set them: "
            f"{Shots.ADVICE}."
        )

    def _unsupported_error(self, how: str, instead: str) -> CompileError:
        """Make the error for a measurement that is not supported.

        Args:
            how: completes "<measurement> ... is not supported", such as ``"with shots"``.
            instead: a sentence with the remedy.
        """
        return unsupported_error(self._where, f"{self._name} {how}", instead)

    def _get_observable(self) -> Any:
        """Return the observable that this process measures, a PennyLane operator.

        If PennyLane's process has eigenvalues and no observable, a ``qml.Hermitian`` with the
        eigenvalues on its diagonal is returned.
        """
        if self.process.obs is not None:
            return self.process.obs
        diagonal = np.diag(self.process.eigvals())
        return make_factor_operation(MatrixFactor(tuple(self.process.wires), diagonal))

    def _expand_dynamic_wires(self) -> Any:
        """Return this process's observable; traced wires are rewritten as sums on static wires."""
        return expand_dynamic_wires(self._get_observable(), self.process, self._answers)

    def _get_labels(self) -> tuple[Any, ...]:
        """Return the process's wire labels, or all wire labels if it has none."""
        return tuple(self.process.wires) or self._wires.labels

    def _get_static_labels(self) -> tuple[Any, ...]:
        """Return the labels to measure: the process's wires, or all wires if some are traced."""
        labels = self._get_labels()
        return self._wires.labels if any(map(is_dynamic, labels)) else labels


def check_outcomes(
    process: qml.measurements.MeasurementProcess, name: str, site: MeasurementSite
) -> Sequence[Any]:
    """Return the mid-circuit outcomes of a process, and check that they are scalars.

    Whether a value is an outcome of this circuit is not checked: any traced scalar is accepted if
    the circuit has a mid-circuit measurement.

    Args:
        process: PennyLane's process, whose ``mv`` is one outcome or a list of outcomes.
        name: the function that users call, for errors.
        site: the backend's circuit after its gates.

    Returns:
        the values of ``mv``, all traced scalars.

    Raises:
        CompileError: if a value is not a traced scalar, or the circuit has no mid-circuit
            measurement.
    """
    several = isinstance(process.mv, list)
    outcomes = process.mv if several else [process.mv]
    for value in outcomes:
        if not is_dynamic(value) or value.shape:
            raise CompileError(
                f"{site.where}: {name} got {value!r}, expected the outcome of a mid-circuit "
                "measurement, a scalar. Pass the result of bellhop.measure."
            )
    if not site.has_mid_circuit:
        raise CompileError(
            f"{site.where}: {name} got a traced number in a circuit without mid-circuit "
            "measurements, expected an observable or a mid-circuit outcome. Return the number "
            "itself, or pass an observable."
        )
    return outcomes


def as_index(outcomes: Sequence[Any]) -> Any:
    """Combine outcomes into an integer: 1, 0, 1 becomes 5.

    The first outcome is the most significant bit.

    Returns:
        integer scalar in ``[0, 2**len(outcomes))``.
    """
    index: Any = jnp.zeros((), int)
    for outcome in outcomes:
        index = 2 * index + jnp.asarray(outcome, int)
    return index


def bool_to_int(outcome: Any) -> Any:
    """Convert a boolean mid-circuit outcome to an integer.

    A traced expression of outcomes, which is not boolean, is returned unchanged.
    """
    return jnp.asarray(outcome, int if outcome.dtype == bool else None)
