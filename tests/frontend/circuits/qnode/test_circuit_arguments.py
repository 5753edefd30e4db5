"""Arguments of QNodes: what the program computes, and what stays as it is in Python."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

import bellhop


def test_python_values_stay_static(lightning: Any) -> None:
    seen = {}

    def circuit(x: Any, count: int, angle: float, name: str, flag: bool, table: Any) -> Any:
        seen.update(count=count, angle=angle, name=name, flag=flag, table=table)
        for wire in range(count):
            getattr(qml, name)(x * angle, wires=wire)
        return qml.expval(qml.Z(0))

    table = np.arange(3)

    @bellhop.qjit
    def program(x: Any) -> Any:
        return lightning(circuit)(x, 2, 0.5, name="RX", flag=True, table=table)

    np.testing.assert_allclose(program(0.6), np.cos(0.3), atol=1e-12)
    assert seen == {"count": 2, "angle": 0.5, "name": "RX", "flag": True, "table": table}
    assert {key: type(value) for key, value in seen.items()} == {
        "count": int,
        "angle": float,
        "name": str,
        "flag": bool,
        "table": np.ndarray,
    }


def test_static_angles_are_constants_of_the_program(lightning: Any) -> None:
    circuit = lightning(lambda x: (qml.RX(x, wires=0), qml.expval(qml.Z(0)))[1])
    program = bellhop.qjit(lambda: circuit(0.6))
    np.testing.assert_allclose(program(), np.cos(0.6), atol=1e-12)
    assert "constants = array<f64: 6.000000e-01>" in program.mlir


def test_pytrees_and_keywords(lightning: Any) -> None:
    def circuit(params: Any, *, shift: Any = 0.0) -> Any:
        qml.RX(params["a"][0] + shift, wires=0)
        qml.RX(params["b"], wires=0)
        return qml.expval(qml.Z(0))

    @bellhop.qjit
    def program(params: Any, shift: Any) -> Any:
        return lightning(circuit)(params, shift=shift)

    params = {"a": (0.1, 7.0), "b": jnp.array(0.2)}
    np.testing.assert_allclose(program(params, 0.3), np.cos(0.6), atol=1e-12)


def test_closure_over_traced_values(lightning: Any) -> None:
    @bellhop.qjit
    @bellhop.grad
    def program(x: Any) -> Any:
        y = jnp.sin(x)

        def circuit(z: Any) -> Any:
            qml.RX(y * z, wires=0)
            return qml.expval(qml.Z(0))

        return lightning(circuit)(2.0) + lightning(lambda: circuit(x))()

    expected = jax.grad(lambda x: jnp.cos(2 * jnp.sin(x)) + jnp.cos(x * jnp.sin(x)))(0.4)
    np.testing.assert_allclose(program(0.4), expected, atol=1e-12)


def test_qnode_as_a_method(lightning: Any) -> None:
    class Model:
        scale = 2.0

        def __init__(self) -> None:
            self.circuit = lightning(self.forward)

        def forward(self, x: Any) -> Any:
            qml.RX(self.scale * x, wires=0)
            return qml.expval(qml.Z(0))

    np.testing.assert_allclose(bellhop.qjit(Model().circuit)(0.3), np.cos(0.6), atol=1e-12)


def test_numbers_of_every_type_are_angles(lightning: Any) -> None:
    circuit = lightning(lambda x: (qml.RX(x, wires=0), qml.expval(qml.Z(0)))[1])
    program = bellhop.qjit(circuit)
    for angle in (2, 2.0, np.float32(2), np.int8(2), jnp.float32(2), jnp.array(2), True):
        np.testing.assert_allclose(program(angle), np.cos(float(angle)), atol=1e-9)


def test_single_precision_keeps_its_type_in_derivatives(lightning: Any) -> None:
    circuit = lightning(lambda x: (qml.RX(x, wires=0), qml.expval(qml.Z(0)))[1])
    derivative = bellhop.qjit(bellhop.grad(circuit))(jnp.float32(0.4))
    assert derivative.dtype == np.float32
    np.testing.assert_allclose(derivative, -np.sin(0.4), atol=1e-6)


def test_values_change_without_a_new_program(lightning: Any) -> None:
    traces = 0

    def circuit(x: Any) -> Any:
        nonlocal traces
        traces += 1
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    program = bellhop.qjit(lightning(circuit))
    for x in (0.1, 0.2, 0.3):
        np.testing.assert_allclose(program(x), np.cos(x), atol=1e-12)
    assert traces == 1
