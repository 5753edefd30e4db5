"""Wires that the program computes, against the same circuits on default.qubit."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
import bellhop_runtime


def on_each_wire(for_loop: Any, x: Any, shift: Any) -> Any:
    qml.RX(x, wires=shift)

    @for_loop
    def loop(i: Any) -> None:
        j, k = (i + shift) % 3, (i + shift + 1) % 3
        qml.Hadamard(wires=j)
        qml.CRY(x * i, wires=[j, k])
        qml.Rot(x, 0.2, -x, wires=k)
        qml.ctrl(qml.RZ(x, wires=j), control=k, control_values=0)
        qml.adjoint(qml.S(wires=k))
        qml.PauliRot(x, "XY", wires=[k, j])
        qml.ISWAP(wires=[j, k])
        qml.QubitUnitary(np.array([[0, 1j], [1, 0]]), wires=j)
        qml.Toffoli(wires=[3, k, j])

    loop()
    return qml.expval(qml.Z(0)), qml.expval(qml.X(1) @ qml.Y(2)), qml.expval(qml.X(3))


def unrolled(body: Any) -> Any:
    return lambda: [body(i) for i in range(3)]


def test_loop_over_wires(assert_close: Any, lightning: Any, reference: Any) -> None:
    ours = lightning(lambda x, shift: on_each_wire(bellhop.for_loop(0, 3), x, shift))
    theirs = reference(lambda x, shift: list(on_each_wire(unrolled, x, shift)))

    @bellhop.qjit
    def program(x: Any, shift: Any) -> Any:
        return ours(x, shift), bellhop.jacobian(ours)(x, shift)

    for shift in (0, 2):
        derivative = qml.jacobian(lambda x, s=shift: qml.math.stack(theirs(x, s)))
        value, jacobian = program(0.3, shift)
        assert_close(value, tuple(theirs(0.3, shift)))
        assert_close(jacobian, tuple(derivative(qml.numpy.array(0.3, requires_grad=True))))


def test_batch_of_wires(lightning: Any) -> None:
    @lightning
    def circuit(i: Any) -> Any:
        qml.X(i)
        return qml.probs()

    outcomes = bellhop.qjit(jax.vmap(circuit))(jnp.arange(4))
    np.testing.assert_allclose(outcomes, np.eye(16)[[8, 4, 2, 1]], atol=1e-12)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_dtypes_of_wires(lightning: Any, dtype: Any) -> None:
    circuit = lightning(lambda i: (qml.X(i), qml.probs(wires=[1]))[1], wires=2)
    np.testing.assert_allclose(bellhop.qjit(circuit)(dtype(1)), [0, 1], atol=1e-12)


@pytest.mark.parametrize("name", ["lightning.qubit", "default.qubit", "default.mixed"])
def test_preparations(name: str) -> None:
    def circuit(i: Any, j: Any) -> Any:
        qml.AmplitudeEmbedding(np.array([0.6, 0.0, 0.8, 0.0]), wires=[i, j])
        qml.BasisState(np.array([1]), wires=[2])
        return qml.probs()

    node = qml.QNode(circuit, qml.device(name, wires=3))
    expected = np.zeros(8)
    expected[[1, 3]] = 0.36, 0.64
    np.testing.assert_allclose(bellhop.qjit(node)(1, 0), expected, atol=1e-12)


@pytest.fixture(scope="module")
def two_wires() -> Any:
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=3))
    def program(i: Any, j: Any) -> Any:
        qml.X(i)
        qml.CNOT(wires=[i, j])
        return qml.probs(wires=[0, 1])

    return program


@pytest.mark.parametrize(
    ("wires", "message"),
    [
        ((0, 3), "'CNOT' on wires [0, 3]"),
        ((1, 1), "'CNOT' on wires [1, 1]"),
        ((-1, 0), "'PauliX' on wires [-1]"),
        ((2**40, 0), "'PauliX' on wires [2147483647]"),
    ],
)
def test_wires_out_of_range_or_equal(two_wires: Any, wires: Any, message: str) -> None:
    line = test_wires_out_of_range_or_equal.__code__.co_filename
    problem = (
        "expected different wires, got one of them twice"
        if wires[0] == wires[1]
        else f"{' or more ' if wires[0] > 3 else ''}is not in the circuit, which has wires 0 to 2"
    )
    pattern = rf"{re.escape(message)} \({re.escape(line)}:\d+\): .*{problem}"
    with pytest.raises(bellhop.CircuitError, match=pattern):
        two_wires(*wires)
    assert bellhop_runtime.live_sessions() == 0
    np.testing.assert_allclose(two_wires(0, 1), [0, 0, 0, 1], atol=1e-12)


@pytest.mark.parametrize("name", ["default.qubit", "default.mixed"])
def test_notes_of_a_wire_that_is_not_there_name_no_callback(name: str) -> None:
    @bellhop.qjit
    @qml.qnode(qml.device(name, wires=2))
    def circuit(wire: Any) -> Any:
        qml.X(wire)
        return qml.probs(wires=[0])

    with pytest.raises(bellhop.CircuitError, match="wire 7 is not in the circuit") as raised:
        circuit(7)
    notes = "".join(getattr(raised.value, "__notes__", ()))
    assert "callback" not in notes
    assert name == "default.qubit" or "raised in the QNode 'circuit' (" in notes


COMPILE_ERRORS: dict[str, tuple[Any, Any, str]] = {
    "a float": (2, lambda i: qml.X(i * 0.5), "must be an integer scalar, got float64[]"),
    "names": (
        ["a", "b"],
        lambda i: qml.X(i),
        "the device has the wires ['a', 'b'], expected wires",
    ),
    "no wires": (None, lambda i: qml.X(i), "a wire is traced, expected static wires, as the dev"),
}


@pytest.mark.parametrize("name", COMPILE_ERRORS)
def test_what_no_dynamic_wire_can_be(name: str) -> None:
    wires, body, message = COMPILE_ERRORS[name]

    @qml.qnode(qml.device("lightning.qubit", wires=wires))
    def failing(i: Any) -> Any:
        made = body(i)
        return made if isinstance(made, qml.measurements.MeasurementProcess) else qml.state()

    with pytest.raises(bellhop.CompileError, match=rf"the QNode 'failing'.*{re.escape(message)}"):
        bellhop.qjit(failing)(1)
