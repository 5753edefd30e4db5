"""What circuits cannot do: the errors name the QNode, its line, and what to do."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

LIGHTNING = qml.device("lightning.qubit", wires=2)


def circuit(body: Callable[[Any], Any], device: Any = LIGHTNING, **options: Any) -> qml.QNode:
    @qml.qnode(device, **options)
    def failing(x: Any) -> Any:
        return body(x)

    return failing


class NoGate(qml.operation.Operation):
    """An operation that nobody knows."""

    num_wires = 1


def expval(_: Any = None) -> Any:
    return qml.expval(qml.Z(0))


def gate_in(transform: Callable[..., Any]) -> Callable[[Any], Any]:
    def body(x: Any) -> Any:
        transform(x)
        return expval()

    return body


def scan(x: Any) -> None:
    jax.lax.scan(lambda c, _: (qml.RX(0.1, wires=0) and c, None), x, None, length=3)


def measure_on_tape(x: Any) -> None:
    del x
    with qml.tape.QuantumTape():
        bellhop.measure(0)


def loop_on_tape(x: Any) -> None:
    with qml.tape.QuantumTape():
        bellhop.for_loop(0, 3)(lambda i: qml.RX(x, wires=0) and None)()


def observable_before_loop(x: Any) -> Any:
    made = qml.Z(0) @ qml.X(1)
    bellhop.for_loop(0, 3)(lambda i: qml.RX(x, wires=0) and None)()
    return qml.expval(made)


def pauli_before_loop(x: Any) -> Any:
    made = qml.Z(0)
    bellhop.for_loop(0, 3)(lambda i: qml.RX(x, wires=0) and None)()
    return qml.expval(made)


def sum_before_loop(x: Any) -> Any:
    made = qml.Z(0) + qml.X(1)
    bellhop.for_loop(0, 3)(lambda i: qml.RX(x, wires=0) and None)()
    return qml.expval(made)


COMPILE_ERRORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "unknown gate": (
        gate_in(lambda x: NoGate(wires=0)),
        "the device does not apply NoGate, and PennyLane has no decomposition of NoGate",
    ),
    "a gate made of others by a computed number": (
        gate_in(lambda x: qml.pow(qml.Rot(x, x, x, 0), x)),
        "qml.pow raises Rot to a traced power, expected a unitary gate with",
    ),
    "an inverse of such a power": (
        gate_in(lambda x: qml.adjoint(qml.pow(qml.Rot(x, x, x, 0), x))),
        "qml.pow raises Rot to a traced power",
    ),
    "unknown wire of a gate": (
        gate_in(lambda x: qml.RX(x, wires="a")),
        "there is no wire 'a' on the device; its wires are [0, 1]",
    ),
    "unknown wire of a control": (
        gate_in(lambda x: qml.ctrl(qml.RX(x, wires=0), control=2)),
        "there is no wire 2 on the device",
    ),
    "unknown wire of an observable": (
        lambda x: qml.expval(qml.Z(5)),
        "there is no wire 5 on the device",
    ),
    "unknown wire of probs": (lambda x: qml.probs(wires=[0, 7]), "there is no wire 7"),
    "sample": (
        lambda x: qml.sample(wires=0),
        "sample needs shots, and the QNode has none. Set them",
    ),
    "counts": (lambda x: qml.counts(), "counts needs shots"),
    "classical shadow": (
        lambda x: qml.classical_shadow(wires=0),
        "classical_shadow needs shots, and the QNode has none. Set them",
    ),
    "entropy on another wire": (lambda x: qml.vn_entropy(7), "there is no wire 7 on the device"),
    "batches of two sizes in a gate": (
        gate_in(lambda x: qml.Rot(jnp.stack([x, x]), jnp.stack([x, x, x]), x, wires=0)),
        "Rot: Broadcasting was attempted but the broadcasted dimensions do not match: [2, 3]",
    ),
    "parameter of too many dimensions": (
        gate_in(lambda x: qml.RX(jnp.full((2, 2), x), wires=0)),
        "RX: wrong number(s) of dimensions",
    ),
    "no number": (
        gate_in(lambda x: qml.RX(None, 0)),
        f"a parameter of RX ({__file__}:",
    ),
    "text for an angle": (
        gate_in(lambda x: qml.RX("x", 0)),
        ") is 'x', expected a number or an array. Pass a number",
    ),
    "a dictionary for an angle": (
        gate_in(lambda x: qml.Rot(x, {"a": 1.0}, x, 0)),
        ") is {'a': 1.0}, expected a number or an array",
    ),
    "a function for an angle": (
        gate_in(lambda x: qml.ctrl(qml.RX, control=1)(abs, 0)),
        ") is <built-in function abs>, expected a number or an array",
    ),
    "a jnp function of a measurement": (
        lambda x: jnp.sum(qml.probs()),
        "JAX functions take arrays only. Return the measurement, and compute",
    ),
    "a matrix of another shape": (
        lambda x: qml.expval(qml.Hermitian(x * jnp.eye(3), 0)),
        "the observable Hermitian with a matrix of shape (3, 3) on wires [0]",
    ),
    "nothing returned": (lambda x: None, "the quantum function returned no value"),
    "text beside a measurement": (
        lambda x: (expval(), "a"),
        "the quantum function returned a str, expected measurements",
    ),
    "gate in a scan": (
        gate_in(scan),
        "RX is applied inside a JAX transformation (jax.lax.scan, jax.jit, jax.vmap, ...) in the "
        "quantum function; JAX transformations do not support gates. Use bellhop.for_loop",
    ),
    "gate in a jit": (
        gate_in(lambda x: jax.jit(lambda y: qml.RX(y, wires=0) and y)(x)),
        "RX is applied inside a JAX transformation",
    ),
    "gate with a traced angle in a vmap": (
        gate_in(lambda x: jax.vmap(lambda y: qml.RX(y, wires=0) and y)(jnp.stack([x, x]))),
        "RX is applied inside a JAX transformation",
    ),
    "loop on a tape": (
        gate_in(loop_on_tape),
        "a QuantumTape in a quantum function is not supported",
    ),
    "measure on a tape": (
        gate_in(measure_on_tape),
        "measure is not supported in a decomposition, in a tape, or where qml.adjoint or qml.ctrl "
        "collects gates. Call measure in the quantum function",
    ),
    "product created before a loop": (
        observable_before_loop,
        "Z(0) @ X(1) is used in a measurement or in another operator, but is already applied as",
    ),
    "Pauli created before a loop": (
        pauli_before_loop,
        "Z(0) is used in a measurement or in another operator, but is already applied as a gate: a "
        "loop, a conditional, a measure, or an adjoint or controlled function follows its "
        "creation. Create Z(0) where it is used, or outside the QNode.",
    ),
    "gate of a qutrit": (
        lambda x: qml.TRX(x, wires=0),
        "the device does not apply TRX, and PennyLane has no decomposition of TRX",
    ),
    "sum created before a loop": (
        sum_before_loop,
        "Z(0) + X(1) is used in a measurement or in another operator, but is already applied as",
    ),
}


def raises_naming_the_circuit(message: str, error: type[Exception] = bellhop.CompileError) -> Any:
    where = r"the QNode 'failing' \(.*test_circuit_errors\.py:\d+\)"
    return pytest.raises(error, match=f"{where}.*{re.escape(message)}")


@pytest.mark.parametrize("name", COMPILE_ERRORS)
def test_circuit_that_cannot_be_compiled(name: str) -> None:
    body, message = COMPILE_ERRORS[name]
    with raises_naming_the_circuit(message):
        bellhop.qjit(circuit(body))(0.3)


@pytest.mark.parametrize(
    "operate", [lambda y: 2 * y, lambda y: y - 0.5, lambda y: -y, lambda y: y > 0, lambda y: y + y]
)
def test_arithmetic_on_a_measurement_names_the_remedy(operate: Callable[[Any], Any]) -> None:
    line = operate.__code__.co_firstlineno
    with pytest.raises(
        TypeError,
        match=rf"at {re.escape(__file__)}:{line}: an operand is the measurement .*compute with the",
    ):
        bellhop.qjit(circuit(lambda x: operate(expval())))(0.3)


def test_error_names_the_line_of_the_circuit() -> None:
    @qml.qnode(LIGHTNING)
    def failing(x: Any) -> Any:
        qml.RX(x, wires=0)

    line = failing.func.__code__.co_firstlineno
    with pytest.raises(bellhop.CompileError, match=rf"test_circuit_errors\.py:{line}\)"):
        bellhop.qjit(failing)(0.3)


def test_transform() -> None:
    message = "the transform spsa_grad is not supported by bellhop: it draws random"
    with raises_naming_the_circuit(message):
        bellhop.qjit(qml.gradients.spsa_grad(circuit(expval)))(0.3)


def rotated(measure: Callable[[], Any]) -> Callable[[Any], Any]:
    def body(x: Any) -> Any:
        qml.RX(x, wires=0)
        return measure()

    return body


def computed_loop(measure: Callable[[], Any]) -> Callable[[Any], Any]:
    """Return a quantum function with gates in a loop whose length the program computes."""

    def body(x: Any) -> Any:
        bellhop.for_loop(0, jnp.int32(x), 1)(lambda i: qml.RX(x, wires=0) and None)()
        return measure()

    return body


def matrix_gate(x: Any) -> Any:
    matrix = jax.scipy.linalg.expm(1j * x * np.diag([1.0, 2.0, 3.0, 5.0]))
    qml.QubitUnitary(matrix, wires=[0, 1])
    return expval()


NO_DERIVATIVE: dict[str, tuple[Callable[[Any], Any], dict[str, Any], str]] = {
    "state": (
        rotated(qml.state),
        {"diff_method": "parameter-shift"},
        "the derivative of qml.state is supported only by the adjoint method of bellhop's engine, "
        "not with diff_method='parameter-shift'. Use default.qubit, or diff_method='best'.",
    ),
    "density matrix": (
        rotated(lambda: qml.density_matrix([0])),
        {"diff_method": "finite-diff"},
        "the derivative of qml.density_matrix is supported only by the adjoint method of bellhop's "
        "engine, not with diff_method='finite-diff'",
    ),
    # What prints has no second form in the program, which would print again.
    "state beside a computed loop": (
        lambda x: (jax.debug.print("{}", x), computed_loop(qml.state)(x))[1],
        {},
        "the derivative of qml.state is supported only by the adjoint method of bellhop's engine, "
        "not in a circuit with a loop of dynamic trip count. Use default.qubit, or give the loop a "
        "static trip count.",
    ),
    "no method": (rotated(expval), {"diff_method": None}, "with diff_method='None'"),
    "another method": (
        rotated(expval),
        {"diff_method": None},
        "with diff_method='None', which is not supported on this device, expected 'best', "
        "'adjoint', 'parameter-shift', 'hadamard', 'spsa' or 'finite-diff'. Use diff_method='best'",
    ),
    "matrix of two wires": (
        matrix_gate,
        {"shots": 10},
        "the parameters of QubitUnitary are differentiated, which neither the adjoint method",
    ),
    "matrix of many wires": (
        lambda x: qml.expval(qml.Hermitian(x * np.eye(32), wires=range(5))),
        {"diff_method": "parameter-shift"},
        "with respect to the matrix of a Hermitian observable on 5 wires, expected at most 4 wires",
    ),
}


@pytest.mark.parametrize("name", NO_DERIVATIVE)
def test_circuit_that_has_no_derivative(name: str) -> None:
    body, options, message = NO_DERIVATIVE[name]
    node = circuit(body, qml.device("lightning.qubit", wires=5), **options)
    program = bellhop.jacobian(lambda x: jax.tree.map(jnp.real, node(x)))
    with raises_naming_the_circuit(message, bellhop.DifferentiableCompileError):
        bellhop.qjit(program)(2.3)
    # It has a value all the same.
    bellhop.qjit(node)(2.3)


def test_second_derivative_by_finite_differences() -> None:
    program = bellhop.qjit(jax.hessian(circuit(rotated(expval), diff_method="finite-diff")))
    message = "and finite differences of finite differences are mostly"
    with raises_naming_the_circuit(message, bellhop.DifferentiableCompileError):
        program(0.3)


def test_second_derivative_of_what_is_linear_in_the_circuit() -> None:
    node = circuit(rotated(expval))
    program = bellhop.qjit(jax.hessian(lambda y: y**2 * node(0.3)))
    np.testing.assert_allclose(program(2.0), 2 * np.cos(0.3), atol=1e-12)


def test_errors_of_pennylane_name_the_qnode_and_the_line() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def unitary() -> Any:
        qml.QubitUnitary(jnp.eye(3), 0)
        return qml.expval(qml.Z(0))

    with pytest.raises(ValueError, match="must be of shape") as caught:
        bellhop.qjit(unitary)()
    (note,) = (note for note in caught.value.__notes__ if note.startswith("raised in"))
    assert "the QNode 'unitary'" in note
    assert note.count("test_circuit_errors.py:") == 2


def test_a_computed_wire_of_a_measurement_is_named_as_one() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(wire: Any) -> Any:
        return qml.expval(qml.Z(wire))

    with pytest.raises(
        bellhop.CircuitError, match=r"A measurement on wires \[5\] \(.*wire 5 is not"
    ):
        bellhop.qjit(circuit)(5)


def test_shots_of_a_call() -> None:
    """PennyLane's former way, which it warns about where it is not compiled."""

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x: Any) -> Any:
        qml.RX(x, 0)
        return qml.sample(wires=0)

    assert bellhop.qjit(lambda x: circuit(x, shots=7))(0.3).shape == (7, 1)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_a_result_that_jax_debug_nans_looks_for(device):
    @qml.qnode(qml.device(device, wires=1))
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    f = bellhop.qjit(circuit)
    with jax.debug_nans(True):
        with pytest.raises(
            FloatingPointError, match=r"'circuit' .* returned nan, which the option jax_debug"
        ):
            f(np.nan)
        np.testing.assert_allclose(f(0.3), np.cos(0.3))
