"""What measurements are made of: values of one run of the circuit, and what finishes them.

A circuit without shots gives exact values; where it runs through the outcomes of mid-circuit
measurements, their mean over the runs is taken.  With shots every measurement is made of
samples, a value for each shot, however the shots came about.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.bases import Bases, Diagonal, computational, diagonalized
from bellhop.circuits.measurements import MeasurementList
from bellhop.circuits.observables import HasNoMatrixError, Matrix, as_sum_of_products
from bellhop.circuits.wires import WireMap
from bellhop.errors import CompileError

mp = qml.measurements


@dataclass(frozen=True)
class Statistic:
    """One result of a circuit.

    Attributes:
        values: arrays of one run; with shots, with an axis of shots in front.
        finish: takes their mean, or the samples of all shots, and returns the result.
    """

    values: Any
    finish: Callable[[Any], Any] = lambda values: values


def kind(process: Any) -> str:
    """Return the user's name of a measurement process, or that of its class."""
    names = {
        mp.ExpectationMP: "expval",
        mp.VarianceMP: "var",
        mp.ProbabilityMP: "probs",
        mp.SampleMP: "sample",
        mp.CountsMP: "counts",
        mp.StateMP: "state",
    }
    return names.get(type(process), type(process).__name__)


def _unsupported(where: str, what: str, instead: str) -> CompileError:
    return CompileError(f"{where}: {what}: not supported by bellhop. {instead}")


# --- outcomes of mid-circuit measurements ---------------------------------------------


def _outcomes(process: Any, where: str) -> list[Any]:
    several = isinstance(process.mv, list)
    values = process.mv if several else [process.mv]
    for value in values:
        if not isinstance(value, jax.core.Tracer) or value.shape:
            raise CompileError(
                f"{where}: {kind(process)} of {value!r}, which is not the outcome of a mid-circuit "
                "measurement. Measure with bellhop.measure."
            )
    return values


def _as_index(outcomes: Sequence[Any]) -> Any:
    index: Any = jnp.zeros((), int)
    for outcome in outcomes:
        index = 2 * index + jnp.asarray(outcome, int)
    return index


def _number(outcome: Any) -> Any:
    return jnp.asarray(outcome, int if outcome.dtype == bool else None)


def exact_of_outcomes(process: Any, where: str) -> Statistic:
    """Return the statistic of mid-circuit outcomes without shots."""
    outcomes = _outcomes(process, where)
    match kind(process):
        case "expval":
            return Statistic(_number(outcomes[0]).astype(float))
        case "var":
            value = _number(outcomes[0]).astype(float)
            return Statistic((value, value**2), _variance)
        case "probs":
            return Statistic(jax.nn.one_hot(_as_index(outcomes), 2 ** len(outcomes), dtype=float))
    raise _unsupported(
        where,
        f"{kind(process)} of mid-circuit outcomes without shots",
        "Set them: qml.set_shots(circuit, 100).",
    )


def sampled_of_outcomes(process: Any, where: str) -> Statistic:
    """Return the statistic of mid-circuit outcomes of one shot."""
    outcomes = _outcomes(process, where)
    shot = lambda value: jnp.expand_dims(value, 0)
    match kind(process):
        case "expval":
            return Statistic(shot(_number(outcomes[0])), _mean)
        case "var":
            return Statistic(shot(_number(outcomes[0])), _sample_variance)
        case "probs":
            return Statistic(shot(_as_index(outcomes)), _frequencies(2 ** len(outcomes)))
        case "sample":
            if not isinstance(process.mv, list):
                return Statistic(shot(_number(outcomes[0])))
            return Statistic(shot(jnp.stack([_number(outcome) for outcome in outcomes])))
        case "counts":
            if len(outcomes) == 1 and outcomes[0].dtype != bool:
                raise _unsupported(
                    where,
                    "counts of an expression of outcomes, whose values are not known beforehand",
                    "Use qml.sample of it, or qml.counts of the outcomes.",
                )
            size = 2 ** len(outcomes)
            return Statistic(shot(_as_index(outcomes)), _counts(np.arange(size)))
    raise _unsupported(where, f"{kind(process)} of mid-circuit outcomes", "Use qml.sample.")


def _variance(moments: Any) -> Any:
    mean, square = moments
    return square - mean**2


# --- exact values ---------------------------------------------------------------------


