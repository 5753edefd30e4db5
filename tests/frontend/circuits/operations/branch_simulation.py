"""Random circuits with measurements in the middle, and their exact distribution by NumPy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pennylane as qml
from scipy.stats import chisquare

import bellhop

WIRES = 3


@dataclass(frozen=True)
class Rotation:
    """A rotation, where an earlier outcome is one if there is such a condition."""

    axis: str
    angle: float
    wire: int
    condition: int | None = None


@dataclass(frozen=True)
class Flip:
    """A CNOT."""

    control: int
    target: int


@dataclass(frozen=True)
class Measured:
    """A measurement in the middle."""

    wire: int
    reset: bool
    postselect: int | None


Circuit = list[Rotation | Flip | Measured]


def random_circuit(seed: int) -> Circuit:
    """Return a circuit of 4 measurements, 2 of them postselected, between other gates."""
    rng = np.random.default_rng(seed)
    circuit: Circuit = []
    kinds = rng.permutation([None, None, rng.integers(2), rng.integers(2)])
    for number, postselect in enumerate(kinds):
        for wire in range(WIRES):
            condition = int(rng.integers(number)) if number and rng.random() < 0.5 else None
            axis = str(rng.choice(["RX", "RY"]))
            circuit.append(Rotation(axis, float(rng.uniform(0, 3)), wire, condition))
        control, target, measured = (int(wire) for wire in rng.permutation(WIRES))
        circuit.append(Flip(control, target))
        circuit.append(Measured(measured, bool(rng.random() < 0.4), postselect))
    return circuit


def run(circuit: Circuit) -> list[Any]:
    """Apply a circuit in a quantum function, and return the outcomes."""
    outcomes: list[Any] = []
    for step in circuit:
        match step:
            case Rotation(axis, angle, wire, None):
                getattr(qml, axis)(angle, wire)
            case Rotation(axis, angle, wire, condition):
                getattr(qml, axis)(angle * outcomes[condition], wire)
            case Flip(control, target):
                qml.CNOT([control, target])
            case Measured(wire, reset, postselect):
                outcomes.append(
                    bellhop.measure(wire, reset, None if postselect is None else int(postselect))
                )
    return outcomes


def _on_wire(matrix: np.ndarray, state: np.ndarray, wire: int) -> np.ndarray:
    return np.moveaxis(np.tensordot(matrix, state, (1, wire)), 0, wire)


def _rotation(axis: str, angle: float) -> np.ndarray:
    c, s = np.cos(angle / 2), np.sin(angle / 2)
    return np.array([[c, -1j * s], [-1j * s, c]] if axis == "RX" else [[c, -s], [s, c]])


def distribution(circuit: Circuit) -> np.ndarray:
    """Return how likely outcomes and final samples are together, postselected."""
    n_outcomes = sum(isinstance(step, Measured) for step in circuit)
    found = np.zeros((2**n_outcomes, 2**WIRES))

    def go(state: np.ndarray, rest: Circuit, outcomes: tuple[int, ...]) -> None:
        for number, step in enumerate(rest):
            match step:
                case Rotation(axis, angle, wire, condition):
                    if condition is None or outcomes[condition]:
                        state = _on_wire(_rotation(axis, angle), state, wire)
                case Flip(control, target):
                    state = np.stack(
                        [
                            np.take(state, 0, control),
                            np.flip(np.take(state, 1, control), target - (target > control)),
                        ],
                        axis=control,
                    )
                case Measured(wire, reset, postselect):
                    for outcome in (0, 1) if postselect is None else (postselect,):
                        to = 0 if reset else outcome
                        projector = np.zeros((2, 2))
                        projector[to, outcome] = 1
                        after = _on_wire(projector, state, wire)
                        go(after, rest[number + 1 :], (*outcomes, int(outcome)))
                    return
        index = int("".join(map(str, outcomes)), 2)
        found[index] += np.abs(state.reshape(-1)) ** 2

    start = np.zeros((2,) * WIRES, complex)
    start[(0,) * WIRES] = 1
    go(start, circuit, ())
    return found.reshape(-1) / found.sum()


def index_of(bits: Any) -> Any:
    """Return the number that each row of bits is."""
    return np.asarray(bits) @ (2 ** np.arange(np.shape(bits)[1])[::-1])


def likelihood(indices: Any, expected: np.ndarray) -> float:
    """Return the p-value of samples by chi-square; rare outcomes are taken together."""
    observed = np.bincount(indices, minlength=len(expected))
    assert not observed[expected < 1e-14].any()
    wanted = expected * len(indices)
    rare = wanted < 8
    join: Callable[[Any], Any] = lambda counts: np.append(counts[~rare], counts[rare].sum())
    f_obs, f_exp = join(observed), join(wanted)
    if f_exp[-1] < 4:
        f_obs, f_exp = f_obs[:-1], f_exp[:-1] * f_obs[:-1].sum() / f_exp[:-1].sum()
    return float(chisquare(f_obs, f_exp).pvalue)
