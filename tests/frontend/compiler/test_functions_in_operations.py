"""Reductions and scatters whose functions call Python are errors that name the operation."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax._src.lax import windowed_reductions  # noqa: TID251

import bellhop

SCALAR = jax.ShapeDtypeStruct((), float)
X = np.arange(1.0, 5.0)


def reduce(op):
    return lambda x: jax.lax.reduce(x, 1.0, op, (0,))


def reduce_window(op):
    return lambda x: jax.lax.reduce_window(x, 1.0, op, (2,), (1,), "VALID")


def scatter_apply(op):
    numbers = jax.lax.ScatterDimensionNumbers((), (0,), (0,))
    indices = jnp.array([[0]])
    return lambda x: jax.lax.scatter_apply(
        x, indices, lambda a: op(a, a), numbers, update_shape=(1,)
    )


def select_and_scatter(op):
    return lambda x: windowed_reductions._select_and_scatter(
        x, lambda a, b: op(a, b) > 0, (2,), (2,), ((0, 0),), jnp.ones(2), 0.0, jax.lax.add
    )


@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(x, 0)
    return qml.expval(qml.Z(0))


OPERATIONS = {
    "callback": lambda a, b: bellhop.pure_callback(np.multiply, SCALAR, a, b),
    "jax": lambda a, b: jax.pure_callback(np.multiply, SCALAR, a, b),
    "nested": jax.jit(lambda a, b: bellhop.pure_callback(np.multiply, SCALAR, a, b)),
    "circuit": lambda a, b: circuit(a) * b,
}


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (reduce, "jax.lax.reduce"),
        (reduce_window, "jax.lax.reduce_window"),
        (scatter_apply, "jax.lax.scatter_apply"),
        (select_and_scatter, "select-and-scatter"),
    ],
)
def test_the_operation_is_named(make, name):
    for wrap in (bellhop.qjit, jax.jit, lambda f: f):
        with pytest.raises(bellhop.CompileError, match=f"^{name}.*: its function calls pure_cal"):
            wrap(make(OPERATIONS["callback"]))(X)


@pytest.mark.parametrize("kind", ["jax", "nested", "circuit"])
def test_whatever_calls_python_is_refused(kind):
    with pytest.raises(bellhop.CompileError, match=r"jax.lax.reduce \(.*: its function calls"):
        bellhop.qjit(reduce(OPERATIONS[kind]))(X)


def test_operations_of_xla_alone_are_lowered_by_jax():
    multiply = lambda a, b: a * b
    for make in (reduce, reduce_window, scatter_apply, select_and_scatter):
        np.testing.assert_array_equal(bellhop.qjit(make(multiply))(X), jax.jit(make(multiply))(X))
