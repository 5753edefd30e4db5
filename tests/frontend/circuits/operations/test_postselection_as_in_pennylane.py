"""Shots of circuits that measure, branch and postselect, held against PennyLane, uncompiled."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pennylane as qml
import pytest
from scipy.stats import chi2_contingency

import bellhop

SHOTS = 1500
HOW = [
    ("lightning.qubit", "one-shot", "hw-like"),
    ("lightning.qubit", "deferred", "hw-like"),
    ("lightning.qubit", "tree-traversal", "pad-invalid-samples"),
    ("lightning.qubit", "device", "hw-like"),
    ("lightning.qubit", "deferred", "fill-shots"),
    # They take long to compile there.
    ("default.qubit", "tree-traversal", "hw-like"),
    ("default.qubit", "deferred", "fill-shots"),
]


def gates(measure: Callable[..., Any], turn_if: Callable[..., Any]) -> tuple[Any, Any]:
    qml.RX(1.1, wires=0)
    qml.CNOT([0, 1])
    qml.RY(0.7, wires=1)
    first = measure(0)
    turn_if(first, 0.9, 1)
    second = measure(1, postselect=1)
    qml.RY(0.8, wires=0)
    return first, second


def uncompiled() -> tuple[Any, Any]:
    turn_if = lambda outcome, angle, wire: qml.cond(outcome, qml.RX)(angle, wires=wire)
    return gates(qml.measure, turn_if)


def compiled() -> tuple[Any, Any]:
    def turn_if(outcome: Any, angle: float, wire: int) -> None:
        bellhop.cond(outcome)(lambda: qml.RX(angle, wires=wire) and None)()

    return gates(bellhop.measure, turn_if)


SAMPLES = (lambda *_: qml.sample(wires=[0, 1])), (lambda *outcomes: qml.sample(list(outcomes)))


def everything(first: Any, second: Any) -> tuple[Any, ...]:
    samples = [sample(first, second) for sample in SAMPLES]
    values = qml.sample(qml.Z(0)), qml.sample(first), qml.sample(2 * first + second)
    of_outcomes = qml.expval(first), qml.var(first), qml.probs(op=first)
    of_wires = qml.expval(qml.Z(0)), qml.var(qml.Z(0)), qml.probs(wires=[0, 1])
    return *samples, *values, *of_outcomes, *of_wires


def node(run: Callable[[], Any], measured: Callable[..., Any], device: str, **how: Any) -> Any:
    seeded = qml.device(device, wires=5, seed=11)
    return qml.QNode(lambda: measured(*run()), seeded, **how)


@functools.cache
def reference(device: str, mode: str) -> list[np.ndarray]:
    """Samples of PennyLane by the quickest of its methods."""
    # Lightning's own deferred measurements do not postselect, and only those fill up shots.
    device = "default.qubit" if mode == "fill-shots" else device
    method = "deferred" if device == "default.qubit" else "tree-traversal"
    options = {"mcm_method": method, "postselect_mode": mode}
    return [
        np.asarray(qml.set_shots(node(uncompiled, one, device, **options), SHOTS)())
        for one in SAMPLES
    ]


def table(bits: Any) -> np.ndarray:
    """How often there was which pair of bits, and none."""
    bits = np.asarray(bits)
    bits = bits[bits[:, 0] >= 0]
    counts = np.bincount(bits @ [2, 1], minlength=4)
    return np.append(counts, SHOTS - len(bits))


@pytest.mark.parametrize(("device", "method", "mode"), HOW)
def test_distributions(device: str, method: str, mode: str) -> None:
    circuit = node(compiled, everything, device, mcm_method=method, postselect_mode=mode)
    program = bellhop.qjit(lambda: qml.set_shots(circuit, SHOTS)(), seed=5)
    *found, values, first, sums, mean, variance, probs, mean_z, variance_z, probs_z = program()
    for actual, expected in zip(found, reference(device, mode), strict=True):
        tables = np.stack([table(actual), table(expected)])
        possible = tables[:, tables.sum(axis=0) > 0]
        assert possible.shape[1] > 1
        assert chi2_contingency(possible).pvalue > 1e-3
    # The rest tells of the same shots.
    wires, outcomes = map(np.asarray, found)
    kept = wires[:, 0] >= 0
    np.testing.assert_array_equal(values[kept], 1 - 2 * wires[kept, 0])
    np.testing.assert_array_equal(first, outcomes[:, 0])
    np.testing.assert_array_equal(sums[kept], outcomes[kept] @ [2, 1])
    ones, signs = outcomes[kept, 0], values[kept]
    of_pairs = np.bincount(wires[kept] @ [2, 1], minlength=4) / kept.sum()
    expected = ones.mean(), ones.var(), [1 - ones.mean(), ones.mean()], signs.mean(), signs.var()
    for actual, number in zip((mean, variance, probs, mean_z, variance_z), expected, strict=True):
        np.testing.assert_allclose(actual, number, atol=1e-12)
    np.testing.assert_allclose(probs_z, of_pairs, atol=1e-12)


@pytest.mark.parametrize(
    "device", [pytest.param("default.qubit", marks=pytest.mark.large), "lightning.qubit"]
)
def test_shapes_types_and_fill(device: str) -> None:
    options = {"mcm_method": "one-shot", "postselect_mode": "pad-invalid-samples"}
    nodes = [
        qml.set_shots(node(run, everything, name, **options), 12)
        for run, name in ((uncompiled, "default.qubit"), (compiled, device))
    ]
    expected, actual = nodes[0](), bellhop.qjit(lambda: nodes[1](), seed=5)()
    for one, other in zip(jax.tree.leaves(actual), map(np.asarray, expected), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if one.ndim and len(one) == 12:
            assert one.min() == other.min() == np.iinfo(np.int32).min
