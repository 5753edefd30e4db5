"""Loops and conditionals whose values are pytrees without an array in them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pennylane as qml
import pytest

import bellhop


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Settings:
    order: int = dataclasses.field(metadata={"static": True}, default=3)


@pytest.mark.parametrize("empty", [(), {}, [], None, ((), [{}]), Settings()], ids=repr)
def test_values_without_leaves_are_carried_and_returned(empty):
    device = qml.device("lightning.qubit", wires=1)

    def through(x, n):
        alone = bellhop.for_loop(0, n, 1)(lambda i, s: s)(empty)
        beside, y = bellhop.while_loop(lambda s, y: y < 2)(lambda s, y: (s, 2 * y))(empty, x)
        branch = bellhop.cond(x > 0, lambda: empty, lambda: empty)()
        choice = bellhop.switch(n)(lambda: empty)
        choice.branch(1)(lambda: empty)
        return (alone, beside, branch, choice()), y

    def rotated(x, n):
        def body(i, s):
            qml.RX(x, wires=0)
            return s

        for steps in (n, 2):
            carried = bellhop.for_loop(0, steps, 1)(body)(empty)
        assert jax.tree.structure(carried) == jax.tree.structure(empty)
        qml.adjoint(lambda: bellhop.for_loop(0, n, 1)(body)(empty))()
        return qml.expval(qml.Z(0))

    circuit = qml.QNode(rotated, device)
    x = jnp.array([0.3, 0.4])
    for form in (bellhop.qjit, jax.jit):
        values, y = form(through)(0.5, 3)
        assert jax.tree.structure(values) == jax.tree.structure((empty,) * 4)
        assert y == 2
        mapped = form(jax.vmap(through, in_axes=(0, None)))(x, 3)[1]
        np.testing.assert_allclose(mapped, [2.4, 3.2])
    program = bellhop.qjit(jax.vmap(jax.value_and_grad(circuit), in_axes=(0, None)))
    value, derivative = program(x, 3)
    np.testing.assert_allclose(value, np.cos(2 * x), atol=1e-12)
    np.testing.assert_allclose(derivative, -2 * np.sin(2 * x), atol=1e-12)


@pytest.mark.parametrize("autograph", [False, True])
def test_states_of_every_optimizer_are_carried(autograph):
    optimizer = optax.chain(optax.clip(1.0), optax.sgd(0.1))

    def step(i, p, state):
        updates, state = optimizer.update(jax.grad(lambda p: jnp.sum(p**2))(p), state, p)
        return optax.apply_updates(p, updates), state

    def train(p, n):
        return bellhop.for_loop(0, n, 1)(step)(p, optimizer.init(p))[0]

    def train_in_python(p, n):
        state = optimizer.init(p)
        for i in range(n):
            p, state = step(i, p, state)
        return p

    train = train_in_python if autograph else train
    p = jnp.array([1.0, 0.2])
    np.testing.assert_allclose(
        bellhop.qjit(train, autograph=autograph)(p, 4), train_in_python(p, 4)
    )


@pytest.mark.parametrize("loop", ["for", "while", "cond"])
def test_an_operator_is_a_value_outside_of_a_circuit(loop):
    def halved(c):
        return qml.Hamiltonian([c.data[0] / 2, c.data[1]], [qml.Z(0), qml.X(0)])

    def program(x):
        first = qml.Hamiltonian([x, 2 * x], [qml.Z(0), qml.X(0)])
        if loop == "for":
            last = bellhop.for_loop(0, 2, 1)(lambda i, c: halved(c))(first)
        elif loop == "while":
            body = bellhop.while_loop(lambda i, c: i < 2)(lambda i, c: (i + 1, halved(c)))
            _, last = body(0, first)
        else:
            last = bellhop.cond(x > 0, lambda: halved(halved(first)), lambda: first)()
        return last.data

    np.testing.assert_allclose(bellhop.qjit(program)(4.0), [1, 8])
    np.testing.assert_allclose(program(4.0), [1, 8])
