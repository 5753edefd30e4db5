"""User code in adjoint and ctrl of functions runs once; its effects happen once and in order."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

FLOW = {
    "adjoint": lambda f: bellhop.adjoint(f)(),
    "ctrl": lambda f: bellhop.ctrl(f, control=1)(),
    "both": lambda f: bellhop.adjoint(lambda: bellhop.ctrl(f, control=1)())(),
    "twice": lambda f: bellhop.adjoint(lambda: bellhop.adjoint(f)())(),
}


def compiled(body: Callable[[Any], Any]) -> Any:
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=3))
    def circuit(x: Any) -> Any:
        qml.Hadamard(1)
        body(x)
        return qml.state()

    return circuit


def state_of(body: Callable[[float], Any], x: float) -> Any:
    @qml.qnode(qml.device("default.qubit", wires=3))
    def circuit() -> Any:
        qml.Hadamard(1)
        body(x)
        return qml.state()

    return circuit()


def test_nested_adjoints_of_conditionals() -> None:
    runs = []

    def level(depth: int, x: Any) -> None:
        runs.append(depth)
        if depth == 0:
            qml.RX(x, 0)
            return
        down = lambda: level(depth - 1, x)
        bellhop.adjoint(bellhop.cond(x > 0.1, down, lambda: qml.X(0) and None))()

    circuit = compiled(lambda x: level(8, x))
    np.testing.assert_allclose(circuit(0.3), state_of(lambda x: qml.RX(x, 0), 0.3), atol=1e-9)
    assert runs == [8, 7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("kind", FLOW)
def test_user_code_and_effects_once(kind: str) -> None:
    """Loops that carry values, a conditional with a value, and calls among gates."""
    runs: list[str] = []
    calls: list[tuple[str, float]] = []

    def note(name: str) -> Any:
        def called(x: Any) -> Any:
            calls.append((name, round(float(x), 6)))
            return np.float64(x)

        return bellhop.io_callback(called, jax.ShapeDtypeStruct((), float))

    def function(x: Any) -> None:
        runs.append("function")

        @bellhop.for_loop(0, 3)
        def loop(i: Any, y: Any) -> Any:
            runs.append("loop")
            z = note("loop")(y)
            qml.RX(z, wires=0)
            qml.CRY(y * i, wires=[0, 2])
            return y * 2

        y = loop(x)

        def taken() -> Any:
            runs.append("branch")
            z = note("branch")(y)
            qml.RZ(z, wires=0)
            return z + 1

        w = bellhop.cond(x > 0, taken, lambda: (qml.X(0), jnp.asarray(0.0))[1])()
        qml.RY(w, wires=0)
        note("end")(w)

    def reference(x: float) -> None:
        for i in range(3):
            qml.RX(x, wires=0)
            qml.CRY(x * i, wires=[0, 2])
            x = x * 2
        qml.RZ(x, wires=0)
        qml.RY(x + 1, wires=0)

    by_hand = {
        "adjoint": lambda x: qml.adjoint(reference)(x),
        "ctrl": lambda x: qml.ctrl(reference, control=1)(x),
        "both": lambda x: qml.adjoint(qml.ctrl(reference, control=1))(x),
        "twice": reference,
    }
    circuit = compiled(lambda x: FLOW[kind](lambda: function(x)))
    np.testing.assert_allclose(circuit(0.1), state_of(by_hand[kind], 0.1), atol=1e-9)
    assert runs == ["function", "loop", "branch"]
    assert calls == [("loop", 0.1), ("loop", 0.2), ("loop", 0.4), ("branch", 0.8), ("end", 1.8)]


@pytest.mark.parametrize("kind", ["adjoint", "ctrl"])
def test_loops_of_computed_length(kind: str) -> None:
    runs: list[str] = []
    calls: list[float] = []

    def function(x: Any) -> None:
        @bellhop.while_loop(lambda y: y < 1)
        def loop(y: Any) -> Any:
            runs.append("loop")
            bellhop.debug.callback(lambda y: calls.append(round(float(y), 6)))(y)
            qml.RX(y, wires=0)
            qml.CRY(y / 2, wires=[0, 2])
            return y * 2

        qml.RY(loop(x), wires=0)

    def reference(x: float) -> None:
        while x < 1:
            qml.RX(x, wires=0)
            qml.CRY(x / 2, wires=[0, 2])
            x = x * 2
        qml.RY(x, wires=0)

    by_hand = {"adjoint": qml.adjoint(reference), "ctrl": qml.ctrl(reference, control=1)}
    circuit = compiled(lambda x: FLOW[kind](lambda: function(x)))
    np.testing.assert_allclose(circuit(0.2), state_of(by_hand[kind], 0.2), atol=1e-9)
    assert runs == ["loop"]
    assert calls == [0.2, 0.4, 0.8]


def test_a_call_whose_result_is_needed_again() -> None:
    @bellhop.io_callback
    def read(x) -> float:
        return x

    def function(x: Any) -> None:
        bellhop.while_loop(lambda y: y < 1)(lambda y: (qml.RX(read(y), wires=0), y * 2)[1])(x)

    with pytest.raises(bellhop.CompileError, match="use the result of a call with side effects"):
        compiled(lambda x: FLOW["adjoint"](lambda: function(x)))(0.2)


def test_control_flow_in_a_decomposition() -> None:
    """A tape collects it, and the circuit gets its gates later."""
    runs: list[str] = []
    calls: list[float] = []

    class Turned(qml.operation.Operation):
        num_wires = 1

        @staticmethod
        def compute_decomposition(theta: Any, wires: Any) -> Any:
            with qml.tape.QuantumTape() as tape:

                @bellhop.for_loop(0, 2)
                def loop(i: Any, y: Any) -> Any:
                    runs.append("loop")
                    bellhop.debug.callback(lambda y: calls.append(round(float(y), 6)))(y)
                    qml.RX(y, wires=wires)
                    return y * 2

                qml.RZ(loop(theta), wires=wires)
            return tape.operations

    def reference(x: float) -> None:
        for angle in (x, 2 * x):
            qml.RX(angle, wires=0)
        qml.RZ(4 * x, wires=0)

    circuit = compiled(lambda x: Turned(x, wires=0))
    np.testing.assert_allclose(circuit(0.2), state_of(reference, 0.2), atol=1e-9)
    assert runs == ["loop"]
    assert calls == [0.2, 0.4]


def test_a_deferred_outcome_decides_in_a_controlled_function() -> None:
    """The gates of the conditional are controlled by the measured wire too."""

    def body(x: Any) -> None:
        qml.RX(x, wires=0)
        outcome = bellhop.measure(0)
        bellhop.ctrl(lambda: bellhop.cond(outcome, lambda: qml.RY(x, 2) and None)(), control=1)()

    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=3))
    def circuit(x: Any) -> Any:
        qml.X(1)
        body(x)
        return qml.expval(qml.Z(2))

    one = np.sin(0.7) ** 2
    np.testing.assert_allclose(circuit(1.4), 1 - one + one * np.cos(1.4), atol=1e-9)


@pytest.mark.parametrize("kind", ["adjoint", "ctrl"])
def test_loops_and_functions_without_gates(kind: str) -> None:
    calls: list[int] = []

    def function(x: Any) -> None:
        note = bellhop.debug.callback(lambda i: calls.append(int(i)))
        y = bellhop.for_loop(0, 3)(lambda i, y: (note(i), y * 2)[1])(x)
        FLOW[kind](lambda: note(7))
        qml.RX(y, wires=0)

    by_hand = {"adjoint": qml.adjoint, "ctrl": lambda gate: qml.ctrl(gate, control=1)}
    circuit = compiled(lambda x: FLOW[kind](lambda: function(x)))
    expected = state_of(lambda x: by_hand[kind](qml.RX(8 * x, wires=0)), 0.1)
    np.testing.assert_allclose(circuit(0.1), expected, atol=1e-9)
    assert calls == [0, 1, 2, 7]
    slope = bellhop.qjit(bellhop.grad(lambda x: jnp.real(circuit(x)[0])))(0.1)
    assert np.isfinite(slope)


class Counted(qml.operation.Operation):
    """A rotation whose decomposition counts how often it is asked for."""

    num_params = 1
    num_wires = 1
    asked = 0

    @staticmethod
    def compute_decomposition(angle: Any, wires: Any) -> Any:
        Counted.asked += 1
        return [qml.RX(angle, wires=wires)]


def printing(x: Any) -> None:
    def body(i: Any) -> None:
        bellhop.debug.callback(lambda i: None)(i)
        Counted(x * i, wires=0)

    bellhop.for_loop(0, 3)(body)()


def holding_a_loop_of_computed_length(x: Any) -> None:
    def body(_: Any, y: Any) -> Any:
        Counted(y, wires=0)
        bellhop.for_loop(0, jnp.int32(10 * y))(lambda j: qml.RX(x * j, 0) and None)()
        return y + 0.1

    bellhop.for_loop(0, 3)(body)(x)


def in_a_branch(x: Any) -> None:
    bellhop.cond(x > 0, lambda: holding_a_loop_of_computed_length(x))()


@pytest.mark.parametrize("body", [printing, holding_a_loop_of_computed_length, in_a_branch])
def test_a_decomposition_in_a_loop_is_asked_for_once(body: Callable[[Any], None]) -> None:
    Counted.asked = 0
    circuit = compiled(body)
    found = circuit(0.2)
    assert Counted.asked == 1
    np.testing.assert_allclose(found, state_of(body, 0.2), atol=1e-9)
