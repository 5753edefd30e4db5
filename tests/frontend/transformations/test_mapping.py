"""vmap: against a loop over the elements."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

X, Y = np.linspace(0.1, 0.9, 6).reshape(3, 2), np.linspace(-0.5, 0.5, 3)


def gates(x, y):
    qml.RX(x[0], wires=0)
    qml.RY(x[1] * y, wires=1)
    qml.CNOT([0, 1])


@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(x, y):
    gates(x, y)
    return qml.expval(qml.Z(1)), qml.probs()


CASES = {
    "both": (0, 0, (X, Y)),
    "first": ((0, None), 0, (X, Y[0])),
    "second": ((None, 0), 0, (X[0], Y)),
    "other axis": ((1, 0), 0, (X.T, Y)),
    "negative axis": ((-1, 0), 0, (X.T, Y)),
    "list": ([0, None], 0, (X, Y[0])),
    "result axes": ((0, 0), (0, 1), (X, Y)),
    "negative result axis": (0, (0, -1), (X, Y)),
}


def looped(function, in_axes, out_axes, args):
    axes = [in_axes] * 2 if isinstance(in_axes, int) else in_axes
    elements = [
        function(
            *(
                a if axis is None else np.take(a, i, axis)
                for a, axis in zip(args, axes, strict=True)
            )
        )
        for i in range(3)
    ]
    axes = [out_axes] * 2 if isinstance(out_axes, int) else out_axes
    return tuple(
        np.stack(results, axis)
        for results, axis in zip(zip(*elements, strict=True), axes, strict=True)
    )


@pytest.mark.parametrize(("in_axes", "out_axes", "args"), CASES.values(), ids=CASES)
def test_quantum_functions_against_a_loop(in_axes, out_axes, args):
    mapped = bellhop.qjit(bellhop.vmap(circuit, in_axes=in_axes, out_axes=out_axes))(*args)
    expected = looped(
        qml.QNode(circuit.func, qml.device("default.qubit", wires=2)), in_axes, out_axes, args
    )
    for one, other in zip(mapped, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


def test_outside_of_qjit():
    mapped = bellhop.vmap(circuit)(X, Y)
    np.testing.assert_allclose(mapped[0], looped(circuit, 0, 0, (X, Y))[0], atol=1e-9)


@pytest.mark.parametrize("order", ["vmap of grad", "grad of vmap", "vmap of vmap"])
def test_with_derivatives(order):
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def first(x, y):
        gates(x, y)
        return qml.expval(qml.Z(1))

    if order == "vmap of grad":
        result = bellhop.qjit(bellhop.vmap(bellhop.grad(first)))(X, Y)
        expected = np.stack([bellhop.grad(first)(x, y) for x, y in zip(X, Y, strict=True)])
    elif order == "grad of vmap":
        result = bellhop.qjit(bellhop.grad(lambda x: jnp.sum(bellhop.vmap(first)(x, Y))))(X)
        expected = np.stack([bellhop.grad(first)(x, y) for x, y in zip(X, Y, strict=True)])
    else:
        nested = bellhop.vmap(bellhop.vmap(first, in_axes=(None, 0)), in_axes=(0, None))
        result = bellhop.qjit(nested)(X, Y)
        expected = np.array([[first(x, y) for y in Y] for x in X])
    np.testing.assert_allclose(result, expected, atol=1e-9)


def test_trees_axis_size_and_decorator():
    @bellhop.qjit
    @bellhop.vmap(in_axes=({"a": 0, "b": None},), out_axes={"s": 0, "c": None})
    def f(tree):
        return {"s": tree["a"] + tree["b"], "c": 1.5}

    result = f({"a": jnp.arange(3.0), "b": 1.0})
    np.testing.assert_array_equal(result["s"], [1, 2, 3])
    assert result["c"] == 1.5
    ones = bellhop.qjit(bellhop.vmap(lambda x: x, in_axes=None, axis_size=4))(2.0)
    np.testing.assert_array_equal(ones, [2, 2, 2, 2])


def test_annotations_of_one_element_do_not_compile_the_whole():
    @bellhop.qjit
    @bellhop.vmap
    def f(x: float):
        return x * 2

    np.testing.assert_array_equal(f(jnp.arange(3.0)), [0, 2, 4])


def test_errors():
    with pytest.raises(TypeError, match="vmap takes a function, got 3"):
        bellhop.vmap(3)
    with pytest.raises(ValueError, match="axes to be mapped"):
        bellhop.qjit(bellhop.vmap(circuit))(X, Y[:2])
    with pytest.raises(ValueError, match="in_axes|axis"):
        jax.jit(bellhop.vmap(circuit, in_axes=(0, 1)))(X, Y)


def test_errors_name_the_arguments():
    def scaled(angle, scale):
        return angle * scale

    mapped = bellhop.vmap(scaled)
    with pytest.raises(ValueError, match="of argument angle .*\n.* of argument scale"):
        bellhop.qjit(mapped)(jnp.ones(3), jnp.ones(4))
    named = re.escape(f"vmap of 'scaled' ({__file__}:")
    for arguments in ((jnp.ones(3), jnp.ones(4)), (jnp.ones(3), 2.0)):
        with pytest.raises(ValueError, match=f"^{named}"):
            bellhop.qjit(mapped)(*arguments)
    with pytest.raises(ValueError, match=f"^{named}.*out_axes"):
        bellhop.vmap(scaled, out_axes=None)(jnp.ones(3), jnp.ones(3))
    # What the function raises is its own.
    with pytest.raises(ValueError, match="^mine"):
        bellhop.vmap(lambda x: (_ for _ in ()).throw(ValueError("mine")))(jnp.ones(3))
    with pytest.raises(TypeError, match=re.escape(f"qjit of 'scaled' ({__file__}:")):
        bellhop.qjit(mapped)("a", "b")
