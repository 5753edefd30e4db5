"""QNodes that return what they compute, and outcomes, alone or beside measurements."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

DEVICES = ["lightning.qubit", "default.qubit"]


def made(body: Any, device: str, shots: Any = None, **options: Any) -> Any:
    return qml.set_shots(qml.QNode(body, qml.device(device, wires=2), **options), shots)


def without_outcomes(x: Any) -> Any:
    qml.RX(x, 0)
    return {"n": 3, "angles": x * jnp.arange(2.0)}, qml.expval(qml.Z(0))


@pytest.mark.parametrize("device", [*DEVICES, "null.qubit"])
def test_without_outcomes(device: str) -> None:
    """They are as they are, also with shots: nothing in them is of a shot."""
    for shots in (None, 4):
        values, _ = bellhop.qjit(made(without_outcomes, device, shots))(np.pi)
        assert values["n"] == 3
        np.testing.assert_allclose(values["angles"], [0, np.pi])
        assert bellhop.qjit(made(lambda x: 2 * x, device, shots))(1.5) == 3.0
    copies = bellhop.qjit(made(without_outcomes, device, (2, 3)))(np.pi)
    assert [copy[0]["n"] for copy in copies] == [3, 3]


@pytest.mark.parametrize("device", DEVICES)
def test_are_differentiated(device: str) -> None:
    circuit = made(without_outcomes, device)
    total = lambda x: jnp.sum(circuit(x)[0]["angles"] ** 2) * circuit(x)[1]
    slope = bellhop.qjit(bellhop.grad(total))(0.7)
    assert slope == pytest.approx(2 * 0.7 * np.cos(0.7) - 0.7**2 * np.sin(0.7))


def with_outcomes(x: Any) -> Any:
    qml.RX(x, 0)
    m = bellhop.measure(0)
    bellhop.cond(m)(lambda: qml.X(1))()
    return [m, m + 2 * bellhop.measure(1), x * m], qml.expval(qml.Z(1))


@pytest.mark.parametrize("device", DEVICES)
def test_of_one_random_run(device: str) -> None:
    """Without shots: those of one run, whose state is measured."""
    circuit = made(with_outcomes, device)

    @bellhop.qjit(seed=1)
    def runs(x: Any) -> Any:
        return jax.lax.map(circuit, jnp.full(400, x))

    (m, both, scaled), mean = runs(1.0)
    assert m.dtype == bool
    assert m.mean() == pytest.approx(np.sin(0.5) ** 2, abs=0.07)
    np.testing.assert_array_equal(both, 3 * m)
    np.testing.assert_array_equal(scaled, 1.0 * m)
    np.testing.assert_allclose(mean, 1.0 - 2 * m, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_of_each_shot(device: str) -> None:
    program = bellhop.qjit(made(with_outcomes, device, (300, 200)), seed=1)
    for copy, shots in zip(program(1.0), (300, 200), strict=True):
        (m, both, scaled), mean = copy
        assert (m.shape, m.dtype) == ((shots,), bool)
        assert m.mean() == pytest.approx(np.sin(0.5) ** 2, abs=0.1)
        np.testing.assert_array_equal(both, 3 * m)
        np.testing.assert_array_equal(scaled, 1.0 * m)
        assert mean == pytest.approx(1 - 2 * m.mean())


@pytest.mark.parametrize("device", DEVICES)
def test_measurements_of_a_random_run_have_no_derivative(device: str) -> None:
    circuit = made(with_outcomes, device)
    with pytest.raises(bellhop.DifferentiableCompileError, match="draws random mid-circuit"):
        bellhop.qjit(bellhop.grad(lambda x: circuit(x)[1]))(1.0)


@pytest.mark.parametrize(
    "device", ["lightning.qubit", "default.qubit", "null.qubit", "default.mixed"]
)
def test_values_beside_batches_are_none_of_the_batch(device):
    @bellhop.qjit
    @qml.qnode(qml.device(device, wires=1))
    def circuit(x):
        qml.RX(jnp.array([0.3, 1.2, 0.7]) * x, wires=0)
        return qml.expval(qml.Z(0)), {"x": 2 * x, "v": jnp.array([x, 1.0])}

    mean, values = circuit(0.5)
    assert mean.shape == (3,)
    np.testing.assert_array_equal(values["x"], 1.0)
    np.testing.assert_array_equal(values["v"], [0.5, 1.0])
