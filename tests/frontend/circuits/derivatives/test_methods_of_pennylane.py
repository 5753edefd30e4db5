"""``diff_method`` "spsa" and "hadamard", and shifts that the user gives.

What is drawn has fixed seeds, and tolerances are above five standard errors.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

POINT = 0.4, 0.7
DEVICES = ("lightning.qubit", "default.qubit", "default.mixed")


def circuit(x: Any, y: Any) -> Any:
    qml.RX(x, wires=0)
    qml.RY(y, wires=1)
    qml.CNOT(wires=[0, 1])
    qml.CRX(x * y, wires=[1, 0])
    return qml.expval(qml.Z(0) @ qml.X(1)), qml.probs(wires=0)


def node(name: str, function: Any = circuit, shots: int | None = None, **options: Any) -> Any:
    return qml.set_shots(qml.QNode(function, qml.device(name, wires=3), **options), shots)


def jacobian(qnode: Any, **options: Any) -> Any:
    found = bellhop.qjit(jax.jacobian(qnode, argnums=(0, 1)), **options)(*POINT)
    return np.concatenate([np.ravel(part) for part in jax.tree.leaves(found)])


@pytest.fixture(scope="module")
def exact() -> Any:
    """Return the derivatives by backpropagation, not compiled."""
    plain = qml.QNode(circuit, qml.device("default.qubit"))
    found = jax.jit(jax.jacobian(plain, argnums=(0, 1)))(*POINT)
    return np.concatenate([np.ravel(part) for part in jax.tree.leaves(found)])


@pytest.mark.parametrize("name", DEVICES)
def test_many_directions_give_the_derivative(name: str, exact: Any) -> None:
    options = {"num_directions": 60 if name == "default.mixed" else 1000, "sampler_rng": 3}
    found = jacobian(node(name, diff_method="spsa", gradient_kwargs=options))
    np.testing.assert_allclose(found, exact, atol=5 / np.sqrt(options["num_directions"]))


# PennyLane's own use of JAX.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_directions_of_a_seed_are_those_of_pennylane() -> None:
    options = {"num_directions": 3, "sampler_rng": 7, "strategy": "forward", "approx_order": 1}
    spsa = {"diff_method": "spsa", "gradient_kwargs": options}
    found = jacobian(node("lightning.qubit", **spsa))
    plain = jax.jacobian(node("default.qubit", **spsa), argnums=(0, 1))(*POINT)
    expected = np.concatenate([np.ravel(part) for part in jax.tree.leaves(plain)])
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("name", ["lightning.qubit", "default.qubit"])
def test_each_run_has_directions_of_its_own(name: str, exact: Any) -> None:
    def slope(x: Any, y: Any) -> Any:
        return jax.grad(lambda x, y: qnode(x, y)[0], argnums=(0, 1))(x, y)

    options = {"num_directions": 11}
    qnode = node(name, diff_method="spsa", gradient_kwargs=options)
    runs = bellhop.qjit(lambda x, y: [slope(x, y) for _ in range(2)])
    # A mean of few directions has few values: those of one call are equal once in six times.
    found = [np.round(np.stack(runs(*POINT))[:, 0], 6) for _ in range(20)]
    assert any(len(np.unique(of_call)) > 1 for of_call in found)


def test_bits_are_in_no_direction() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=2), diff_method="spsa")
    def prepared(bits: Any, x: Any) -> Any:
        qml.BasisState(bits, wires=[0, 1])
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    found = bellhop.qjit(jax.grad(prepared, argnums=1))(np.array([1, 0]), 0.4)
    np.testing.assert_allclose(found, np.sin(0.4), atol=1e-8)


def test_a_loop_of_computed_length_on_default_qubit() -> None:
    def loop(n: Any, x: Any) -> Any:
        bellhop.for_loop(0, n)(lambda i: qml.RX(x * (i + 1), 0))()
        return qml.expval(qml.Z(0))

    spsa = node("default.qubit", loop, diff_method="spsa")
    found = bellhop.qjit(bellhop.grad(spsa, argnums=1))(3, 0.7)
    np.testing.assert_allclose(found, -6 * np.sin(6 * 0.7), atol=1e-5)


def test_finite_differences_on_default_qubit(exact: Any) -> None:
    found = jacobian(node("default.qubit", diff_method="finite-diff"))
    np.testing.assert_allclose(found, exact, atol=3e-6)


@pytest.mark.parametrize("name", DEVICES)
def test_hadamard_tests_give_the_derivative(name: str, exact: Any) -> None:
    found = jacobian(node(name, diff_method="hadamard", gradient_kwargs={"aux_wire": 2}))
    np.testing.assert_allclose(found, exact, atol=1e-9)


@pytest.mark.parametrize("method", ["hadamard", "spsa"])
@pytest.mark.parametrize("name", ["lightning.qubit", "default.qubit"])
def test_with_shots(method: str, name: str, exact: Any) -> None:
    options = {"h": 0.3, "num_directions": 100} if method == "spsa" else {"aux_wire": 2}
    sampled = node(name, shots=500, diff_method=method, gradient_kwargs=options)
    np.testing.assert_allclose(jacobian(sampled, seed=4), exact, atol=0.5)


def test_under_vmap_and_jvp() -> None:
    def of_angle(x: Any) -> Any:
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    xs = jnp.array([0.1, 0.5, 2.0])
    for method, options in (("spsa", {}), ("hadamard", {"aux_wire": 2})):
        qnode = node("lightning.qubit", of_angle, diff_method=method, gradient_kwargs=options)
        slopes = bellhop.qjit(jax.vmap(lambda x, f=qnode: jax.jvp(f, (x,), (2.0,))[1]))(xs)
        np.testing.assert_allclose(slopes, -2 * np.sin(xs), atol=1e-5)


def test_shifts_that_are_given(exact: Any) -> None:
    shifts = [(0.1,), (0.2,), (0.3, 0.8)]
    for name in ("lightning.qubit", "default.qubit"):
        options = {"diff_method": "parameter-shift", "gradient_kwargs": {"shifts": shifts}}
        np.testing.assert_allclose(jacobian(node(name, **options)), exact, atol=1e-9)


def test_shifts_for_parameters_without_frequencies() -> None:
    def prepared(bits: Any, x: Any) -> Any:
        qml.BasisState(bits, [0])
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    options = {"diff_method": "parameter-shift", "gradient_kwargs": {"shifts": [(), (0.3,)]}}
    slope = bellhop.grad(node("lightning.qubit", prepared, **options), argnums=1)
    np.testing.assert_allclose(bellhop.qjit(slope)(jnp.array([1]), 0.4), np.sin(0.4), atol=1e-9)


def looping(n: Any, x: Any) -> Any:
    bellhop.for_loop(0, n)(lambda i: qml.RX(x, 0))()
    return qml.expval(qml.Z(0))


def variance(x: Any, y: Any) -> Any:
    qml.RX(x, 0)
    return qml.var(qml.Z(0))


ERRORS = {
    "twice": (
        lambda: jax.hessian(lambda x: node("default.qubit", diff_method="spsa")(x, 0.3)[0]),
        (0.4,),
        "differentiated twice with diff_method='spsa', and finite differences of",
    ),
    "in a loop": (
        lambda: bellhop.grad(node("lightning.qubit", looping, diff_method="spsa"), argnums=1),
        (3, 0.4),
        "gates in a loop with a dynamic trip count, and diff_method='spsa' needs a static",
    ),
    "too few shifts": (
        lambda: bellhop.jacobian(node("lightning.qubit", **shifted([(0.1,)]))),
        POINT,
        "expected 3 tuples of shifts, one for each gate parameter, got 1. Pass a tuple",
    ),
    "shifts of another rule": (
        lambda: bellhop.jacobian(node("lightning.qubit", **shifted([(0.1,), (0.2,), (0.3,)]))),
        POINT,
        "expected 2 shifts for gate parameter 2, one for each of the gate's frequencies, got 1",
    ),
    "a generator": (
        lambda: node("lightning.qubit", **spsa(sampler_rng=np.random.default_rng(1))),
        POINT,
        "the option sampler_rng of gradient_kwargs is a Generator, expected an integer or",
    ),
    "another option": (
        lambda: node("default.qubit", **spsa(shifts=[(0.1,)])),
        POINT,
        "gradient_kwargs has an unknown option shifts, expected h,",
    ),
    "Hadamard tests of a variance": (
        lambda: bellhop.grad(node("lightning.qubit", variance, diff_method="hadamard")),
        POINT,
        "measures var and is differentiated with diff_method='hadamard', which supports",
    ),
    "Hadamard tests twice": (
        lambda: jax.hessian(lambda x: node("lightning.qubit", diff_method="hadamard")(x, 0.3)[0]),
        (0.4,),
        "differentiated 2 times with diff_method='hadamard', whose mode 'standard'",
    ),
    "differences of complex arguments": (
        lambda: jax.grad(complex_circuit, holomorphic=False),
        (0.4 + 0.1j,),
        "the circuit is differentiated with respect to complex arguments, which",
    ),
}


def shifted(shifts: Any) -> Any:
    return {"diff_method": "parameter-shift", "gradient_kwargs": {"shifts": shifts}}


def spsa(**options: Any) -> Any:
    return {"diff_method": "spsa", "gradient_kwargs": options}


def complex_circuit(z: Any) -> Any:
    def of_parts(z: Any) -> Any:
        qml.RX(jnp.real(z), 0)
        return qml.expval(qml.Z(0))

    return node("default.qubit", of_parts, diff_method="finite-diff")(z)


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    make, point, message = ERRORS[name]
    with pytest.raises(bellhop.CompileError) as caught:
        bellhop.qjit(make())(*point)
    assert message in str(caught.value)
    assert "test_methods_of_pennylane.py:" in str(caught.value)


def test_a_coefficient_after_random_directions() -> None:
    """A derivative along random directions is a difference, of which none is taken again."""

    @qml.qnode(qml.device("lightning.qubit", wires=1), diff_method="spsa")
    def circuit(x: Any, c: Any) -> Any:
        qml.RX(x, wires=0)
        return qml.expval(c * qml.Z(0))

    with pytest.raises(
        bellhop.DifferentiableCompileError, match="the circuit is differentiated twice"
    ):
        bellhop.qjit(jax.grad(jax.grad(circuit), argnums=1))(0.3, 0.5)
