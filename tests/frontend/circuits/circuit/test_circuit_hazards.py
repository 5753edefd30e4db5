"""What optimisers must not do to circuits, and what is left after a failure."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
import bellhop_runtime
from bellhop_runtime import _runtime


@pytest.fixture
def node() -> Any:
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        qml.CNOT(wires=[0, 1])
        return qml.expval(qml.Z(1))

    return circuit


def test_circuit_in_a_scan_that_depends_on_no_loop_variable(node: Any) -> None:
    @bellhop.qjit
    def program(x: Any) -> Any:
        step = lambda total, _: (total + node(x), node(0.2))
        return jax.lax.scan(step, 0.0, None, length=5)

    total, each = program(0.4)
    np.testing.assert_allclose(total, 5 * np.cos(0.4), atol=1e-12)
    np.testing.assert_allclose(each, [np.cos(0.2)] * 5, atol=1e-12)


def test_circuit_without_inputs_under_vmap_and_grad(node: Any) -> None:
    @bellhop.qjit
    @jax.vmap
    @bellhop.grad
    def program(x: Any) -> Any:
        return node(0.2) * node(x)

    x = jnp.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(program(x), -np.cos(0.2) * np.sin(x), atol=1e-12)


def test_grad_of_vmap_of_a_circuit_with_its_own_gates(node: Any) -> None:
    @bellhop.qjit
    @bellhop.grad
    def program(x: Any) -> Any:
        return jnp.sum(jax.vmap(lambda y: node(y) * node(x))(jnp.arange(4.0)))

    expected = -np.sin(0.3) * np.cos(np.arange(4.0)).sum()
    np.testing.assert_allclose(program(0.3), expected, atol=1e-12)


def test_identical_circuits_are_not_confused(node: Any) -> None:
    @bellhop.qjit
    def program(x: Any) -> Any:
        return node(x), node(x), node(x + 1), node(x)

    np.testing.assert_allclose(program(0.4), np.cos([0.4, 0.4, 1.4, 0.4]), atol=1e-12)


@pytest.mark.parametrize("construct", ["cond", "switch", "while"])
def test_only_the_branch_that_is_taken_runs(construct: str) -> None:
    ran: list[str] = []
    opened = bellhop_runtime.live_sessions()
    circuits = _runtime.rows_in_engine()

    def traced(name: str) -> Any:
        def note(x: Any) -> float:
            ran.append(f"{name}, {bellhop_runtime.live_sessions() - opened} open")
            return x

        @qml.qnode(qml.device("lightning.qubit", wires=1))
        def circuit(x: Any) -> Any:
            qml.RX(bellhop.pure_callback(note, float)(x), wires=0)
            return qml.expval(qml.Z(0))

        return circuit

    one, other = traced("one"), traced("other")

    @bellhop.qjit
    def program(x: Any) -> Any:
        if construct == "cond":
            return jax.lax.cond(x > 0, one, other, x)
        if construct == "switch":
            return jax.lax.switch(jnp.where(x > 0, 0, 1), [one, other], x)
        return jax.lax.while_loop(lambda y: y > 2, one, jax.lax.cond(x > 0, one, other, x))

    np.testing.assert_allclose(program(0.4), np.cos(0.4), atol=1e-12)
    assert ran == ["one, 0 open"]
    np.testing.assert_allclose(program(-0.4), np.cos(0.4), atol=1e-12)
    assert ran == ["one, 0 open", "other, 0 open"]
    assert _runtime.rows_in_engine() == circuits + 2


def failing(x: Any) -> float:
    if x > 2:
        raise ZeroDivisionError("too large")
    return x


def fails_before(node: Any, x: Any) -> Any:
    return node(bellhop.pure_callback(failing, float)(x))


def fails_between(node: Any, x: Any) -> Any:
    return node(bellhop.pure_callback(failing, float)(node(x) + x))


def fails_inside(_: Any, x: Any) -> Any:
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x: Any) -> Any:
        qml.Hadamard(wires=1)

        # The loop keeps the callback after the first gate.
        @bellhop.for_loop(0, 3)
        def loop(i: Any) -> None:
            qml.RX(bellhop.pure_callback(failing, float)(x * i), wires=0)

        loop()
        return qml.expval(qml.Z(0))

    return circuit(x)


def fails_after(node: Any, x: Any) -> Any:
    return bellhop.pure_callback(failing, float)(node(x) + x)


@pytest.mark.parametrize("program", [fails_before, fails_between, fails_inside, fails_after])
@pytest.mark.parametrize("transform", [lambda f: f, jax.vmap])
def test_program_is_usable_after_a_callback_raised(node: Any, program: Any, transform: Any) -> None:
    compiled = bellhop.qjit(transform(lambda x: program(node, x)))
    good = jnp.array([0.1, -3.0]) if transform is jax.vmap else -3.0
    bad = jnp.array([-3.0, 5.0]) if transform is jax.vmap else 5.0
    before, opened = compiled(good), bellhop_runtime.live_sessions()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError, match="too large"):
            compiled(bad)
        assert bellhop_runtime.live_sessions() == opened
        np.testing.assert_array_equal(compiled(good), before)


def test_program_is_usable_after_a_gate_failed() -> None:
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def program(bits: Any) -> Any:
        qml.BasisState(bits, wires=[0, 1])
        return qml.expval(qml.Z(1))

    opened = bellhop_runtime.live_sessions()
    for _ in range(3):
        with pytest.raises(bellhop.CircuitError, match="expected 0 or 1 for each wire, got 3"):
            program(jnp.array([0, 3]))
        assert bellhop_runtime.live_sessions() == opened
        np.testing.assert_array_equal(program(jnp.array([0, 1])), -1.0)


def test_device_is_used_again_from_its_zero_state() -> None:
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def program(x: Any) -> Any:
        qml.RX(x, wires=0)
        return qml.probs()

    for x in (np.pi, 0.3, np.pi, 0.0):
        expected = [np.cos(x / 2) ** 2, 0, np.sin(x / 2) ** 2, 0]
        np.testing.assert_allclose(program(x), expected, atol=1e-12)


def test_callback_that_raises_in_a_circuit_under_plain_jit_leaves_no_session(
    lightning: Any,
) -> None:
    @bellhop.pure_callback
    def refuse(x: Any) -> float:
        raise ValueError("no angle")

    circuit = lightning(lambda x: (qml.RX(refuse(x), 0), qml.expval(qml.Z(0)))[1])
    with pytest.raises(ValueError, match="no angle"):
        jax.jit(bellhop.qjit(circuit))(0.3)
    assert bellhop_runtime.live_sessions() == 0
