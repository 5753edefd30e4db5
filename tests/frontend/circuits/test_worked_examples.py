"""The examples at the top of modules have the primitives, in order, of what really is traced."""

import importlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.base.equations import inner_jaxprs
from bellhop.circuits.circuit.circuit_primitive import CircuitBody
from bellhop.circuits.vectorize.pack import pack
from bellhop.circuits.vectorize.pick import pick
from bellhop.transformations.traced import traced

_PRIMITIVE = re.compile(r"\b(?:quantum_\w+|while|scan|cond|pack|pick)(?=[\[ ])")
_DEVICE = qml.device("lightning.qubit", wires=4)


def _circuit(gates):
    @qml.qnode(_DEVICE)
    def circuit(*args):
        gates(*args)
        return qml.expval(qml.Z(0))

    return circuit


@_circuit
def straight(x):
    qml.RX(2 * x, 0)
    qml.RY(0.5, 0)


@_circuit
def long_loop(x):
    bellhop.for_loop(0, 1000)(lambda i: qml.RX(x * i, 0))()


@_circuit
def printing_loop(x):
    def body(i):
        bellhop.debug.print("{}", i)
        qml.RX(x * i, 0)

    bellhop.for_loop(0, 1000)(body)()


@_circuit
def conditional(x):
    bellhop.cond(x > 0, lambda: qml.RX(x, 0), lambda: qml.X(0))()


@_circuit
def dynamic_loop(x, n):
    bellhop.for_loop(0, n)(lambda i: qml.RX(x * i, 0))()


@qml.qnode(_DEVICE)
def probabilities(x):
    qml.RX(2 * x, 0)
    return qml.probs()


def loss(x):
    return jnp.sum(jnp.sin(probabilities(x)))


def picked(x):
    return pick(x, np.array([2, 0, 2]))


def unpicked(y):
    return jax.linear_transpose(picked, jnp.arange(3.0))(y)


_EXAMPLES = {
    "circuits.recording.straight_circuit": [(straight, 0.3)],
    "circuits.recording.recording": [(long_loop, 0.3), (printing_loop, 0.3), (conditional, 0.3)],
    "circuits.circuit.circuit_primitive": [(straight, 0.3), (jax.grad(straight), 0.3)],
    "circuits.circuit.batch": [(jax.vmap(straight), jnp.arange(3.0))],
    "circuits.circuit.linearization": [(jax.grad(loss), 0.3)],
    "circuits.derivatives.dynamic_count": [(dynamic_loop, 0.3, 5)],
    "circuits.vectorize.pack": [(lambda *numbers: pack(numbers), 1.0, 2.0, 3.0)],
    "circuits.vectorize.pick": [(picked, jnp.arange(3.0)), (unpicked, jnp.arange(3.0))],
}


def _shown(module):
    doc = importlib.import_module(f"bellhop.{module}").__doc__
    indented = "\n".join(line for line in doc.splitlines() if line.startswith("    "))
    return _PRIMITIVE.findall(indented)


def _primitives(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        body = eqn.params.get("body")
        bodies = [body.closed.jaxpr] if isinstance(body, CircuitBody) else inner_jaxprs(eqn)
        for inner in bodies:
            yield from _primitives(inner)


@pytest.mark.parametrize("module", _EXAMPLES)
def test_examples_of_modules(module):
    shown = _shown(module)
    found = [
        name
        for function, *args in _EXAMPLES[module]
        for name in _primitives(jax.make_jaxpr(traced(function))(*args).jaxpr)
    ]
    # What an example leaves out, it leaves out everywhere.
    assert shown
    assert [name for name in found if name in shown] == shown
