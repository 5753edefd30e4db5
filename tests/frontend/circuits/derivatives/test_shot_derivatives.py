"""Derivatives of circuits with shots: near those without, by parameter shifts and differences.

Seeds are fixed, and tolerances are above five standard errors.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

MATRIX = np.array([[0.5, 0.2 - 0.7j], [0.2 + 0.7j, -1.0]])
POINT = (jnp.array(0.4), jnp.array(0.7))
SHOTS = 10_000


def circuit(x: Any, y: Any) -> Any:
    qml.RX(x, wires=0)
    qml.RY(y, wires=1)
    qml.CNOT(wires=[0, 1])
    qml.CRX(x * y, wires=[1, 2])
    for i in range(2):
        qml.RZ(x * (i + 1), wires=2)
        qml.RY(y, wires=2)
    return {
        "word": qml.expval(qml.Z(1) @ qml.X(2)),
        "sum": qml.expval(0.4 * qml.X(2) + qml.Z(0)),
        "matrix": qml.expval(qml.Hermitian(MATRIX, 1) @ qml.Y(0)),
        "variance": qml.var(qml.Hermitian(MATRIX, 1) @ qml.Y(2)),
        "wires": qml.probs(wires=[0, 2]),
        "observable": qml.probs(op=qml.X(1)),
    }


def node(
    function: Callable[..., Any] = circuit,
    shots: Any = SHOTS,
    seed: int | None = None,
    **options: Any,
) -> Any:
    made = qml.QNode(function, qml.device("lightning.qubit", wires=3, seed=seed), **options)
    return qml.set_shots(made, shots)


def jacobian(qnode: Any, seed: int | None = 7) -> Any:
    return bellhop.qjit(bellhop.jacobian(qnode, argnums=[0, 1]), seed=seed)


@pytest.fixture(scope="module")
def exact() -> Any:
    """Return the derivatives without shots, by backpropagation and not compiled."""
    plain = qml.QNode(circuit, qml.device("default.qubit", wires=3))
    return jax.jit(jax.jacobian(plain, argnums=[0, 1]))(*POINT)


def assert_near(actual: Any, expected: Any, tolerance: float) -> None:
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


METHODS: dict[str, dict[str, Any]] = {
    "best": {"diff_method": "best"},
    "parameter-shift": {"diff_method": "parameter-shift"},
    "finite-diff": {
        "diff_method": "finite-diff",
        "gradient_kwargs": {"h": 0.2, "approx_order": 2, "strategy": "center"},
    },
}


@pytest.mark.parametrize(
    "method",
    [pytest.param("best", marks=pytest.mark.large), "parameter-shift", "finite-diff"],
)
def test_method(exact: Any, method: str) -> None:
    # Of a difference over 2 h: the square root of two shot variances, over 2 h.
    tolerance = 6 * 1.5 / np.sqrt(SHOTS) * (4 if method == "finite-diff" else 1)
    derivatives = jacobian(node(**METHODS[method]))(*POINT)
    assert_near(derivatives, exact, tolerance)
    # They are estimates: nothing computed them without samples.
    assert not np.allclose(derivatives["word"][0], exact["word"][0], rtol=0, atol=1e-9)


@pytest.mark.large
def test_the_mean_of_many_estimates_is_the_derivative(exact: Any) -> None:
    runs = 50
    program = jacobian(node(shots=200, seed=7), seed=None)  # other samples at each call
    estimates = [program(*POINT) for _ in range(runs)]
    means = jax.tree.map(lambda *values: np.mean(values, axis=0), *estimates)
    errors = jax.tree.map(lambda *values: np.std(values, axis=0) / np.sqrt(runs), *estimates)
    del means["variance"], errors["variance"]  # Biased by one part in the number of shots.
    for name, mean in means.items():
        for argnum in range(2):
            off = np.abs(mean[argnum] - exact[name][argnum])
            assert np.all(off < 5 * errors[name][argnum] + 1e-12), name


def probabilities(x: Any, y: Any) -> Any:
    qml.RX(x, wires=0)
    qml.RY(y, wires=1)
    return {"wires": qml.probs(wires=[0, 1])}


@pytest.mark.parametrize(
    "measured", [(probabilities,), pytest.param((), id="all", marks=pytest.mark.large)]
)
def test_seeds(measured: tuple[Any, ...]) -> None:
    one, same, other = (jacobian(node(*measured, shots=100), seed) for seed in (5, 5, 6))
    first, again = one(*POINT), one(*POINT)
    assert_near(same(*POINT), first, 0)
    assert_near(again, first, 0)
    assert not np.array_equal(first["wires"][0], other(*POINT)["wires"][0])


def test_shot_vector(exact: Any) -> None:
    few, many = jacobian(node(shots=[100, SHOTS]))(*POINT)
    assert_near(few, exact, 1.2)
    assert_near(many, exact, 0.09)


def rotated(x: Any) -> Any:
    qml.RX(x, wires=0)
    qml.RY(x, wires=0)
    return qml.expval(qml.Z(0))


def test_second_derivative() -> None:
    second = bellhop.qjit(bellhop.grad(bellhop.grad(node(rotated, 40_000))), seed=1)(0.4)
    np.testing.assert_allclose(second, -2 * np.cos(0.8), atol=0.05)


def test_in_loops_and_batches() -> None:
    def looped(x: Any) -> Any:
        @bellhop.for_loop(0, 3, 1)
        def loop(i: Any) -> None:
            qml.RX(x * (i + 1), wires=0)

        loop()
        return qml.expval(qml.Z(0))

    xs = jnp.array([0.1, 0.2, 0.3])
    gradients = bellhop.qjit(jax.vmap(bellhop.grad(node(looped))), seed=2)(xs)
    np.testing.assert_allclose(gradients, -6 * np.sin(6 * xs), atol=0.2)


def test_samples_have_no_derivative() -> None:
    def both(x: Any) -> Any:
        return rotated(x), qml.sample(wires=0)

    message = "the QNode 'both'.*the circuit is differentiated and returns sample, counts"
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        bellhop.qjit(bellhop.grad(lambda x: node(both, 10)(x)[0]))(0.3)


def test_adjoint_method() -> None:
    message = "the QNode 'rotated'.*has shots and is differentiated with diff_method='adjoint'"
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        bellhop.qjit(bellhop.grad(node(rotated, diff_method="adjoint")))(0.3)
