"""Circuits in the program as products of matrices: values, the adjoint method, precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.circuits.backends.arrays import reversible_loops
from bellhop.tracing.state import override_trace_state

ANGLES = np.random.default_rng(5).normal(size=(2, 6, 2))
ONE_LAYER = ANGLES[:1]


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


def layered(n, layers, *, in_loop=False, parts=lambda number, scale, angle: None):
    @qml.qnode(qml.device("default.qubit", wires=n))
    def node(x):
        def layer(number, scale):
            for wire in range(n):
                qml.RX(x[number, wire] * scale, wire)
            for wire in range(n):
                qml.CNOT([wire, (wire + 1) % n])
            parts(number, scale, x[0, 0])
            return scale * jnp.cos(x[number, 0])

        if in_loop:
            bellhop.for_loop(0, layers, 1)(layer)(1.0)
        else:
            scale = 1.0
            for number in range(layers):
                scale = layer(number, scale)
        return qml.expval(qml.Z(0))

    return node


@pytest.fixture
def all_reversible(monkeypatch):
    """Let small states not be kept either."""
    monkeypatch.setattr(reversible_loops, "MAX_SAVED_BYTES", 0)


LOOP_TRANSFORMATIONS = {
    "gradient": jax.value_and_grad,
    "forwards": lambda f: lambda x: jax.jvp(f, (x,), (jnp.cos(x),)),
    "second derivative": lambda f: lambda x: jax.jvp(jax.grad(f), (x,), (jnp.cos(x),)),
    "batch": lambda f: lambda x: jax.vmap(jax.grad(f))(jnp.stack([x, 2 * x])),
}


def branch(number, scale, angle):
    bellhop.cond(scale > 0.5)(lambda: qml.RY(angle, 1))()


def branch_and_loop(number, scale, angle):
    branch(number, scale, angle)
    bellhop.for_loop(0, 2, 1)(lambda i: qml.RX(scale, i))()


def gates_of_branch(number, scale, angle):
    """The same where the scale is large in the first layer alone."""
    if number == 0:
        qml.RY(angle, 1)


def gates_of_both(number, scale, angle):
    gates_of_branch(number, scale, angle)
    qml.RX(scale, 0)
    qml.RX(scale, 1)


@pytest.mark.parametrize(
    ("transformation", "parts", "gates"),
    [
        ("gradient", branch_and_loop, gates_of_both),
        ("forwards", branch_and_loop, gates_of_both),
        ("second derivative", branch, gates_of_branch),
        pytest.param(
            "second derivative", branch_and_loop, gates_of_both, marks=pytest.mark.hessian
        ),
        ("batch", branch, gates_of_branch),
    ],
)
def test_loops_are_differentiated_as_the_same_gates_without(
    transformation, parts, gates, all_reversible
):
    transform = LOOP_TRANSFORMATIONS[transformation]
    x = jnp.asarray(np.random.default_rng(3).normal(size=(2, 2)))
    of_loop = layered(2, 2, in_loop=True, parts=parts)
    found = bellhop.qjit(transform(in_region(lambda x: of_loop(x))))(x)
    expected = jax.jit(transform(layered(2, 2, parts=gates)))(x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), found, expected)


def test_a_loop_that_is_not_unitary_is_differentiated_as_it_is(all_reversible):
    @qml.qnode(qml.device("default.qubit", wires=1))
    def node(x):
        matrix = jnp.array([[1.0, 0.5], [0.0, 1.0]])
        bellhop.for_loop(0, 2, 1)(lambda i: qml.QubitUnitary(x * matrix, wires=0))()
        return qml.expval(qml.Z(0))

    # The first entry is the square of x twice.
    slope = bellhop.qjit(jax.grad(in_region(lambda x: node(x))))(0.7)
    np.testing.assert_allclose(slope, 4 * 0.7**3, rtol=1e-12)


def states_of_a_gradient(layers, *, in_loop=False, transform=jax.grad):
    """Return how many states the gradient of a circuit of 16 qubits takes."""
    n = 16
    node = layered(n, layers, in_loop=in_loop)
    program = bellhop.qjit(transform(in_region(lambda x: node(x))))
    with override_trace_state(in_region=True):
        lowered = jax.jit(lambda x: program(x)).lower(jnp.ones((layers, n)))
    return lowered.compile().memory_analysis().temp_size_in_bytes / 2 ** (n + 4)


@pytest.mark.large
@pytest.mark.parametrize("transform", [jax.grad, jax.value_and_grad])
@pytest.mark.parametrize("in_loop", [False, True], ids=["gates", "loop"])
def test_a_gradient_takes_few_states_whatever_the_depth(in_loop, transform, all_reversible):
    few, many = (
        states_of_a_gradient(layers, in_loop=in_loop, transform=transform) for layers in (2, 6)
    )
    assert few < 4
    # 21 matrices more, behind each of which there is a state.  Matrices are kept.
    assert many - few < 2


def test_single_precision_follows_the_parameters():
    f = in_region(lambda x: entangled(device(), x))
    value, slope = bellhop.qjit(jax.value_and_grad(f))(jnp.asarray(ONE_LAYER, jnp.float32))
    assert value.dtype == slope.dtype == np.float32
    np.testing.assert_allclose(value, entangled(device(), ONE_LAYER), atol=1e-5)
    jaxpr = str(jax.make_jaxpr(bellhop.qjit(f))(jnp.asarray(ONE_LAYER, jnp.float32)))
    assert "f64[2,64]" not in jaxpr


@pytest.mark.parametrize("precision", ["single", "double"])
def test_precision_can_be_chosen(precision):
    dtype = np.float64 if precision == "single" else np.float32
    f = in_region(lambda x: entangled(device(), x))
    program = bellhop.qjit(f, precision=precision)
    value = program(jnp.asarray(ONE_LAYER, dtype))
    assert value.dtype == dtype
    exact = entangled(device(), np.asarray(ONE_LAYER, dtype).astype(float))
    np.testing.assert_allclose(value, exact, atol=1e-5)
    assert ("tensor<2x64xf32>" in program.mlir) == (precision == "single")


@pytest.mark.parametrize("n_words", [2, 40])
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
        return entangled(device(), jnp.asarray(ONE_LAYER), observable)

    value, slope = bellhop.qjit(jax.value_and_grad(in_region(mean)))(jnp.asarray(coefficients))
    np.testing.assert_allclose(value, mean(coefficients), atol=1e-12)
    one = entangled(device(), ONE_LAYER, products[-1])
    np.testing.assert_allclose(slope[-1], one, atol=1e-12)
