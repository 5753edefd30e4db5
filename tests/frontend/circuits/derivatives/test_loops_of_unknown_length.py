"""Derivatives of circuits whose loops of gates have a length that the program computes."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

LIGHTNING = qml.device("lightning.qubit", wires=3)
DEFAULT = qml.device("default.qubit", wires=3)
THETA = jnp.linspace(0.2, 1.1, 6)
X = 0.4


def body(theta, i, y):
    qml.RY(theta[i] * y, wires=0)
    qml.CNOT([0, 1])
    qml.CRZ(y**2 + theta[i], wires=[1, 2])
    return jnp.sin(y) + theta[i]


def carried_and_captured(theta, x, n):
    qml.RX(x, wires=0)
    y = bellhop.for_loop(0, n, 1)(lambda i, y: body(theta, i, y))(x)
    qml.RX(y, wires=1)


def backwards(theta, x, n):
    @bellhop.for_loop(n, 0, -2)
    def loop(i):
        qml.RX(theta[i] * x, wires=0)
        qml.IsingXX(theta[i - 1] + x, wires=[0, 2])

    loop()


def while_its_values_are_small(theta, x, n):
    @bellhop.while_loop(lambda i, y: (i < n) & (y < 50.0))
    def loop(i, y):
        qml.RY(y, wires=0)
        qml.CRX(theta[i], wires=[0, 1])
        return i + 1, 1.5 * y + theta[i]

    _, y = loop(0, x)
    qml.PhaseShift(y, wires=1)
    qml.Hadamard(1)


def in_a_loop_of_known_length(theta, x, n):
    @bellhop.for_loop(0, 2, 1)
    def outer(j, y):
        qml.RX(y, wires=j)
        y = bellhop.for_loop(0, n - j, 1)(lambda i, y: body(theta, i, y))(y)
        qml.RZ(y, wires=1)
        return y * x

    outer(x)


def around_a_loop_of_known_length(theta, x, n):
    @bellhop.for_loop(0, n, 1)
    def outer(j, y):
        qml.RX(y, wires=1)

        @bellhop.for_loop(0, 3, 1)
        def inner(i):
            qml.RY(theta[i] * y, wires=i)
            qml.RZ(theta[j], wires=i)

        inner()
        qml.CNOT([0, 1])
        y = bellhop.for_loop(0, 2, 1)(lambda i, y: body(theta, i, y))(y)
        return y + x

    outer(x)


def in_one_another(theta, x, n):
    @bellhop.for_loop(0, n, 1)
    def outer(j, y):
        qml.RX(y, wires=0)
        y = bellhop.while_loop(lambda i, _: i < n - j)(lambda i, y: (i + 1, body(theta, i, y)))(
            0, y
        )[1]
        qml.RZ(y, wires=1)
        return y

    outer(x)


def with_branches(theta, x, n):
    @bellhop.for_loop(0, n, 1)
    def loop(i, y):
        @bellhop.cond(i % 2 == 0)
        def branch():
            qml.RX(theta[i], wires=0)
            qml.RY(y, wires=0)
            return y * theta[0]

        @branch.otherwise
        def branch():
            qml.RZ(y * theta[i], wires=0)
            return y + x

        y = branch()
        qml.CNOT([0, 1])
        qml.RY(y, wires=1)
        return y

    qml.Hadamard(0)
    loop(x)


def in_a_branch(theta, x, n):
    @bellhop.cond(n > 2)
    def branch():
        return bellhop.for_loop(0, n, 1)(lambda i, y: body(theta, i, y))(x)

    @branch.otherwise
    def branch():
        qml.RY(theta[0], wires=0)
        return theta[1] * x

    qml.RX(branch(), wires=0)


def controlled_and_inverse(theta, x, n):
    def loop():
        bellhop.for_loop(0, n, 1)(lambda i, y: (qml.RY(theta[i] * y, wires=0), y + x)[1])(x)

    qml.Hadamard(1)
    bellhop.ctrl(loop, control=1)()
    qml.RX(x, wires=0)
    bellhop.adjoint(loop)()


def on_wires_of_their_own(theta, x, n):
    @bellhop.for_loop(0, n, 1)
    def loop(i):
        qml.RX(theta[i] + x, wires=i % 3)
        qml.CNOT([i % 3, (i + 1) % 3])

    loop()


CIRCUITS = [
    carried_and_captured,
    backwards,
    while_its_values_are_small,
    in_a_loop_of_known_length,
    around_a_loop_of_known_length,
    in_one_another,
    with_branches,
    in_a_branch,
    controlled_and_inverse,
    on_wires_of_their_own,
]


def measured(function, device):
    @qml.qnode(device)
    def circuit(theta, x, n):
        function(theta, x, n)
        return qml.expval(qml.Z(0)), qml.expval(qml.X(1) @ qml.Z(2)), qml.expval(qml.Y(1))

    return lambda *args: jnp.stack(circuit(*args))


@pytest.mark.large
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(
            function,
            marks=pytest.mark.quick if function in (carried_and_captured, with_branches) else (),
        )
        for function in CIRCUITS
    ],
)
def test_derivatives(function):
    compiled = bellhop.qjit(bellhop.jacobian(measured(function, LIGHTNING), argnums=[0, 1]))
    reference = jax.jacfwd(measured(function, DEFAULT), argnums=(0, 1))
    # Uncompiled, a while_loop is Python's.
    if function is not while_its_values_are_small:
        reference = jax.jit(reference, static_argnums=2)
    for n in (3, 0):
        for got, expected in zip(compiled(THETA, X, n), reference(THETA, X, n), strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-9)


@pytest.mark.large
def test_a_result_is_computed_with_its_derivative():
    """In whichever way it is asked for, inside and outside of a program."""

    def cost(theta, x, n):
        return jnp.sum(measured(in_one_another, LIGHTNING)(theta, x, n) ** 2)

    reference = lambda *args: jnp.sum(measured(in_one_another, DEFAULT)(*args) ** 2)
    value, slope = jax.value_and_grad(reference)(THETA, X, 3)
    direction = jnp.cos(THETA)

    def check(result, *expected):
        for got, wanted in zip(jax.tree.leaves(result), expected, strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-9)

    check(bellhop.qjit(bellhop.value_and_grad(cost))(THETA, X, 3), value, slope)
    check(jax.grad(bellhop.qjit(cost))(THETA, X, 3), slope)
    check(jax.jit(jax.grad(bellhop.qjit(cost)))(THETA, X, 3), slope)

    @bellhop.qjit
    def products(theta, x, n):
        of_theta = lambda theta: cost(theta, x, n)
        return (
            bellhop.vjp(of_theta, [theta], [1.0]),
            bellhop.jvp(of_theta, [theta], [direction]),
        )

    check(products(THETA, X, 3), value, slope, value, slope @ direction)


@pytest.mark.large
def test_batches():
    cost = lambda theta, n: measured(carried_and_captured, LIGHTNING)(theta, X, n)[2]
    reference = lambda theta, n: measured(carried_and_captured, DEFAULT)(theta, X, n)[2]
    thetas, lengths = jnp.stack([THETA, 2 * THETA]), jnp.array([2, 4])
    got = bellhop.qjit(bellhop.vmap(bellhop.grad(cost)))(thetas, lengths)
    for row, theta, n in zip(got, thetas, (2, 4), strict=True):
        np.testing.assert_allclose(row, jax.grad(reference)(theta, n), atol=1e-9)
    # Of circuits that run together, and in the other order.
    values = bellhop.qjit(lambda thetas: jax.vmap(lambda theta: cost(theta, 3))(thetas))
    expected = [reference(theta, 3) for theta in thetas]
    np.testing.assert_allclose(values(thetas), expected, atol=1e-9)
    total = bellhop.grad(lambda thetas, n: jnp.sum(jax.vmap(cost, (0, None))(thetas, n)))
    for row, theta in zip(bellhop.qjit(total)(thetas, 3), thetas, strict=True):
        np.testing.assert_allclose(row, jax.grad(reference)(theta, 3), atol=1e-9)


def test_data_of_observables():
    def circuit(coefficients, x, n):
        bellhop.for_loop(0, n, 1)(lambda i, y: (qml.RY(y, wires=0), y + x)[1])(x)
        return qml.expval(qml.Hamiltonian(coefficients, [qml.Z(0), qml.X(0)]))

    compiled = bellhop.qjit(bellhop.grad(qml.qnode(LIGHTNING)(circuit), argnums=[0, 1]))
    coefficients = jnp.array([0.3, 0.8])
    # The angles add up: x * n * (n + 1) / 2.
    of_coefficients, of_x = compiled(coefficients, 0.2, 3)
    np.testing.assert_allclose(of_coefficients, [np.cos(1.2), np.sin(1.2)], atol=1e-9)
    np.testing.assert_allclose(of_x, 6 * (0.8 * np.cos(1.2) - 0.3 * np.sin(1.2)), atol=1e-9)


def test_more_iterations_than_checkpoints():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x, n):
        bellhop.for_loop(0, n, 1)(lambda i, y: (qml.RX(y, wires=0), 0.999 * y)[1])(x)
        return qml.expval(qml.Z(0))

    n = 3000
    total = (1 - 0.999**n) / (1 - 0.999)
    slope = bellhop.qjit(bellhop.grad(circuit))(0.3, n)
    np.testing.assert_allclose(slope, -total * np.sin(0.3 * total), rtol=1e-7)


def test_a_loop_whose_gates_do_not_depend_on_it():
    """Its values do: they come out of the loop with their derivative."""

    @qml.qnode(LIGHTNING)
    def circuit(x, n):
        @bellhop.for_loop(0, n, 1)
        def loop(i, y):
            qml.RX(0.1 * i, wires=1)
            return jnp.sin(y)

        qml.RY(loop(x), wires=0)
        return qml.probs(wires=0), qml.expval(qml.Z(1))

    probabilities, other = bellhop.qjit(bellhop.jacobian(circuit))(0.7, 2)
    y = np.sin(np.sin(0.7))
    dy = np.cos(np.sin(0.7)) * np.cos(0.7)
    np.testing.assert_allclose(probabilities, np.array([-1, 1]) * np.sin(y) / 2 * dy, atol=1e-9)
    np.testing.assert_allclose(other, 0, atol=1e-12)


def test_with_mid_circuit_measurements_outside_of_the_loop():
    @qml.qnode(LIGHTNING)
    def circuit(x, n):
        qml.RX(0.9, wires=1)
        outcome = bellhop.measure(1)
        y = bellhop.for_loop(0, n, 1)(lambda i, y: (qml.CNOT([0, 2]), y * y)[1])(x)
        qml.RY(y * (1 + outcome), wires=0)
        return qml.expval(qml.Z(0))

    slope = bellhop.qjit(bellhop.grad(circuit))(0.8, 2)
    one = np.sin(0.45) ** 2
    y, dy = 0.8**4, 4 * 0.8**3
    expected = -(1 - one) * np.sin(y) * dy - one * np.sin(2 * y) * 2 * dy
    np.testing.assert_allclose(slope, expected, atol=1e-9)


@pytest.mark.parametrize("derivative", [jax.jacrev, jax.jacfwd])
def test_in_a_loop_without_iterations(derivative):
    """What it reads of the circuit is read before the circuit ends, though nobody uses it."""

    @qml.qnode(LIGHTNING)
    def circuit(x, n):
        qml.RX(x[0], wires=0)

        @bellhop.for_loop(0, 0, 1)
        def never(_):
            @bellhop.for_loop(0, n, 1)
            def loop(j):
                qml.RX(x[j], wires=0)

            loop()

        never()
        return qml.expval(qml.Z(0))

    slope = bellhop.qjit(derivative(circuit))(jnp.array([0.3, 0.4, 0.5]), 2)
    np.testing.assert_allclose(slope, [-np.sin(0.3), 0, 0], atol=1e-9)


def test_tangent_that_is_a_python_number():
    @qml.qnode(LIGHTNING)
    def circuit(x, n):
        bellhop.for_loop(0, n, 1)(lambda _: (qml.RX(x, wires=0), None)[1])()
        return qml.expval(qml.Z(0))

    _, slope = bellhop.qjit(lambda x: jax.jvp(lambda x: circuit(x, 2), (x,), (1.0,)))(0.3)
    np.testing.assert_allclose(slope, -2 * np.sin(0.6), atol=1e-9)


@pytest.mark.large
def test_on_default_qubit():
    """A circuit on default.qubit is part of the program, and so are its loops."""
    cost = lambda theta, x, n: measured(in_one_another, DEFAULT)(theta, x, n)[1]
    compiled = bellhop.qjit(bellhop.grad(cost, argnums=[0, 1]))
    expected = jax.grad(cost, argnums=(0, 1))(THETA, X, 3)
    for got, wanted in zip(compiled(THETA, X, 3), expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-9)


@pytest.mark.parametrize("loop", [bellhop.for_loop, jax.lax.fori_loop])
@pytest.mark.parametrize("derivative", [bellhop.grad, jax.grad, jax.value_and_grad])
def test_side_effects_happen_once(loop, derivative, capfd):
    @qml.qnode(LIGHTNING)
    def printing(x, n):
        def body(i, y):
            qml.RX(y, wires=0)
            bellhop.debug.print("{}", i)
            return y * x

        if loop is bellhop.for_loop:
            bellhop.for_loop(0, n, 1)(body)(x)
        else:
            y = jax.lax.fori_loop(0, n, lambda i, y: (bellhop.debug.print("{}", i), y * x)[1], x)
            qml.RX(x + y / x, wires=0)
        return qml.expval(qml.Z(0))

    found = bellhop.qjit(derivative(printing))(0.3, 2)
    slope = found[1] if derivative is jax.value_and_grad else found
    np.testing.assert_allclose(slope, -np.sin(0.3 + 0.09) * (1 + 2 * 0.3), rtol=1e-9)
    assert capfd.readouterr().out == "0\n1\n"


def test_results_of_side_effects_are_not_asked_for_again():
    draw = bellhop.io_callback(lambda: 0.5, float)

    @qml.qnode(LIGHTNING)
    def drawn(x, n):
        bellhop.for_loop(0, n, 1)(lambda _: (qml.RX(x * draw(), wires=0), None)[1])()
        return qml.expval(qml.Z(0))

    with pytest.raises(
        bellhop.DifferentiableCompileError, match=r"drawn.*would repeat calls with side effects"
    ):
        bellhop.qjit(bellhop.grad(drawn))(0.3, 2)


def amplitudes(state):
    return jnp.sum(jnp.cos(jnp.arange(state.size)) * (state.real + 2 * state.imag))


# No device gives their derivatives beside such loops; the program does.
OF_STATES = {
    "state": (qml.state, amplitudes),
    "purity": (lambda: qml.purity([0, 1]), jnp.exp),
    "entropy": (lambda: qml.vn_entropy([0]), jnp.exp),
}


def loss_of(device, function, measured, theta=THETA):
    measure, loss = OF_STATES[measured]

    @qml.qnode(qml.device(device, wires=3))
    def circuit(x, n):
        function(theta, x, n)
        return measure()

    return lambda x, n: loss(circuit(x, n))


@pytest.mark.parametrize(
    ("device", "measured", "function"),
    [
        pytest.param("default.qubit", "state", carried_and_captured, marks=pytest.mark.large),
        pytest.param("default.mixed", "purity", in_one_another, marks=pytest.mark.large),
        ("lightning.qubit", "state", while_its_values_are_small),
        pytest.param("lightning.qubit", "entropy", with_branches, marks=pytest.mark.large),
    ],
)
def test_gradients_of_states(device, measured, function):
    gradient = bellhop.qjit(jax.grad(loss_of(device, function, measured)))
    reference = loss_of("default.qubit", function, measured, np.asarray(THETA))
    for n in (3, 0):
        step = 1e-4
        expected = (reference(X + step, n) - reference(X - step, n)) / (2 * step)
        np.testing.assert_allclose(gradient(X, n), expected, atol=1e-6)


@pytest.mark.hessian
@pytest.mark.parametrize("device", ["default.qubit", "lightning.qubit"])
@pytest.mark.parametrize("outer", [jax.jacfwd, jax.grad])
def test_second_derivatives_of_states(device, outer):
    second = bellhop.qjit(outer(jax.grad(loss_of(device, carried_and_captured, "state"))))
    reference = bellhop.qjit(jax.grad(loss_of("default.qubit", carried_and_captured, "state")))
    step = 1e-4
    expected = (reference(X + step, 3) - reference(X - step, 3)) / (2 * step)
    np.testing.assert_allclose(second(X, 3), expected, atol=1e-6)


@pytest.mark.parametrize("device", [LIGHTNING, DEFAULT])
def test_a_loop_of_angles_without_gates(device):
    def circuit(x, n):
        qml.RX(jax.lax.fori_loop(0, n, lambda _, y: jnp.sin(y), x), wires=0)
        return qml.state()

    loss = lambda x, n: jnp.sum(jnp.abs(qml.qnode(device)(circuit)(x, n)) ** 4)
    angle = lambda x: np.sin(np.sin(x))
    expected = lambda x: np.cos(angle(x) / 2) ** 4 + np.sin(angle(x) / 2) ** 4
    slope = (expected(X + 1e-5) - expected(X - 1e-5)) / 2e-5
    np.testing.assert_allclose(bellhop.qjit(jax.grad(loss))(X, 2), slope, atol=1e-8)
    along = bellhop.qjit(lambda x, n: jax.jvp(lambda x: loss(x, n), (x,), (1.0,))[1])
    np.testing.assert_allclose(along(X, 2), slope, atol=1e-8)


@pytest.mark.parametrize("way", [bellhop.grad, lambda f: jax.jit(jax.grad(f)), jax.grad])
def test_by_what_an_effect_in_the_loop_alone_takes(way):
    """JAX leaves the loop among the linear equations: gates were outside of the circuit."""
    seen = []

    @bellhop.qjit
    @qml.qnode(LIGHTNING)
    def circuit(values, n):
        @bellhop.for_loop(0, n, 1)
        def loop(i):
            bellhop.debug.callback(seen.append, values)
            qml.RX(X, wires=0)

        loop()
        return qml.expval(qml.Z(0))

    values = jnp.array([0.4, 0.7])
    np.testing.assert_array_equal(way(lambda values: circuit(values, 3))(values), [0.0, 0.0])
    np.testing.assert_array_equal(seen, 3 * [values])
