"""Observables on wires that the program computes."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

N = 3


def angles(x):
    return [x * (k + 1) for k in range(N)]


def qnode(measure, device="lightning.qubit", **options):
    @qml.qnode(qml.device(device, wires=N), **options)
    def circuit(x, i):
        for wire, angle in enumerate(angles(x)):
            qml.RX(angle, wires=wire)
        qml.CNOT([0, 2])
        return measure(x, i)

    return circuit


MATRIX = np.array([[0.3, 0.1 - 0.4j], [0.1 + 0.4j, -0.9]])
MEASUREMENTS = {
    "expval": lambda x, i: qml.expval(qml.Z(i)),
    "var": lambda x, i: qml.var(qml.Y(i)),
    "Hermitian": lambda x, i: qml.expval(qml.Hermitian(MATRIX, wires=i)),
    "sum": lambda x, i: qml.expval(x * qml.Z(i) + 0.5 * qml.Y(0) @ qml.X(1)),
    "product": lambda x, i: qml.expval(qml.Z(i) @ qml.X((i + 1) % 3)),
    "product with a known wire": lambda x, i: qml.expval(
        qml.Y((i + 1) // 2 + 1 - i // 2) @ qml.Z(0)
    ),
    "three factors": lambda x, i: qml.var(
        qml.X((i + 1) % 3) @ qml.Y(i) @ qml.Z((i + 2) % 3) + x * qml.Z(i) @ qml.Z((i + 2) % 3)
    ),
    "Hermitian of two": lambda x, i: qml.expval(
        qml.Hermitian(np.kron(MATRIX, [[0.2, 1j], [-1j, 0.5]]), wires=[(i + 1) % 3, i])
    ),
    "Hamiltonian": lambda x, i: qml.var(qml.Hamiltonian([x, 0.3], [qml.Y(i), qml.Z((i + 1) % 3)])),
}


@pytest.mark.large
@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("expval", marks=pytest.mark.quick),
        *(name for name in MEASUREMENTS if name != "expval"),
    ],
)
def test_values_and_derivatives(name, device):
    compiled = qnode(MEASUREMENTS[name], device)
    reference = qnode(MEASUREMENTS[name], "default.qubit")
    # A variance has no derivative by its coefficients.
    if name in ("Hamiltonian", "three factors"):
        program = bellhop.qjit(compiled)
        values = [reference(0.4, i) for i in range(N)]
        np.testing.assert_allclose([program(0.4, i) for i in range(N)], values, atol=1e-9)
        return
    program = bellhop.qjit(lambda x, i: (compiled(x, i), bellhop.grad(compiled)(x, i)))
    every = lambda x: jnp.stack([reference(x, i) for i in range(N)])
    expected = jax.jit(lambda x: jax.jvp(every, [x], [1.0]))(0.4)
    found = zip(*(program(0.4, i) for i in range(N)), strict=True)
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-9)


@pytest.mark.large
@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_probabilities(device):
    measure = lambda x, i: (qml.probs(wires=[i, (i + 1) % N]), qml.probs(wires=[2, i]))
    compiled, reference = qnode(measure, device), qnode(measure, "default.qubit")
    program = bellhop.qjit(lambda x, i: (compiled(x, i), bellhop.jacobian(compiled)(x, i)))
    for i in (0, 1):
        expected = reference(0.4, i), jax.jacobian(reference)(0.4, i)
        for got, wanted in zip(
            jax.tree.leaves(program(0.4, i)), jax.tree.leaves(expected), strict=True
        ):
            np.testing.assert_allclose(got, wanted, atol=1e-9)
    message = r"\(.*test_computed_wires.py:\d+\): expected different"
    with pytest.raises(bellhop.CircuitError, match=message):
        program(0.4, 2)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_probabilities_after_mid_circuit_measurements(device):
    @qml.qnode(qml.device(device, wires=N))
    def circuit(x, i):
        qml.RX(x, wires=0)
        outcome = bellhop.measure(0)
        bellhop.cond(outcome, lambda: qml.RY(0.7, wires=1))()
        return qml.probs(wires=[i])

    program, one = bellhop.qjit(circuit), np.sin(0.2) ** 2
    for i, expected in enumerate([one, one * np.sin(0.35) ** 2, 0.0]):
        np.testing.assert_allclose(program(0.4, i), [1 - expected, expected], atol=1e-9)


def test_with_shots():
    program = bellhop.qjit(qml.set_shots(qnode(MEASUREMENTS["expval"]), 20_000), seed=1)
    means = [program(0.4, i) for i in range(N)]
    expected = [np.cos(0.4), np.cos(0.8), np.cos(1.2) * np.cos(0.4)]
    np.testing.assert_allclose(means, expected, atol=5 / np.sqrt(20_000))


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_samples(device):
    """Of wires in states that are known: wire i is 1 for odd i."""

    @qml.qnode(qml.device(device, wires=N), shots=20)
    def circuit(i):
        qml.X(1)
        wires = [i, (i + 1) % N]
        return qml.sample(wires=wires), qml.counts(wires=wires), qml.probs(wires=wires)

    program = bellhop.qjit(circuit)
    for i, bits in enumerate([(0, 1), (1, 0), (0, 0)]):
        samples, (outcomes, counts), probabilities = program(i)
        np.testing.assert_array_equal(samples, np.tile(bits, (20, 1)))
        outcome = 2 * bits[0] + bits[1]
        np.testing.assert_array_equal(outcomes, range(4))
        np.testing.assert_array_equal(counts, 20 * np.eye(4, dtype=int)[outcome])
        np.testing.assert_array_equal(probabilities, np.eye(4)[outcome])


def test_batches_of_wires():
    values = bellhop.qjit(jax.vmap(qnode(MEASUREMENTS["expval"]), (None, 0)))
    expected = [np.cos(0.4), np.cos(0.8), np.cos(1.2) * np.cos(0.4)]
    np.testing.assert_allclose(values(0.4, jnp.arange(N)), expected, atol=1e-9)


@pytest.mark.parametrize("i", [-1, N])
def test_a_wire_that_there_is_not(i):
    circuit = bellhop.qjit(qnode(MEASUREMENTS["expval"]))
    message = rf"on wires \[{i}\] \(.*test_computed_wires.py:\d+\)"
    with pytest.raises(bellhop.CircuitError, match=message):
        circuit(0.4, i)
    np.testing.assert_allclose(circuit(0.4, 1), np.cos(0.8), atol=1e-9)


def test_what_is_not_supported_says_so():
    for observable, message in {
        lambda i: qml.Z(i) @ qml.X(i): "circuit.*two observables of a product act on the same",
        lambda i: qml.Z(i) @ (qml.X(0) + qml.Y(0)): "product of sums of observables on a traced",
        lambda i: qml.adjoint(qml.X(i)): r"with the factor Adjoint\(PauliX\) is not supported on",
    }.items():
        product = qnode(lambda x, i, observable=observable: qml.expval(observable(i)))
        with pytest.raises(bellhop.CompileError, match=message):
            bellhop.qjit(product)(0.4, 1)

    @qml.qnode(qml.device("lightning.qubit", wires=10))
    def many(i):
        return qml.expval(qml.Z(i) @ qml.Z(i + 1) @ qml.Z(i + 2) @ qml.Z(i + 3))

    with pytest.raises(bellhop.CompileError, match="many.*4 traced wires of"):
        bellhop.qjit(many)(0)
    twice = bellhop.qjit(qnode(lambda x, i: qml.expval(qml.Z(i) @ qml.X(0))))
    message = r"on wires \[0, 0\] \(.*py:\d+\): expected different"
    with pytest.raises(bellhop.CircuitError, match=message):
        twice(0.4, 0)
    of_observable = qml.set_shots(qnode(lambda x, i: qml.sample(qml.X(i))), 10)
    with pytest.raises(bellhop.CompileError, match="sample of an observable is not supported on a"):
        bellhop.qjit(of_observable)(0.4, 1)


def test_variances_of_shots_on_one_of_many_wires():
    """The sum over all wires has outcomes, and its matrix would take gigabytes."""
    n_wires, shots = 13, 20_000

    def measured(wire):
        for each in range(n_wires):
            qml.RY(0.2 + 0.1 * each, each)
        return qml.var(qml.Z(wire)), qml.var(qml.X(wire))

    node = qml.QNode(measured, qml.device("lightning.qubit", wires=n_wires))
    variances = bellhop.qjit(qml.set_shots(node, shots))(4)
    expected = [np.sin(0.6) ** 2, np.cos(0.6) ** 2]
    # Six standard deviations of a mean, whose square is subtracted.
    np.testing.assert_allclose(variances, expected, atol=12 / np.sqrt(shots))
