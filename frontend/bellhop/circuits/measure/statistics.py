"""How results are computed: values that one run of the circuit gives, and a function of them.

Without shots, values are exact.  With shots they are frequencies (means over groups of shots) or
samples (``sampling``).  For a circuit that runs once for each combination of outcomes, values are
summed over its runs, weighted by probability, before the function is applied.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pennylane as qml

from bellhop.circuits.gates.wires import is_dynamic
from bellhop.circuits.measure.bases import Diagonal, diagonalized
from bellhop.circuits.measure.computed_wires import probabilities_on_known_wires
from bellhop.circuits.measure.density_matrices import is_of_density_matrix, of_density_matrix
from bellhop.circuits.measure.measurements import MeasurementList
from bellhop.circuits.measure.observables import Matrix, NoObservableError, as_sum_of_products
from bellhop.circuits.measure.outcome_statistics import exact_of_outcomes
from bellhop.circuits.process_kind import kind
from bellhop.errors import CompileError

mp = qml.measurements


@dataclass(frozen=True)
class Statistic:
    """One result of a circuit.

    Attributes:
        values: arrays of one run; with shots, with an axis in front, of groups of shots or of
            shots.
        finish: takes their mean over the runs, or the samples of all shots, and returns the
            result; with shots, that of one group.
        is_of_shots: whether the axis in front is one of shots.
        is_measured: whether it is the result of a measurement.
    """

    values: Any
    finish: Callable[[Any], Any] = lambda values: values
    is_of_shots: bool = False
    is_measured: bool = True


def unsupported(where: str, what: str, instead: str) -> CompileError:
    """Return the error of a measurement that there is not."""
    return CompileError(f"{where}: {what}: not supported by bellhop. {instead}")


def state_of_mixture(where: str) -> CompileError:
    """Return the error of the state vector of a circuit that goes through several outcomes."""
    return unsupported(
        where,
        "state after mid-circuit measurements, where it is a mixture of several",
        "Return qml.density_matrix, or set mcm_method='single-branch-statistics' for the state of "
        "one random run.",
    )


def variance(moments: Any) -> Any:
    """Return the variance, from the mean and the mean of the square."""
    mean, square = moments
    return square - mean**2


def exact_statistics(circuit: Any, processes: Sequence[Any], *, is_tree: bool) -> list[Statistic]:
    """Measure without shots.

    Args:
        circuit: the circuit, at its end.
        processes: PennyLane's measurement processes.
        is_tree: whether this is one of several runs, whose values have its probability as a
            factor.  The first statistic is then that probability itself.
    """
    where, measured = circuit.where, MeasurementList(circuit.wires, circuit.where)
    makers: list[Callable[[Sequence[Any]], Statistic]] = []
    if is_tree:
        makers.append(_value(0))
        measured.add_weight()
    for process in processes:
        name = kind(process)
        if process.mv is not None:
            makers.append(_weighted(exact_of_outcomes(process, where), is_tree=is_tree))
        elif name == "probs" and process.obs is not None:
            # What comes after all measurements that need no rotation.
            makers.append(_rotated_probabilities(circuit, process))
        elif name == "probs" and any(map(is_dynamic, process.wires)):
            add_up = probabilities_on_known_wires(circuit, process)
            makers.append(_of_value(len(measured.measurements), add_up))
            measured.add(mp.ProbabilityMP(wires=qml.wires.Wires(circuit.wires.labels)))
        elif name in ("sample", "counts"):
            raise unsupported(
                where, f"{name} without shots", "Set them: qml.set_shots(circuit, 100)."
            )
        elif is_of_density_matrix(process):
            makers.append(_of_state(len(measured.measurements), process, circuit))
            measured.add(mp.StateMP())
        elif is_tree and isinstance(process, mp.StateMP):
            raise state_of_mixture(where)
        else:
            has_moments = name == "var" and is_tree
            index = len(measured.measurements)
            makers.append(_moments(index) if has_moments else _value(index))
            measured.add(process)
            if has_moments:
                measured.add(mp.ExpectationMP(process.obs))
    with qml.QueuingManager.stop_recording():
        values = circuit.measure(measured)
        return [make(values) for make in makers]


def _weighted(
    statistic: tuple[Any, Callable[[Any], Any]], *, is_tree: bool
) -> Callable[[Sequence[Any]], Statistic]:
    numbers, finish = statistic

    def make(values: Sequence[Any]) -> Statistic:
        weight = values[0] if is_tree else 1.0
        return Statistic([weight * number for number in numbers], finish)

    return make


def _of_value(index: int, function: Callable[[Any], Any]) -> Callable[[Sequence[Any]], Statistic]:
    return lambda values: Statistic(function(values[index]))


def _value(index: int) -> Callable[[Sequence[Any]], Statistic]:
    return lambda values: Statistic(values[index])


def _of_state(index: int, process: Any, circuit: Any) -> Callable[[Sequence[Any]], Statistic]:
    reduced, result = of_density_matrix(process, circuit.wires, circuit.where)
    return lambda values: Statistic(reduced(values[index]), result)


def _moments(index: int) -> Callable[[Sequence[Any]], Statistic]:
    def make(values: Sequence[Any]) -> Statistic:
        # Of a state that is not normalized, what a device computes as its variance is the mean
        # of the square less the square of the mean all the same.
        variance_, mean = values[index : index + 2]
        return Statistic((mean, variance_ + mean**2), variance)

    return make


def _rotated_probabilities(circuit: Any, process: Any) -> Callable[[Any], Statistic]:
    def make(_: Any) -> Statistic:
        _, diagonals = as_diagonals(process, circuit.where)
        gates = [gate for diagonal in diagonals for gate in diagonal.gates]
        circuit.apply(gates)
        measured = MeasurementList(circuit.wires, circuit.where)
        measured.add(mp.ProbabilityMP(wires=process.obs.wires))
        probabilities = circuit.measure(measured)[0]
        circuit.apply([qml.adjoint(gate) for gate in reversed(gates)])
        return Statistic(probabilities)

    return make


def as_diagonals(process: Any, where: str) -> tuple[Any, list[Diagonal]]:
    """Return a coefficient and the diagonal factors that an observable is the product of."""
    observable = process.obs
    terms = terms_of(observable, where)
    if len(terms) == 1:
        coefficient, factors = terms[0]
        return coefficient, [diagonalized(factor) for factor in factors]
    if not observable.has_matrix:
        raise unsupported(where, f"{kind(process)} of {observable.name}", "Measure its terms.")
    wires = tuple(observable.wires)
    return 1.0, [diagonalized(Matrix(wires, observable.matrix(wire_order=wires)))]


def terms_of(observable: Any, where: str) -> Any:
    """Return an observable as a sum of products."""
    try:
        with qml.QueuingManager.stop_recording():
            return as_sum_of_products(observable)
    except NoObservableError as error:
        raise unsupported(
            where, f"the observable {error}", "Write it as a sum of Paulis."
        ) from None
