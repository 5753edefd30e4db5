"""Errors of values that a function has only while it is traced."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

kept = []


def in_loop(x):
    bellhop.for_loop(0, 3, 1)(lambda i, y: kept.append(jnp.sin(y)) or y)(x)
    return kept[-1]


@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(kept[-1] * x, wires=0)
    return qml.expval(qml.Z(0))


# What is captured as well is no value of another trace.
ARRAYS = jnp.ones(3), np.ones(3)

USES = {
    "function": lambda x: x + kept[-1],
    "result": lambda x: kept[-1],
    "loop": in_loop,
    "circuit": circuit,
    "region": bellhop.accelerate(lambda x: x + kept[-1]),
    "derivative": bellhop.grad(lambda x: x * kept[-1]),
    "beside arrays": lambda x: jnp.arange(3.0) @ ARRAYS[0] + kept[-1] * x * jnp.sum(ARRAYS[1]),
}


@pytest.mark.parametrize("function", USES.values(), ids=USES)
def test_a_value_that_another_trace_left_behind_is_named(function):
    """With the function that uses it, where it was computed, and the equation that takes it."""
    keeps = lambda x: kept.append(jnp.sin(x))
    jax.jit(keeps)(1.0)
    first, here = keeps.__code__.co_firstlineno, re.escape(__file__)
    made = in_loop.__code__.co_firstlineno + 1 if function is in_loop else first
    # Others use it outside of any equation that a line of the user's wrote.
    is_at_a_line = function in (
        USES["function"],
        USES["derivative"],
        USES["region"],
        USES["beside arrays"],
    )
    used = rf", at {here}:\d+" if is_at_a_line else ""
    with pytest.raises(
        jax.errors.UnexpectedTracerError,
        match=rf"^'.*' \({here}:\d+\) uses a value of another traced function or loop{used}: a "
        rf"float64\[\], computed at {here}:{made}, which was stored",
    ):
        bellhop.qjit(function)(1.0)
    kept[-1] = 2.0
    assert bellhop.qjit(lambda x: x + kept[-1])(1.0) == 3


def test_values_that_python_asks_for():
    """JAX's error says where in the user's function it was, and what to write instead."""
    for wrong in (
        lambda n: jnp.ones([n]),
        lambda n: 1 if n > 2 else 2,
        lambda n: list(range(n)),
        lambda n: jnp.arange(5)[:n],
        lambda n: jnp.arange(5)[jnp.arange(5) > n],
    ):
        with pytest.raises((TypeError, IndexError)) as caught:
            bellhop.qjit(wrong)(3)
        (note,) = (note for note in caught.value.__notes__ if note.startswith("bellhop: "))
        assert f"in qjit of '<lambda>' ({__file__}:" in note
        assert f"at {__file__}:{wrong.__code__.co_firstlineno}," in note
        assert "make the argument static: qjit(static_argnums=...)" in note
    with pytest.raises(TypeError) as caught:
        bellhop.qjit(lambda n: jnp.ones([1.5]))(3)
    assert not [note for note in caught.value.__notes__ if note.startswith("bellhop")]