def exact_statistics(circuit: Any, processes: Sequence[Any], *, is_mean: bool) -> list[Statistic]:
    """Measure without shots.

    Args:
        circuit: the circuit, at its end.
        processes: PennyLane's measurement processes.
        is_mean: whether the results are means over several runs.
    """
    where, measured = circuit.where, MeasurementList(circuit.wires, circuit.where)
    makers: list[Callable[[Sequence[Any]], Statistic]] = []
    for process in processes:
        name = kind(process)
        if process.mv is not None:
            makers.append(_already(exact_of_outcomes(process, where)))
        elif name == "probs" and process.obs is not None:
            # What comes after all measurements that need no rotation.
            makers.append(_rotated_probabilities(circuit, process))
        elif name in ("sample", "counts"):
            raise _unsupported(
                where, f"{name} without shots", "Set them: qml.set_shots(circuit, 100)."
            )
        elif name == "state" and is_mean:
            raise _unsupported(
                where,
                "the state after mid-circuit measurements, which is a mixture of several",
                "Set mcm_method='single-branch-statistics' for that of one random run.",
            )
        else:
            makers.append(_value(len(measured.measurements), has_moments=name == "var" and is_mean))
            measured.add(process)
            if name == "var" and is_mean:
                measured.add(mp.ExpectationMP(process.obs))
    with qml.QueuingManager.stop_recording():
        values = circuit.measure(measured)
        return [make(values) for make in makers]


def _already(statistic: Statistic) -> Callable[[Any], Statistic]:
    return lambda _: statistic


def _value(index: int, *, has_moments: bool) -> Callable[[Sequence[Any]], Statistic]:
    def make(values: Sequence[Any]) -> Statistic:
        if not has_moments:
            return Statistic(values[index])
        variance, mean = values[index : index + 2]
        return Statistic((mean, variance + mean**2), _variance)

    return make


def _rotated_probabilities(circuit: Any, process: Any) -> Callable[[Any], Statistic]:
    def make(_: Any) -> Statistic:
        _, diagonals = _as_diagonals(process, circuit.where)
        gates = [gate for diagonal in diagonals for gate in diagonal.gates]
        circuit.apply(gates)
        measured = MeasurementList(circuit.wires, circuit.where)
        measured.add(mp.ProbabilityMP(wires=process.obs.wires))
        probabilities = circuit.measure(measured)[0]
        circuit.apply([qml.adjoint(gate) for gate in reversed(gates)])
        return Statistic(probabilities)

    return make


def _as_diagonals(process: Any, where: str) -> tuple[Any, list[Diagonal]]:
    """Return a coefficient and the diagonal factors that an observable is the product of."""
    observable = process.obs
    terms = _terms(observable, where)
    if len(terms) == 1:
        coefficient, factors = terms[0]
        return coefficient, [diagonalized(factor) for factor in factors]
    if not observable.has_matrix:
        raise _unsupported(where, f"{kind(process)} of {observable.name}", "Measure its terms.")
    wires = tuple(observable.wires)
    return 1.0, [diagonalized(Matrix(wires, observable.matrix(wire_order=wires)))]


def _terms(observable: Any, where: str) -> Any:
    try:
        with qml.QueuingManager.stop_recording():
            return as_sum_of_products(observable)
    except HasNoMatrixError as error:
        raise _unsupported(
            where, f"the observable {error}, which has no matrix", "Write it as a sum of Paulis."
        ) from None


# --- samples --------------------------------------------------------------------------


def sampled_statistics(circuit: Any, processes: Sequence[Any]) -> list[Statistic]:
    """Measure with as many shots as the circuit's device has."""
    with qml.QueuingManager.stop_recording():
        bases = Bases()
        makers = [_sampled(process, bases, circuit.wires, circuit.where) for process in processes]
        rounds = []
        for number, basis in enumerate(bases.bases):
            circuit.apply(basis.gates)
            rounds.append(circuit.sample())
            if number + 1 < len(bases.bases):
                circuit.apply([qml.adjoint(gate) for gate in reversed(basis.gates)])
    return [make(rounds) for make in makers]


def _sampled(
    process: Any, bases: Bases, wires: WireMap, where: str
) -> Callable[[Sequence[Any]], Statistic]:
    if process.mv is not None:
        statistic = sampled_of_outcomes(process, where)
        return lambda _: statistic
    name = kind(process)
    if name not in ("expval", "var", "probs", "sample", "counts"):
        raise _unsupported(
            where,
            f"{name} with shots",
            "Measure expval, var, probs, sample or counts, or set shots to None.",
        )
    if process.obs is None and process.eigvals() is not None and name in ("expval", "var"):
        raise _unsupported(where, f"{name} by eigenvalues alone", "Measure an observable.")
    if process.obs is None:
        return _of_wires(process, bases, wires)
    if name == "expval":
        return _of_terms(process, bases, wires, where)
    return _of_observable(process, bases, wires, where)


