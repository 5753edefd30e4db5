"""Measurements with shots: which samples and frequencies they need, and their results from these.

Expectation values, variances and probabilities are computed from frequencies.  Their expectation
is a probability, so devices differentiate them like exact values.  Coefficients and eigenvalues are
applied to them afterwards, in classical equations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.gates.wires import WireMap, is_dynamic
from bellhop.circuits.measure.bases import Bases, Diagonal, computational, diagonalized
from bellhop.circuits.measure.computed_wires import probabilities_on_known_wires
from bellhop.circuits.measure.outcome_statistics import (
    as_index,
    as_number,
    exact_of_outcomes,
    values_of,
)
from bellhop.circuits.measure.statistics import (
    Statistic,
    as_diagonals,
    terms_of,
    unsupported,
    variance,
)
from bellhop.circuits.process_kind import kind

mp = qml.measurements


@dataclass(frozen=True)
class Frequency:
    """How often outcomes came, in each group of shots.

    Attributes:
        wires: the outcomes' qubits; ``2**len(wires)`` numbers a group.
        signs: qubits; shots with an odd number of ones on these count -1.
    """

    wires: tuple[int, ...]
    signs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Bits:
    """The outcomes of all qubits, a row for each shot."""


Asked = Frequency | Bits
Answers = Sequence[dict[Asked, Any]]


@dataclass
class Rounds:
    """Rounds of samples, each in a basis of its own, and what is asked of each."""

    bases: Bases = field(default_factory=Bases)
    asked: list[list[Asked]] = field(default_factory=list)

    def ask(self, diagonals: Sequence[Diagonal], what: Asked) -> Callable[[Answers], Any]:
        """Ask for something in a basis; return what takes it from the answers of all rounds."""
        number = self.bases.place(diagonals)
        if number == len(self.asked):
            self.asked.append([])
        if what not in self.asked[number]:
            self.asked[number].append(what)
        return lambda answers: answers[number][what]


def sampled_statistics(circuit: Any, processes: Sequence[Any]) -> list[Statistic]:
    """Measure with shots.

    Args:
        circuit: the circuit, at its end; ``circuit.sample`` answers what is asked of a round.
        processes: PennyLane's measurement processes.
    """
    with qml.QueuingManager.stop_recording():
        rounds = Rounds()
        makers = [_sampled(process, rounds, circuit) for process in processes]
        answers = []
        for number, (basis, asked) in enumerate(zip(rounds.bases.bases, rounds.asked, strict=True)):
            circuit.apply(basis.gates)
            answers.append(dict(zip(asked, circuit.sample(asked), strict=True)))
            if number + 1 < len(rounds.asked):
                circuit.apply([qml.adjoint(gate) for gate in reversed(basis.gates)])
    return [make(answers) for make in makers]


def _sampled(process: Any, rounds: Rounds, circuit: Any) -> Callable[[Answers], Statistic]:
    wires, where = circuit.wires, circuit.where
    if process.mv is not None:
        statistic = _of_outcomes(process, circuit)
        return lambda _: statistic
    name = kind(process)
    if name not in ("expval", "var", "probs", "sample", "counts"):
        raise unsupported(
            where,
            f"{name} with shots",
            "Measure expval, var, probs, sample or counts, or set shots to None.",
        )
    if process.obs is None and process.eigvals() is not None and name in ("expval", "var"):
        raise unsupported(where, f"{name} by eigenvalues alone", "Measure an observable.")
    if process.obs is None:
        return _of_wires(process, rounds, circuit)
    if name == "expval":
        return _of_terms(process, rounds, wires, where)
    return _of_observable(process, rounds, wires, where)


def _of_outcomes(process: Any, circuit: Any) -> Statistic:
    """Return the statistic of mid-circuit outcomes."""
    where = circuit.where
    outcomes = values_of(process, where)
    match kind(process):
        case "expval" | "var" | "probs":
            numbers, finish = exact_of_outcomes(process, where)
            return Statistic([circuit.mean_of_groups(number) for number in numbers], finish)
        case "sample":
            several = isinstance(process.mv, list)
            numbers = [as_number(outcome) for outcome in outcomes]
            value = jnp.stack(numbers) if several else numbers[0]
            return Statistic(circuit.of_each_shot(value), is_of_shots=True)
        case "counts":
            if len(outcomes) == 1 and outcomes[0].dtype != bool:
                raise unsupported(
                    where,
                    "counts of an expression of outcomes, whose values are not known beforehand",
                    "Use qml.sample of it, or qml.counts of the outcomes.",
                )
            index = circuit.of_each_shot(as_index(outcomes))
            return Statistic(index, _counts(np.arange(2 ** len(outcomes))), is_of_shots=True)
    raise unsupported(where, f"{kind(process)} of mid-circuit outcomes", "Use qml.sample.")


def _of_wires(process: Any, rounds: Rounds, circuit: Any) -> Callable[[Answers], Statistic]:
    wires = circuit.wires
    labels = tuple(process.wires) or wires.labels
    is_computed = any(map(is_dynamic, labels))
    known = wires.labels if is_computed else labels
    basis = [computational(known)]
    if kind(process) == "probs":
        take_known = rounds.ask(basis, Frequency(tuple(map(wires, known))))
        if not is_computed:
            return _mean(take_known)
        add_up = jax.vmap(probabilities_on_known_wires(circuit, process))
        return _mean(lambda answers: add_up(take_known(answers)))
    if is_computed:
        circuit.check_wires(labels, process)
        columns = jnp.stack([jnp.asarray(wires.of(label)) for label in labels])
    else:
        columns = np.array([wires(label) for label in labels], int)
    if labels:
        take = rounds.ask(basis, Bits())
    else:
        # There is one outcome, of which no device need be asked.
        take = lambda _: circuit.of_each_shot(jnp.zeros(0, np.uint8))
    dtype = getattr(process, "_dtype", None) or int

    def make(answers: Answers) -> Statistic:
        bits = take(answers)[:, columns]
        if kind(process) == "sample":
            return Statistic(bits.astype(dtype), is_of_shots=True)
        counts = _counts(np.arange(2 ** len(columns)))
        return Statistic(_packed(bits), counts, is_of_shots=True)

    return make


def _mean(take: Callable[[Answers], Any]) -> Callable[[Answers], Statistic]:
    return lambda answers: Statistic(take(answers))


def _of_terms(
    process: Any, rounds: Rounds, wires: WireMap, where: str
) -> Callable[[Answers], Statistic]:
    """Estimate an expectation value term by term, each in the basis that it needs."""
    terms = [
        (jnp.real(coefficient), _product_mean(list(map(diagonalized, factors)), rounds, wires))
        for coefficient, factors in terms_of(process.obs, where)
    ]
    return lambda answers: Statistic(
        sum(coefficient * mean(answers) for coefficient, mean in terms)
    )


def _product_mean(
    diagonals: Sequence[Diagonal], rounds: Rounds, wires: WireMap, power: int = 1
) -> Callable[[Answers], Any]:
    """Return the mean of a power of a product of diagonal factors, for each group of shots."""
    others = [diagonal for diagonal in diagonals if not _is_sign(diagonal)]
    of_signs = [wire for diagonal in diagonals if _is_sign(diagonal) for wire in diagonal.wires]
    columns = tuple(wires(wire) for diagonal in others for wire in diagonal.wires)
    signs = tuple(map(wires, of_signs)) if power % 2 else ()
    take = rounds.ask(diagonals, Frequency(columns, signs))
    eigenvalues = _all_eigenvalues(others) ** power
    return lambda answers: take(answers) @ jnp.asarray(eigenvalues)


def _is_sign(diagonal: Diagonal) -> bool:
    eigenvalues = diagonal.eigenvalues
    is_known = not isinstance(eigenvalues, jax.core.Tracer)
    return is_known and np.array_equal(eigenvalues, [1.0, -1.0])


def _of_observable(
    process: Any, rounds: Rounds, wires: WireMap, where: str
) -> Callable[[Answers], Statistic]:
    """Sample the eigenvalues of an observable, in its own eigenbasis."""
    coefficient, diagonals = as_diagonals(process, where)
    labels = [wire for diagonal in diagonals for wire in diagonal.wires]
    if kind(process) == "var":
        scale = jnp.real(coefficient)
        mean, square = (_product_mean(diagonals, rounds, wires, power) for power in (1, 2))
        return lambda answers: Statistic(
            (scale * mean(answers), scale**2 * square(answers)), variance
        )
    if kind(process) == "probs":
        # Wires that only identities stand on count too, and the order is that of PennyLane.
        others = [wire for wire in process.obs.wires if wire not in labels]
        diagonals, labels = [*diagonals, computational(others)], list(process.obs.wires)
        return _mean(rounds.ask(diagonals, Frequency(tuple(map(wires, labels)))))
    take = rounds.ask(diagonals, Bits())
    columns = [wires(wire) for wire in labels]

    def make(answers: Answers) -> Statistic:
        bits = take(answers)
        if kind(process) == "sample":
            values = jnp.real(coefficient) * _eigenvalues(diagonals, bits, wires)
            dtype = getattr(process, "_dtype", None) or float
            return Statistic(values.astype(dtype), is_of_shots=True)
        eigenvalues = coefficient * _all_eigenvalues(diagonals)
        if isinstance(eigenvalues, jax.core.Tracer):
            raise unsupported(
                where,
                "counts of an observable whose eigenvalues the program computes",
                "Use qml.sample of it.",
            )
        outcome = _packed(bits[:, np.array(columns, int)])
        return Statistic(outcome, _counts(np.real(eigenvalues)), is_of_shots=True)

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


def _counts(values: np.ndarray) -> Callable[[Any], Any]:
    """Count the values of outcomes, equal ones together, without the shots that were dropped."""
    # Eigenvalues that differ by rounding are equal.
    distinct, place = np.unique(np.round(values, 12), return_inverse=True)

    def finish(samples: Any) -> Any:
        n = len(distinct)
        bins = jnp.where(samples < 0, n, jnp.asarray(place)[samples])
        return jnp.asarray(distinct), jnp.bincount(bins, length=n + 1)[:n]

    return finish
