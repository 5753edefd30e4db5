"""Loops of gates with a dynamic length: a block of iterations in one call of the runtime."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.gate_counts import iterations_of_calls

import bellhop
from bellhop.circuits.backends.compiled.record import loop_precompute

BLOCK = 4
# None, one, a block but for one, a block, one more, and several blocks.
LENGTHS = (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3)
THETA = np.linspace(0.2, 1.4, LENGTHS[-1])


@pytest.fixture(autouse=True, scope="module")
def short_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_precompute, "_MAX_BLOCK_ITERATIONS", BLOCK)
        yield


def of_the_number(loop, theta, x, n):
    def body(i):
        # Past the last iteration this has neither value nor derivative.
        qml.RX(theta[i] * qml.math.sqrt(n - i - 0.5), 0)
        qml.CNOT([0, 1])
        qml.RY(qml.math.sin(x + i), 1)

    loop(body, n)
    # The parameters after a block that is not full.
    qml.RY(x, 0)
    qml.RX(theta[0], 1)


def of_what_is_carried(loop, theta, x, n):
    def body(i, angle):
        qml.RX(angle, 0)
        qml.CRY(theta[i] * x, [0, 1])
        return angle * x + theta[i]

    qml.RY(loop(body, n, x), 1)


def on_computed_wires(loop, theta, x, n):
    def body(i):
        qml.RX(theta[i] * x, i % 2)
        qml.CNOT([i % 2, (i + 1) % 2])

    loop(body, n)
    qml.RX(x, 0)


def without_parameters(loop, theta, x, n):
    def body(i):
        qml.Hadamard(0)
        qml.CNOT([0, 1])
        qml.T(1)

    qml.RX(x, 0)
    loop(body, n)
    qml.RX(theta[0], 1)


def one_after_another(loop, theta, x, n):
    of_the_number(loop, theta, x, n)
    qml.RZ(x * theta[1], 0)
    of_what_is_carried(loop, theta, x, n)


def in_one_another(loop, theta, x, n):
    def inner(i):
        qml.RX(theta[i] * x, 1)
        qml.CNOT([1, 0])

    def outer(k):
        qml.RY(theta[k], 0)
        loop(inner, k)

    loop(outer, n)


def in_python(body, n, *carried):
    for i in range(n):
        result = body(i, *carried)
        carried = (result,) if carried else ()
    return carried[0] if carried else None


def for_loop(body, n, *carried):
    return bellhop.for_loop(0, n)(body)(*carried)


def while_loop(body, n, *carried):
    @bellhop.while_loop(lambda i, *_: i < n)
    def loop(i, *carried):
        result = body(i, *carried)
        return (i + 1, result) if carried else i + 1

    result = loop(0, *carried)
    return result[1] if carried else None


def qnode(gates, loop, device="lightning.qubit", **options):
    @qml.qnode(qml.device(device, wires=2), **options)
    def circuit(theta, x, n):
        gates(loop, theta, x, n)
        return qml.expval(qml.Z(0) @ qml.Y(1) + qml.Z(1))

    return circuit


@pytest.mark.parametrize(
    ("gates", "loop", "lengths"),
    [
        (of_the_number, for_loop, LENGTHS),
        (of_what_is_carried, for_loop, LENGTHS),
        pytest.param(of_what_is_carried, while_loop, LENGTHS, marks=pytest.mark.matrix),
        pytest.param(on_computed_wires, for_loop, [BLOCK + 1], marks=pytest.mark.matrix),
        (on_computed_wires, while_loop, [BLOCK + 1]),
        (without_parameters, for_loop, [BLOCK + 1]),
        (one_after_another, for_loop, [BLOCK + 1]),
        (in_one_another, for_loop, [BLOCK + 2]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_values_and_derivatives(gates, loop, lengths):
    ours = qnode(gates, loop)
    compiled = bellhop.qjit(lambda *args: (ours(*args), bellhop.grad(ours, argnums=(0, 1))(*args)))
    theirs = qnode(gates, in_python, device="default.qubit")
    theta, x = (qml.numpy.array(value, requires_grad=True) for value in (THETA, 0.7))
    for n in lengths:
        value, gradient = compiled(THETA, 0.7, n)
        np.testing.assert_allclose(value, theirs(THETA, 0.7, n), atol=1e-12)
        expected = qml.grad(theirs, argnums=(0, 1))(theta, x, n)
        for one, other in zip(gradient, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10, err_msg=f"{n} iterations")


@pytest.mark.parametrize("loop", [for_loop, while_loop], ids=lambda loop: loop.__name__)
def test_a_block_is_one_call(loop):
    function = bellhop.qjit(qnode(of_what_is_carried, loop))
    function(THETA, 0.7, 3)
    assert iterations_of_calls(function) == [None, 1]


def test_iterations_with_more_than_gates_are_applied_one_by_one():
    def gates(loop, theta, x, n):
        def body(i):
            qml.RX(theta[i], 0)
            bellhop.cond(i % 2 == 0)(lambda: qml.CNOT([0, 1]))()
            qml.RY(x, 1)

        loop(body, n)

    function = bellhop.qjit(qnode(gates, for_loop))
    function(THETA, 0.7, 3)
    assert set(iterations_of_calls(function)) == {1}


@pytest.mark.parametrize("loop", [for_loop, while_loop], ids=lambda loop: loop.__name__)
@pytest.mark.parametrize("n", LENGTHS)
def test_callbacks_are_called_for_iterations_that_happen(loop, n):
    angles, numbers = [], []

    @bellhop.pure_callback
    def angle(i) -> jax.ShapeDtypeStruct((), float):
        angles.append(int(i))
        return np.sin(i)

    @bellhop.pure_callback
    def number(i) -> jax.ShapeDtypeStruct((), int):
        numbers.append(int(i))
        return i

    def gates(loop, theta, x, n):
        def body(i, y):
            qml.RX(angle(number(i)), 0)
            return y + x

        loop(body, n, x)

    function = bellhop.qjit(qnode(gates, loop))
    value = function(THETA, 0.7, n)
    assert iterations_of_calls(function) == [None]
    assert angles == numbers == list(range(n))
    np.testing.assert_allclose(value, 1.0, atol=1e-12)


def test_a_condition_is_asked_once_an_iteration():
    asked = []

    @bellhop.pure_callback
    def goes_on(y) -> jax.ShapeDtypeStruct((), bool):
        asked.append(float(y))
        return y < 4.0

    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit():
        @bellhop.while_loop(goes_on)
        def loop(y):
            qml.RX(0.1 * y, 0)
            return y + 0.5

        loop(0.0)
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(circuit(), np.cos(0.1 * sum(np.arange(0, 4, 0.5))), atol=1e-12)
    assert asked == list(np.arange(0, 4.1, 0.5))


@pytest.mark.parametrize("length", [5, None], ids=["known", "unknown"])
def test_side_effects_stay_between_the_gates(length, capfd):
    """What is said of an iteration is said when the gates of the iterations before are applied."""

    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=3))
    def circuit(n):
        @bellhop.for_loop(0, length or n)
        def loop(i):
            bellhop.debug.print("iteration {}", i)
            qml.RX(0.1, i)

        loop()
        return qml.expval(qml.Z(0))

    with pytest.raises(Exception, match="wire 3 is not in"):
        circuit(5)
    # Which comes first in the iteration that fails is open.
    told = capfd.readouterr().out.splitlines()
    assert told[:3] == ["iteration 0", "iteration 1", "iteration 2"]
    assert told[3:] in ([], ["iteration 3"])
    assert iterations_of_calls(circuit) == [1]


@pytest.mark.large
def test_batches():
    ours = qnode(of_what_is_carried, for_loop)
    theirs = qnode(of_what_is_carried, in_python, device="default.qubit", interface="jax")
    xs = jnp.linspace(0.3, 0.9, 3)
    lengths = jnp.array([0, BLOCK + 1, 3])
    batch = bellhop.qjit(lambda *args: jax.vmap(ours, (None, 0, None))(*args))
    expected = [theirs(THETA, x, BLOCK + 1) for x in xs]
    np.testing.assert_allclose(batch(THETA, xs, BLOCK + 1), expected, atol=1e-12)
    each = bellhop.qjit(lambda *args: jax.vmap(ours, (None, 0, 0))(*args))
    expected = [theirs(THETA, x, n) for x, n in zip(xs, [0, BLOCK + 1, 3], strict=True)]
    np.testing.assert_allclose(each(THETA, xs, lengths), expected, atol=1e-12)


def test_by_coefficients_of_observables():
    """The circuit is run again for these, with the iterations that were applied."""
    observables = qml.Z(0) @ qml.Y(1), qml.Z(1)
    x, c, n = 0.7, 1.3, BLOCK + 2

    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x, c, n):
        of_the_number(for_loop, jnp.asarray(THETA), x, n)
        return qml.expval(c * observables[0] + c**2 * observables[1])

    @qml.qnode(qml.device("default.qubit", wires=2))
    def term(x, number):
        of_the_number(in_python, THETA, x, n)
        return qml.expval(observables[number])

    values = [term(x, number) for number in (0, 1)]
    slopes = [qml.grad(term)(qml.numpy.array(x, requires_grad=True), number) for number in (0, 1)]
    expected = np.dot([c, c**2], slopes), np.dot([1, 2 * c], values)
    gradient = bellhop.qjit(bellhop.grad(circuit, argnums=(0, 1)))
    np.testing.assert_allclose(gradient(x, c, n), expected, atol=1e-10)


def test_large_iterations_make_small_blocks(monkeypatch):
    monkeypatch.setattr(loop_precompute, "_MAX_BLOCK_SIZE", 40)
    matrices = np.stack([qml.matrix(qml.Rot(a, 2 * a, 3 * a, 0) @ qml.RX(a, 1)) for a in THETA])

    def gates(loop, theta, x, n):
        loop(lambda i: (qml.QubitUnitary(matrices_[i], [0, 1]), None)[1], n)

    matrices_ = jnp.asarray(matrices)
    function = bellhop.qjit(qnode(gates, for_loop))
    value = function(THETA, 0.7, 6)
    assert "tensor<1x32xf64>" in function.mlir_opt
    matrices_ = matrices
    np.testing.assert_allclose(value, qnode(gates, in_python)(THETA, 0.7, 6), atol=1e-12)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
def test_lengths_of_any_integer_type(kind):
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(n):
        bellhop.for_loop(0, n)(lambda i: (qml.RX(0.1 * i, 0), None)[1])()
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(circuit(kind(6)), np.cos(1.5), atol=1e-12)
    np.testing.assert_allclose(circuit(kind(0)), 1.0, atol=1e-12)


def test_wire_outside_the_circuit_is_named():
    def gates(loop, theta, x, n):
        loop(lambda i: (qml.RX(theta[i], i), None)[1], n)

    function = bellhop.qjit(qnode(gates, for_loop))
    with pytest.raises(Exception, match=r"RX.*test_dynamic_repeated_runs.py:\d+.*wire 2 is not in"):
        function(THETA, 0.7, 3)
    np.testing.assert_allclose(function(THETA, 0.7, 0), 1.0, atol=1e-12)
