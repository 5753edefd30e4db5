"""Circuits in the program as products of matrices: values, the adjoint method, precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.tracing.state import tracing_with

ANGLES = np.random.default_rng(5).normal(size=(2, 6, 2))


def entangled(device, x, observable=None):
    """Return the mean of an observable behind gates on all pairs of qubits, near and far."""

    @qml.qnode(device)
    def node(x):
        for layer in range(len(x)):
            for wire in range(6):
                qml.RX(x[layer, wire, 0], wire)
                qml.Rot(x[layer, wire, 1], 0.3, x[layer, wire, 0] ** 2, wires=wire)
            for wire in range(6):
                qml.CRY(x[layer, wire, 1], [wire, (wire + 2 + layer) % 6])
            qml.Toffoli([5, 0, 3])
            qml.adjoint(qml.IsingXY(x[layer, 2, 0], [4, 1]))
        return qml.expval(
            qml.Z(0) @ qml.Y(4) + 0.3 * qml.X(2) if observable is None else observable
        )

    return node(x)


def in_region(function):
    return bellhop.accelerate(function, dev="cpu:1")


def device():
    return qml.device("default.qubit", wires=6)


def test_values_and_derivatives_are_those_of_pennylane():
    f = lambda x: entangled(device(), x)
    region, x = in_region(f), jnp.asarray(ANGLES)
    value, slope = bellhop.qjit(jax.value_and_grad(region))(x)
    np.testing.assert_allclose(value, entangled(device(), ANGLES), atol=1e-12)
    shift = np.zeros_like(ANGLES)
    shift[1, 2, 0] = 1e-5
    difference = (f(ANGLES + shift) - f(ANGLES - shift)) / 2e-5
    np.testing.assert_allclose(slope[1, 2, 0], difference, atol=1e-8)
    forwards = bellhop.qjit(lambda x: jax.jvp(region, (x,), (shift,))[1])(x)
    np.testing.assert_allclose(forwards, np.sum(slope * shift), atol=1e-14)


@pytest.mark.hessian
def test_second_derivatives():
    region, x = in_region(lambda x: entangled(device(), x)), jnp.asarray(ANGLES)
    direction = jnp.asarray(np.random.default_rng(1).normal(size=ANGLES.shape))
    along = lambda g: lambda x: jnp.sum(g(x) * direction)
    forwards = bellhop.qjit(lambda x: jax.jvp(jax.grad(region), (x,), (direction,))[1])(x)
    backwards = bellhop.qjit(jax.grad(along(jax.grad(region))))(x)
    expected = jax.grad(along(jax.grad(lambda x: entangled(device(), x))))(x)
    np.testing.assert_allclose(forwards, expected, atol=1e-10)
    np.testing.assert_allclose(backwards, expected, atol=1e-10)


def test_a_matrix_that_is_not_unitary_is_differentiated_as_it_is():
    @qml.qnode(qml.device("default.qubit", wires=2))
    def node(x):
        qml.RY(x, 0)
        qml.QubitUnitary(x * jnp.array([[1.0, 0.5], [0.0, 1.0]]), wires=0)
        qml.CNOT([0, 1])
        qml.RX(x, 1)
        return qml.expval(qml.Z(0)), qml.expval(qml.Z(1))

    joined = lambda x: jnp.stack(node(x))
    slopes = bellhop.qjit(jax.jacrev(in_region(joined)))(0.7)
    # By hand: sin, cos of the half angle, then the matrix.
    after = lambda x: x * np.array([np.cos(x / 2) + np.sin(x / 2) / 2, np.sin(x / 2)])
    means = lambda x: after(x)[0] ** 2 - after(x)[1] ** 2
    step = 1e-5
    np.testing.assert_allclose(
        slopes[0], (means(0.7 + step) - means(0.7 - step)) / (2 * step), rtol=1e-8
    )
    ones = lambda x: np.cos(x) * means(x)
    np.testing.assert_allclose(
        slopes[1], (ones(0.7 + step) - ones(0.7 - step)) / (2 * step), rtol=1e-8
    )


def states_of_a_gradient(layers):
    """Return how many states the gradient of a circuit of 12 qubits takes."""
    n = 12

    @qml.qnode(qml.device("default.qubit", wires=n))
    def node(x):
        for layer in range(layers):
            for wire in range(n):
                qml.RX(x[layer, wire], wire)
            for wire in range(n):
                qml.CNOT([wire, (wire + 1) % n])
        return qml.expval(qml.Z(0))

    program = bellhop.qjit(jax.grad(in_region(lambda x: node(x))))
    with tracing_with(in_region=True):
        lowered = jax.jit(lambda x: program(x)).lower(jnp.ones((layers, n)))
    return lowered.compile().memory_analysis().temp_size_in_bytes / 2 ** (n + 4)


@pytest.mark.large
def test_memory_of_a_gradient_does_not_grow_with_the_states_between_the_gates():
    # 96 gates more, behind each of which there is a state.  Matrices are kept.
    few, many = states_of_a_gradient(4), states_of_a_gradient(8)
    assert many - few < 12
    assert few < 17


def test_single_precision_follows_the_parameters():
    f = in_region(lambda x: entangled(device(), x))
    value, slope = bellhop.qjit(jax.value_and_grad(f))(jnp.asarray(ANGLES, jnp.float32))
    assert value.dtype == slope.dtype == np.float32
    np.testing.assert_allclose(value, entangled(device(), ANGLES), atol=1e-5)
    jaxpr = str(jax.make_jaxpr(bellhop.qjit(f))(jnp.asarray(ANGLES, jnp.float32)))
    assert "f64[2,64]" not in jaxpr


@pytest.mark.parametrize("precision", ["single", "double"])
def test_precision_can_be_chosen(precision):
    dtype = np.float64 if precision == "single" else np.float32
    f = in_region(lambda x: entangled(device(), x))
    program = bellhop.qjit(f, precision=precision)
    value = program(jnp.asarray(ANGLES, dtype))
    assert value.dtype == dtype
    exact = entangled(device(), np.asarray(ANGLES, dtype).astype(float))
    np.testing.assert_allclose(value, exact, atol=1e-5)
    assert ("tensor<2x64xf32>" in program.mlir) == (precision == "single")


@pytest.mark.parametrize("n_words", [3, 40])
def test_sums_of_pauli_words(n_words):
    rng = np.random.default_rng(n_words)
    letters = rng.integers(0, 4, size=(n_words, 6))
    letters[:, 0] = 3
    products = [
        qml.prod(*(getattr(qml, "IXYZ"[letter])(wire) for wire, letter in enumerate(row)))
        for row in letters
    ]
    coefficients = rng.normal(size=n_words)

    def mean(coefficients):
        observable = qml.dot(coefficients, products)
        return entangled(device(), jnp.asarray(ANGLES), observable)

    value, slope = bellhop.qjit(jax.value_and_grad(in_region(mean)))(jnp.asarray(coefficients))
    np.testing.assert_allclose(value, mean(coefficients), atol=1e-12)
    one = entangled(device(), ANGLES, products[-1])
    np.testing.assert_allclose(slope[-1], one, atol=1e-12)
