"""Loops and conditionals where no program is traced: Python's."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


def circuit(x):
    @bellhop.for_loop(0, 3, 1)
    def rotate(i, angle):
        qml.RX(angle, wires=i)
        return angle + x

    @bellhop.while_loop(lambda i: i < 3)
    def entangle(i):
        qml.CNOT([i - 1, i])
        return i + 1

    @bellhop.cond(x > 0.2)
    def prepare():
        qml.Hadamard(0)

    @prepare.else_if(x > 0.1)
    def _():
        qml.Y(0)

    @prepare.otherwise
    def _():
        qml.X(0)

    @bellhop.switch(jnp.int32(2))
    def choose():
        qml.Z(0)

    @choose.branch(2)
    def _():
        qml.RY(x, 1)

    prepare()
    choose()
    rotate(x)
    entangle(1)
    bellhop.adjoint(rotate)(x)
    bellhop.ctrl(lambda: qml.RX(x, 2), control=0)()
    return qml.expval(qml.Z(2))


@pytest.mark.large
@pytest.mark.parametrize("x", [0.05, 0.15, 0.3])
def test_circuits_that_are_not_compiled_are_what_they_are_compiled(x):
    on_python = qml.QNode(circuit, qml.device("default.qubit", wires=3))
    compiled = qml.QNode(circuit, qml.device("lightning.qubit", wires=3))
    assert float(bellhop.qjit(compiled)(x)) == pytest.approx(float(on_python(x)), abs=1e-12)
    assert float(on_python(jnp.float64(x))) == pytest.approx(float(on_python(x)), abs=1e-12)
    slope = bellhop.qjit(bellhop.grad(compiled))(x)
    assert float(jax.grad(on_python)(x)) == pytest.approx(float(slope), abs=1e-9)


def test_the_tape_has_the_gates_of_every_iteration():
    on_python = qml.QNode(circuit, qml.device("default.qubit", wires=3))
    tape = qml.workflow.construct_tape(on_python)(0.3)
    assert [op.name for op in tape.operations[:7]] == ["Hadamard", "RY", *["RX"] * 3, *["CNOT"] * 2]
    assert [op.wires[0] for op in tape.operations[2:5]] == [0, 1, 2]


def test_loops_carry_any_values():
    assert bellhop.for_loop(0, 6, 2)(lambda i, seen: [*seen, i])([]) == [0, 2, 4]
    assert bellhop.for_loop(3, 0, -1)(lambda i, a, b: (a + i, b + "x"))(0, "") == (6, "xxx")
    assert bellhop.while_loop(lambda text: len(text) < 3)(lambda text: text + "a")("") == "aaa"
    assert bellhop.for_loop(np.int8(2))(lambda i: i)() is None
    with pytest.raises(TypeError, match="the body must return the 2 carried values"):
        bellhop.for_loop(0, 1, 1)(lambda i, a, b: a)(1, 2)
    with pytest.raises(TypeError, match="a condition must be a bool or a number"):
        bellhop.while_loop(lambda i: (i, i))(lambda i: i)(1)


def test_loops_in_a_plain_jit_are_loops_of_its_program():
    f = jax.jit(lambda n: bellhop.for_loop(0, n, 1)(lambda i, total: total + i)(0))
    assert f(4) == 6
    assert "while" in str(jax.make_jaxpr(f)(4))


def test_cases_are_integers():
    with pytest.raises(TypeError, match="switch: a case must be an integer, got 'a'"):
        bellhop.switch(1)(lambda: 0).branch("a")
    assert bellhop.switch(1)(lambda: 0).branch(np.int8(1))(lambda: 5)() == 5