def _of_wires(process: Any, bases: Bases, wires: WireMap) -> Callable[[Sequence[Any]], Statistic]:
    labels = tuple(process.wires) or wires.labels
    columns = [wires(label) for label in labels]
    number = bases.place([computational(labels)])
    dtype = getattr(process, "_dtype", None) or int

    def make(rounds: Sequence[Any]) -> Statistic:
        bits = rounds[number][:, np.array(columns)]
        if kind(process) == "sample":
            return Statistic(bits.astype(dtype))
        finish = _frequencies if kind(process) == "probs" else _counts_of_outcomes
        return Statistic(_packed(bits), finish(2 ** len(columns)))

    return make


def _of_terms(
    process: Any, bases: Bases, wires: WireMap, where: str
) -> Callable[[Sequence[Any]], Statistic]:
    """Estimate an expectation value term by term, each in the basis that it needs."""
    terms = [
        (coefficient, [diagonalized(factor) for factor in factors])
        for coefficient, factors in _terms(process.obs, where)
    ]
    numbers = [bases.place(diagonals) for _, diagonals in terms]

    def make(rounds: Sequence[Any]) -> Statistic:
        values: Any = jnp.zeros(rounds[0].shape[0])
        for (coefficient, diagonals), number in zip(terms, numbers, strict=True):
            values = values + jnp.real(coefficient) * _eigenvalues(diagonals, rounds[number], wires)
        return Statistic(values, _mean)

    return make


def _of_observable(
    process: Any, bases: Bases, wires: WireMap, where: str
) -> Callable[[Sequence[Any]], Statistic]:
    """Sample the eigenvalues of an observable, in its own eigenbasis."""
    coefficient, diagonals = _as_diagonals(process, where)
    labels = [wire for diagonal in diagonals for wire in diagonal.wires]
    if kind(process) == "probs":
        # Wires that only identities stand on count too, and the order is that of PennyLane.
        others = [wire for wire in process.obs.wires if wire not in labels]
        diagonals, labels = [*diagonals, computational(others)], list(process.obs.wires)
    number = bases.place(diagonals)
    columns = [wires(wire) for wire in labels]

    def make(rounds: Sequence[Any]) -> Statistic:
        outcome = lambda: _packed(rounds[number][:, np.array(columns, int)])
        values = lambda: jnp.real(coefficient) * _eigenvalues(diagonals, rounds[number], wires)
        match kind(process):
            case "probs":
                return Statistic(outcome(), _frequencies(2 ** len(columns)))
            case "var":
                return Statistic(values(), _sample_variance)
            case "sample":
                return Statistic(values().astype(getattr(process, "_dtype", None) or float))
        eigenvalues = coefficient * _all_eigenvalues(diagonals)
        if isinstance(eigenvalues, jax.core.Tracer):
            raise _unsupported(
                where,
                "counts of an observable whose eigenvalues the program computes",
                "Use qml.sample of it.",
            )
        return Statistic(outcome(), _counts(np.real(eigenvalues)))

    return make


def _packed(bits: Any) -> Any:
    """Return the number that each row of bits is."""
    powers = 2 ** np.arange(bits.shape[1])[::-1]
    return bits.astype(int) @ powers if bits.shape[1] else jnp.zeros(bits.shape[0], int)


def _eigenvalues(diagonals: Sequence[Diagonal], bits: Any, wires: WireMap) -> Any:
    """Return the eigenvalue that each shot gave."""
    value: Any = jnp.ones(bits.shape[0])
    for diagonal in diagonals:
        columns = np.array([wires(wire) for wire in diagonal.wires])
        value = value * jnp.asarray(diagonal.eigenvalues)[_packed(bits[:, columns])]
    return value


def _all_eigenvalues(diagonals: Sequence[Diagonal]) -> Any:
    values: Any = np.ones(1)
    for diagonal in diagonals:
        values = qml.math.kron(values, diagonal.eigenvalues)
    return values


# --- from the samples of all shots ----------------------------------------------------


def _mean(samples: Any) -> Any:
    return jnp.mean(samples.astype(float), axis=0)


def _sample_variance(samples: Any) -> Any:
    return jnp.var(samples.astype(float), axis=0)


def _frequencies(size: int) -> Callable[[Any], Any]:
    return lambda samples: jnp.bincount(samples, length=size) / samples.shape[0]


def _counts_of_outcomes(size: int) -> Callable[[Any], Any]:
    return _counts(np.arange(size))


def _counts(values: np.ndarray) -> Callable[[Any], Any]:
    """Count the values of outcomes, equal ones together."""
    # Eigenvalues that differ by rounding are equal.
    distinct, place = np.unique(np.round(values, 12), return_inverse=True)

    def finish(samples: Any) -> Any:
        counts = jnp.bincount(jnp.asarray(place)[samples], length=len(distinct))
        return jnp.asarray(distinct), counts

    return finish
