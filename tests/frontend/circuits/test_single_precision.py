"""Circuits in single precision: without JAX's 64-bit types, and of arguments of 32 bits."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.needs import PYTORCH

import bellhop

POINT = [0.4, 0.7]
DEVICES = ["lightning.qubit", "default.qubit"]


def node(function: Callable[..., Any], device: str = "lightning.qubit", **options: Any) -> Any:
    return qml.QNode(function, qml.device(device, wires=2), **options)


def gates(x: Any) -> None:
    qml.RX(x[0], wires=0)
    qml.CNOT([0, 1])
    qml.Rot(x[1], 0.3, x[0], wires=1)


def everything(x: Any) -> Any:
    gates(x)
    observable = qml.Hamiltonian([x[0], 0.5], [qml.Z(0), qml.Z(0) @ qml.X(1)])
    matrix = qml.Hermitian(np.array([[1, 1j], [-1j, 2]]), wires=0)
    moments = qml.expval(observable), qml.var(qml.Z(1)), qml.expval(matrix)
    return *moments, qml.probs(wires=[1]), qml.state()


def expval(x: Any) -> Any:
    gates(x)
    return qml.expval(qml.Z(1))


def probabilities(x: Any) -> Any:
    gates(x)
    return qml.probs(wires=1)


def in_loop(x: Any, n: Any) -> Any:
    bellhop.for_loop(0, n, 1)(lambda i: gates(x * i))()
    return qml.expval(qml.Z(1))


def outcomes(x: Any) -> Any:
    qml.RX(x[0], wires=0)
    outcome = bellhop.measure(0)
    bellhop.cond(outcome)(lambda: qml.RY(x[1], wires=1) and None)()
    return qml.expval(qml.Z(1)), qml.expval(outcome)


def given(state: Any, matrix: Any) -> Any:
    qml.StatePrep(state, wires=[0, 1])
    return qml.expval(qml.Hermitian(matrix, wires=0))


def assert_single(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert one.dtype in (np.float32, np.complex64)
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def types_of(values: Any) -> list[Any]:
    return [leaf.dtype for leaf in jax.tree.leaves(values)]


STATE, MATRIX = np.array([0.6, 0, 0, 0.8j]), np.array([[1, 1j], [-1j, 2]])
LOOP = node(lambda x: in_loop(x, 3), "default.qubit")
PROGRAMS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "values": (
        lambda: bellhop.qjit(node(everything))(jnp.array(POINT)),
        lambda: node(everything, "default.qubit")(np.array(POINT)),
    ),
    "complex arguments": (
        lambda: bellhop.qjit(node(given))(jnp.array(STATE), jnp.array(MATRIX)),
        lambda: node(given, "default.qubit")(STATE, MATRIX),
    ),
    "adjoint": (
        lambda: bellhop.qjit(bellhop.grad(node(expval, diff_method="adjoint")))(jnp.array(POINT)),
        lambda: jax.jit(jax.grad(node(expval, "default.qubit")))(jnp.array(POINT)),
    ),
    "parameter-shift": (
        lambda: bellhop.qjit(jax.hessian(node(probabilities)))(jnp.array(POINT)),
        lambda: jax.jit(jax.hessian(node(probabilities, "default.qubit")))(jnp.array(POINT)),
    ),
    "a loop of unknown length": (
        lambda: bellhop.qjit(jax.hessian(node(in_loop)))(jnp.array(POINT), 3),
        lambda: jax.jit(jax.hessian(LOOP))(jnp.array(POINT)),
    ),
    "a batch": (
        lambda: bellhop.qjit(jax.vmap(jax.grad(node(expval))))(jnp.array([POINT, POINT[::-1]])),
        lambda: jax.jit(jax.vmap(jax.grad(node(expval, "default.qubit"))))(
            jnp.array([POINT, POINT[::-1]])
        ),
    ),
    "outcomes": (
        lambda: bellhop.qjit(node(outcomes))(jnp.array(POINT)),
        lambda: [1 - np.sin(0.2) ** 2 * (1 - np.cos(0.7)), np.sin(0.2) ** 2],
    ),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.hessian if "loop" in name else ()) for name in PROGRAMS],
)
def test_without_64_bits(name: str) -> None:
    program, reference = PROGRAMS[name]
    expected = reference()
    with jax.enable_x64(False):
        actual = program()
    assert_single(actual, expected)


def test_pennylane_may_ask_for_what_there_is_not() -> None:
    def rotated(matrix: Any) -> Any:
        qml.ControlledQubitUnitary(matrix, wires=[0, 1])
        return qml.purity(0), qml.expval(qml.Hermitian(matrix, wires=0))

    with jax.enable_x64(False), warnings.catch_warnings(action="error", category=UserWarning):
        assert_single(bellhop.qjit(node(rotated))(jnp.eye(2)), [1.0, 1.0])


def test_finite_differences_without_64_bits() -> None:
    expected = jax.jit(jax.grad(node(expval, "default.qubit")))(jnp.array(POINT))
    slope = bellhop.grad(node(expval, diff_method="finite-diff"))
    with jax.enable_x64(False):
        actual = bellhop.qjit(slope)(jnp.array(POINT))
    assert_single(actual, expected, tolerance=2e-3)


def test_shots_without_64_bits() -> None:
    def samples(x: Any) -> Any:
        gates(x)
        return qml.sample(), qml.counts(), qml.expval(qml.Z(0)), qml.probs(wires=1)

    with jax.enable_x64(False):
        found = bellhop.qjit(qml.set_shots(node(samples), 20), seed=1)(jnp.array(POINT))
    assert types_of(found) == [np.int32, np.int32, np.int32, np.float32, np.float32]


@pytest.mark.parametrize("device", [*DEVICES, "null.qubit"])
def test_results_are_as_precise_as_arguments(device: str) -> None:
    single, double = jnp.array(POINT, jnp.float32), jnp.array(POINT)

    def beside(x: Any, y: Any) -> Any:
        gates(x)
        qml.RX(y, wires=0)
        return qml.expval(qml.Z(1)), qml.state()

    captured = bellhop.qjit(lambda x: node(lambda: beside(x, 0.1), device)())
    program = bellhop.qjit(node(beside, device))
    for values, real in (
        (program(single, 3), np.float32),
        (program(single, 0.5), np.float32),
        (captured(single), np.float32),
        (program(single, double[0]), np.float64),
        (captured(double), np.float64),
        (bellhop.qjit(node(lambda n: beside([n, n], 0.1), device))(1), np.float64),
    ):
        assert values[0].dtype == real


@pytest.mark.parametrize("device", [*DEVICES, "null.qubit"])
def test_what_a_circuit_only_carries_does_not_count(device: str) -> None:
    def carries(x: Any, y: Any) -> Any:
        bellhop.debug.callback(lambda y: None, y)
        qml.adjoint(lambda: qml.RX(x, wires=0))()
        _, turned = bellhop.for_loop(0, 2, 1)(lambda i, c: (c[0] * i, c[1] + x))((y, 0.1))
        qml.RY(turned, wires=1)
        return qml.expval(qml.Z(0)), qml.probs(wires=1), y

    program = bellhop.qjit(node(carries, device))
    single, double = jnp.float32(0.4), jnp.float64(0.7)
    assert types_of(program(single, double)) == [np.float32, np.float32, np.float64]
    assert types_of(program(double, single)) == [np.float64, np.float64, np.float32]
    # PennyLane's own are double, since its constants are.
    assert types_of(program(1, single)) == [np.float64, np.float64, np.float32]


@pytest.mark.parametrize("device", DEVICES)
def test_derivatives_have_the_types_of_pennylane(device: str) -> None:
    def weighted(x: Any, y: Any) -> Any:
        qml.RY(x, wires=0)
        return qml.expval(qml.Hamiltonian([y, 0.5], [qml.Z(0), qml.X(0)]))

    slopes = jax.grad(node(weighted, device), argnums=(0, 1))
    reference = jax.jit(jax.grad(node(weighted, "default.qubit"), argnums=(0, 1)))
    single, double = jnp.float32(0.4), jnp.float64(0.7)
    for args in ((single, single), (single, double), (double, single), (single, 0.7)):
        actual, expected = bellhop.qjit(slopes)(*args), reference(*args)
        assert types_of(actual) == types_of(expected)
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_a_loss_of_32_bits_is_carried(device: str) -> None:
    circuit = node(expval, device)

    @bellhop.qjit
    def train(x: Any) -> Any:
        def step(carried: Any, _: Any) -> Any:
            x, _ = carried
            value, slope = jax.value_and_grad(circuit)(x)
            return (x - 0.1 * slope, value), value

        return jax.lax.scan(step, (x, jnp.float32(0)), length=3)

    (_, last), values = train(jnp.array(POINT, jnp.float32))
    assert last.dtype == values.dtype == np.float32
    assert values[0] > values[1] > values[2] == last


@PYTORCH.mark
def test_layers_of_32_bits_around_a_circuit() -> None:
    import torch

    torch.manual_seed(0)
    before, after = torch.nn.Linear(3, 2), torch.nn.Linear(1, 1)
    circuit = bellhop.to_torch(node(expval))
    loss = after(circuit(before(torch.ones(3)))[None]).sum()
    loss.backward()
    assert loss.dtype == torch.float32
    assert before.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("choice", ["0", "1"])
def test_the_environment_chooses(run_script: Any, choice: str) -> None:
    script = "import bellhop, jax; print(jax.numpy.zeros(()).dtype)"
    expected = {"0": "float32", "1": "float64"}[choice]
    assert run_script(script, JAX_ENABLE_X64=choice).strip() == expected
