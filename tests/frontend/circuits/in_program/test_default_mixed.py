"""Circuits on default.mixed, part of the program, against PennyLane without qjit."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.in_program.mixed_circuits import assert_as_uncompiled, bell, on_mixed

import bellhop

X, P = 0.4, 0.1


def random_unitary(qubits: int) -> np.ndarray:
    numbers = np.random.default_rng(qubits).normal(size=(2, 2**qubits, 2**qubits))
    return np.linalg.qr(numbers[0] + 1j * numbers[1])[0]


class Leak(qml.operation.Channel):
    """A channel of one's own."""

    num_params = 1
    num_wires = 1

    @staticmethod
    def compute_kraus_matrices(p: Any) -> list[Any]:
        return [
            qml.math.sqrt(1 - p) * qml.math.convert_like(np.eye(2), p),
            qml.math.sqrt(p) * qml.math.convert_like(np.array([[0, 1], [1, 0]]), p),
        ]


# Both cases of a thermal relaxation, too.
CHANNELS: dict[str, Callable[[Any], Any]] = {
    "AmplitudeDamping": lambda p: qml.AmplitudeDamping(p, 0),
    "GeneralizedAmplitudeDamping": lambda p: qml.GeneralizedAmplitudeDamping(p, 2 * p, 0),
    "PhaseDamping": lambda p: qml.PhaseDamping(p, 0),
    "DepolarizingChannel": lambda p: qml.DepolarizingChannel(p, 0),
    "BitFlip": lambda p: qml.BitFlip(p, 0),
    "PhaseFlip": lambda p: qml.PhaseFlip(p, 0),
    "ResetError": lambda p: qml.ResetError(p, 2 * p, 0),
    "PauliError": lambda p: qml.PauliError("ZYX", p, wires=[2, 0, 1]),
    "short T2": lambda p: qml.ThermalRelaxationError(p, 1.5, 1.2 + p, 2 * p, 0),
    "long T2": lambda p: qml.ThermalRelaxationError(p, 1.5, 2.2 + p, 2 * p, 0),
    "QubitChannel": lambda p: qml.QubitChannel(Leak.compute_kraus_matrices(p), 0),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_channels(name: str) -> None:
    def circuit(p: Any) -> Any:
        qml.H(1)
        qml.CRY(0.7, [1, 0])
        qml.CNOT([0, 2])
        CHANNELS[name](p)
        return qml.state()

    assert_as_uncompiled(bellhop.qjit(on_mixed(circuit, 3)), on_mixed(circuit, 3), P)


def test_computed_matrices_that_are_no_channel() -> None:
    def circuit(p: Any, q: Any, is_applied: Any) -> Any:
        flips = [qml.math.sqrt(p) * np.eye(2), qml.math.sqrt(q) * np.array([[0, 1], [1, 0]])]
        bellhop.cond(is_applied)(lambda: qml.QubitChannel(flips, 0))()
        return qml.expval(qml.Z(0))

    compiled = bellhop.qjit(on_mixed(circuit, 1))
    np.testing.assert_allclose(compiled(0.3, 0.7, True), -0.4)
    with pytest.raises(bellhop.CircuitError, match="only trace preserving channels can be applied"):
        compiled(0.3, 0.8, True)
    assert compiled(0.3, 0.8, False) == 1
    with pytest.raises(ValueError, match="Only trace preserving channels can be applied"):
        on_mixed(lambda: circuit(0.3, 0.8, True), 1)()


def test_channels_of_known_probabilities() -> None:
    def circuit() -> Any:
        for wire in range(3):
            qml.RX(0.3 + wire, wire)
        qml.CNOT([0, 2])
        for channel in CHANNELS.values():
            channel(P)
        return qml.state()

    assert_as_uncompiled(bellhop.qjit(on_mixed(circuit, 3)), on_mixed(circuit, 3))


def test_channel_of_ones_own() -> None:
    """PennyLane's device knows channels by their names."""
    circuit = lambda channel: on_mixed(lambda p: (qml.H(0), channel(p, 0), qml.state())[-1], 1)
    assert_as_uncompiled(bellhop.qjit(circuit(Leak)), circuit(qml.BitFlip), P)


def test_gates_of_every_kind() -> None:
    def circuit(x: Any, p: Any) -> Any:
        qml.StatePrep(np.array([0.6, 0, 0, 0.8j]), wires=[3, 1])
        for wire in range(4):
            qml.RX(x * (wire + 1), wire)
            qml.BitFlip(p / (wire + 1), wire)
        qml.Toffoli([3, 0, 2])
        qml.CRot(x, 0.2, p, wires=[1, 0])
        qml.AmplitudeDamping(p, 0)
        qml.ctrl(qml.RZ(x, 0), [1, 2], control_values=[0, 1])
        qml.adjoint(qml.PauliRot(p, "XYZ", wires=[1, 3, 0]))
        qml.exp(qml.X(0) @ qml.Z(1), -1j * x)
        qml.QubitUnitary(random_unitary(4), wires=[2, 0, 3, 1])
        qml.GlobalPhase(x)
        qml.Barrier([0, 1])
        qml.DoubleExcitation(x, wires=range(4))
        return qml.state()

    assert_as_uncompiled(bellhop.qjit(on_mixed(circuit, 4)), on_mixed(circuit, 4), X, P)


def test_density_matrices_are_prepared_anywhere() -> None:
    matrix = np.diag([0.1, 0.2, 0.3, 0.4]) + 0.05j * (np.eye(4, k=3) - np.eye(4, k=-3))

    def circuit(matrix: Any) -> Any:
        qml.QubitDensityMatrix(matrix, wires=[2, 0])
        qml.CNOT([0, 1])
        qml.QubitDensityMatrix(matrix, wires=[1, 2])
        return qml.state()

    assert_as_uncompiled(bellhop.qjit(on_mixed(circuit, 3)), on_mixed(circuit, 3), matrix)


def measurements_of_every_kind(x: Any, p: Any) -> Any:
    qml.RX(x, 0)
    qml.DepolarizingChannel(p, 0)
    qml.CRY(x + p, wires=[0, 1])
    qml.AmplitudeDamping(p, 1)
    hermitian = qml.Hermitian(np.array([[1, 2j], [-2j, 0.5]]), wires=1)
    return {
        "expval": [
            qml.expval(qml.Z(0) @ qml.Y(1)),
            qml.expval(qml.Hadamard(0) @ hermitian),
            qml.expval(qml.Hamiltonian([x, p], [qml.X(0), qml.Z(0) @ qml.Z(1)])),
            qml.expval(qml.Projector([1, 0], wires=[0, 1])),
        ],
        "var": (qml.var(qml.Y(0)), qml.var(hermitian), qml.var(qml.X(0) + 2 * qml.Z(1) @ qml.Z(0))),
        "probs": [qml.probs(), qml.probs(wires=[1, 0]), qml.probs(op=qml.X(0))],
        "state": qml.state(),
        "density": qml.density_matrix([1]),
        "entropy": (qml.vn_entropy([0]), qml.mutual_info([0], [1]), qml.purity([1])),
    }


def test_measurements() -> None:
    node = on_mixed(measurements_of_every_kind)
    assert_as_uncompiled(bellhop.qjit(node), node, X, P)


def test_computed_observables() -> None:
    def circuit(x: Any) -> Any:
        qml.RX(0.3, 0)
        qml.PhaseDamping(0.2, 0)
        matrix = qml.Hermitian(x * np.diag([1.0, 2.0]) + np.array([[0, 1], [1, 0]]), 0)
        return qml.expval(matrix), qml.var(x * qml.X(0) + qml.Z(0))

    assert_as_uncompiled(bellhop.qjit(on_mixed(circuit)), on_mixed(circuit), X)


def noisy(x: Any, p: Any) -> Any:
    qml.RX(x, 0)
    qml.DepolarizingChannel(p, 0)
    qml.IsingXX(x, [0, 1])
    qml.ThermalRelaxationError(p, 1.0, 1.5, p, 1)
    qml.BitFlip(p**2, 0)
    return qml.expval(qml.Z(0) @ qml.Z(1))


def test_derivatives() -> None:
    """Central differences of the uncompiled circuit, first and second."""
    node, h = on_mixed(noisy), 1e-4
    value = lambda i, j: float(node(X + i * h, P + j * h))
    gradient = [(value(1, 0) - value(-1, 0)) / (2 * h), (value(0, 1) - value(0, -1)) / (2 * h)]
    by_noise = (value(0, 1) - 2 * value(0, 0) + value(0, -1)) / h**2
    mixed = (value(1, 1) - value(1, -1) - value(-1, 1) + value(-1, -1)) / (4 * h**2)
    np.testing.assert_allclose(
        bellhop.qjit(bellhop.grad(node, argnums=[0, 1]))(X, P), gradient, atol=1e-6
    )
    hessian = bellhop.qjit(jax.jacfwd(jax.grad(node, argnums=1), argnums=(0, 1)))(X, P)
    np.testing.assert_allclose(hessian, [mixed, by_noise], atol=1e-5)


def test_damping_by_one() -> None:
    """PennyLane adds a little to what it takes the root of, so that there is a derivative."""
    node = on_mixed(lambda g: (qml.H(0), qml.AmplitudeDamping(g, 0), qml.expval(qml.X(0)))[-1], 1)
    assert_as_uncompiled(bellhop.qjit(node), node, 1.0)
    assert np.isfinite(bellhop.qjit(bellhop.grad(node))(1.0))


def test_second_derivative_without_noise() -> None:
    """The roots in Kraus operators have none there; the channel is linear in the probability."""
    node = on_mixed(lambda p: (qml.BitFlip(p, 0), qml.BitFlip(p, 0), qml.expval(qml.Z(0)))[-1])
    assert bellhop.qjit(jax.grad(jax.grad(node)))(0.0) == pytest.approx(8.0, abs=1e-12)


def test_batches() -> None:
    node = on_mixed(noisy)
    xs, ps = np.linspace(0.1, 1.0, 3), np.linspace(0.0, 0.3, 3)
    expected = [node(x, p) for x, p in zip(xs, ps, strict=True)]
    np.testing.assert_allclose(bellhop.qjit(jax.vmap(node))(xs, ps), expected, atol=1e-10)
    np.testing.assert_allclose(bellhop.qjit(on_mixed(noisy))(xs, 0.1), node(xs, 0.1), atol=1e-10)


def in_python(n: int, x: Any, p: Any) -> Any:
    for i in range(n):
        qml.RX(x * (i + 1), 0)
        qml.AmplitudeDamping(p, 0)
        qml.CNOT([0, 1])
    while x < 3:
        qml.RY(x, 0)
        qml.PhaseDamping(p, 0)
        x = 1.5 * x
    (qml.BitFlip if p > 0.05 else qml.PhaseFlip)(p, 0)
    return qml.expval(qml.Z(0) @ qml.Z(1))


def of_computed_length(n: Any, x: Any, p: Any) -> Any:
    @bellhop.for_loop(0, n, 1)
    def layer(i: Any) -> None:
        qml.RX(x * (i + 1), 0)
        qml.AmplitudeDamping(p, 0)
        qml.CNOT([0, 1])

    @bellhop.while_loop(lambda x: x < 3)
    def growing(x: Any) -> Any:
        qml.RY(x, 0)
        qml.PhaseDamping(p, 0)
        return 1.5 * x

    layer()
    growing(x)
    bellhop.cond(p > 0.05, lambda: qml.BitFlip(p, 0), lambda: qml.PhaseFlip(p, 0))()
    return qml.expval(qml.Z(0) @ qml.Z(1))


def test_control_flow() -> None:
    ours = bellhop.qjit(on_mixed(of_computed_length))
    for p in (0.02, 0.1):
        assert_as_uncompiled(ours, on_mixed(in_python), 3, X, p)
    node, h = on_mixed(in_python), 1e-5
    slope = bellhop.qjit(bellhop.grad(on_mixed(of_computed_length), argnums=2))(3, X, P)
    expected = (node(3, X, P + h) - node(3, X, P - h)) / (2 * h)
    assert slope == pytest.approx(expected, abs=1e-8)


def test_computed_wires() -> None:
    def circuit(i: Any) -> Any:
        qml.RX(0.3, i)
        qml.BitFlip(0.1, i)
        qml.CRX(0.7, [i, 0])
        return qml.state()

    node = on_mixed(circuit, 3)
    assert_as_uncompiled(bellhop.qjit(node), lambda i: node(int(i)), 2)


def test_measuring_in_the_middle() -> None:
    def circuit(measure: Any, cond: Any) -> Callable[..., Any]:
        def circuit(x: Any, p: Any) -> Any:
            qml.RX(x, 0)
            qml.AmplitudeDamping(p, 0)
            m = measure(0)
            cond(m, lambda: qml.RY(x, 1))()
            measure(1, reset=True)
            qml.RX(x, 1)
            qml.DepolarizingChannel(p, 1)
            return qml.expval(qml.Z(1)), qml.probs(wires=[0, 1]), qml.purity([0, 1]), qml.expval(m)

        return circuit

    # The outcomes of PennyLane are on wires of their own.
    theirs = on_mixed(circuit(qml.measure, qml.cond), None)
    ours = bellhop.qjit(on_mixed(circuit(bellhop.measure, bellhop.cond)))
    assert_as_uncompiled(ours, theirs, X, P)


def test_the_state_after_measuring_is_a_mixture() -> None:
    def circuit(x: Any) -> Any:
        qml.RX(x, 0)
        bellhop.measure(0)
        return qml.state()

    def postselected(x: Any) -> Any:
        qml.RX(x, 0)
        qml.CNOT([0, 1])
        bellhop.measure(0, postselect=1)
        return qml.density_matrix([1])

    mixture = np.diag([np.cos(X / 2) ** 2, np.sin(X / 2) ** 2])
    np.testing.assert_allclose(bellhop.qjit(on_mixed(circuit, 1))(X), mixture, atol=1e-12)
    np.testing.assert_allclose(bellhop.qjit(on_mixed(postselected))(X), np.diag([0, 1]), atol=1e-12)


def test_shots() -> None:
    def circuit(p: Any) -> Any:
        qml.BitFlip(p, 0)
        qml.CNOT([0, 1])
        return qml.sample(), qml.counts(wires=[1]), qml.expval(qml.Z(0))

    node = qml.set_shots(on_mixed(circuit, seed=5), 4000)
    samples, (values, counts), mean = bellhop.qjit(node)(0.25)
    assert samples.shape == (4000, 2)
    assert values.tolist() == [0, 1]
    assert np.all(samples[:, 0] == samples[:, 1])
    np.testing.assert_allclose(
        [samples[:, 0].mean(), counts[1] / 4000, (1 - mean) / 2], 0.25, atol=0.03
    )


def test_classical_shadows() -> None:
    """Each letter of a word is read with errors."""

    def circuit(x: Any) -> Any:
        bell(x)
        return qml.shadow_expval(qml.Z(0) @ qml.Z(1)), qml.shadow_expval(qml.X(0) @ qml.Y(1))

    node = qml.set_shots(on_mixed(circuit, readout_prob=P, seed=3), 10000)
    expected = [0.64, -0.64 * np.sin(X)]
    np.testing.assert_allclose(bellhop.qjit(node)(X), expected, atol=0.1)


def test_derivative_with_shots() -> None:
    node = on_mixed(lambda p: (qml.BitFlip(p, 0), qml.expval(qml.Z(0)))[-1], 1, seed=7)
    slope = bellhop.qjit(bellhop.grad(qml.set_shots(node, 20000)))(0.25)
    assert slope == pytest.approx(-2, abs=0.1)


def test_single_precision() -> None:
    def circuit(x: Any, p: Any) -> Any:
        qml.RX(x, 0)
        qml.AmplitudeDamping(p, 0)
        return qml.expval(qml.Z(0)), qml.state()

    expected = on_mixed(circuit, 1)(X, P)
    with jax.enable_x64(False):
        mean, state = bellhop.qjit(on_mixed(circuit, 1))(X, P)
    assert (mean.dtype, state.dtype) == (np.float32, np.complex64)
    np.testing.assert_allclose(mean, expected[0], atol=1e-6)
    np.testing.assert_allclose(state, expected[1], atol=1e-6)


def test_in_a_region(assert_close: Any) -> None:
    region = bellhop.accelerate(on_mixed(noisy), dev=jax.devices("cpu")[1])
    assert_close(bellhop.qjit(lambda x: region(x, P))(X), on_mixed(noisy)(X, P))


def test_probabilities_out_of_range() -> None:
    """What is known is PennyLane's error; what the program computes gives no number."""
    flips = lambda p: (qml.BitFlip(p, 0), qml.expval(qml.Z(0)))[-1]
    message = r"the QNode '<lambda>' \(.*:\d+\): BitFlip: p must be in the interval \[0,1\]"
    with pytest.raises(ValueError, match=message) as caught:
        bellhop.qjit(lambda: on_mixed(flips)(1.5))()
    assert f"raised at {__file__}:{flips.__code__.co_firstlineno}" in caught.value.__notes__
    assert np.isnan(bellhop.qjit(on_mixed(flips))(1.5))


ERRORS: dict[str, tuple[Callable[[], Any], Sequence[Any], str]] = {
    "memory": (
        lambda: on_mixed(noisy, 20),
        (X, P),
        "a density matrix of 20 qubits would take 1.638e.04 GiB of memory",
    ),
    "batch of channels": (
        lambda: on_mixed(lambda p: (qml.BitFlip(p, 0), qml.probs())[-1]),
        (np.array([P, P]),),
        "a parameter of BitFlip is an array, expected a number",
    ),
    "adjoint of a channel": (
        lambda: on_mixed(lambda p: (qml.adjoint(qml.BitFlip(p, 0)), qml.probs())[-1]),
        (P,),
        "the circuit has Adjoint.BitFlip., and channels have no inverse and no controlled form",
    ),
    "outcomes in a while loop": (
        lambda: on_mixed(
            lambda: (
                bellhop.while_loop(lambda m: m)(lambda _: bellhop.measure(0))(True),
                qml.probs(),
            )[-1]
        ),
        (),
        "a mid-circuit measurement is in a while_loop, expected a static trip count",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    make, args, message = ERRORS[name]
    with pytest.raises(bellhop.CompileError, match=message) as caught:
        bellhop.qjit(make())(*args)
    assert re.search(r"the QNode '.*' \(.*:\d+\)", str(caught.value))
