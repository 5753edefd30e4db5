"""Bars of loops that are transformed, or stand in circuits and regions: one for each loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.progress_bars.bars import XS, doubled

import bellhop
from bellhop.compiler.jax_callback_lowering import delegate_everywhere

# A function, its arguments, the right value, and how often it loops forward.
TRANSFORMED = {
    "vmap": (jax.vmap(doubled), (XS,), 64 * XS, 1),
    "grad": (jax.grad(doubled), (1.5,), 64.0, 1),
    "value_and_grad": (lambda x: jax.value_and_grad(doubled)(x)[1], (1.5,), 64.0, 1),
    "jvp": (lambda x: jax.jvp(doubled, (x,), (x,))[1], (1.5,), 96.0, 1),
    "vmap of grad": (jax.vmap(jax.grad(doubled)), (XS,), 64.0 * jnp.ones(3), 1),
    "grad of vmap": (
        jax.grad(lambda xs: jax.vmap(doubled)(xs).sum()),
        (XS,),
        64.0 * jnp.ones(3),
        1,
    ),
    "hessian": (jax.hessian(lambda x: doubled(x) ** 2), (1.5,), 2 * 64.0**2, 1),
    "checkpoint": (jax.grad(jax.checkpoint(doubled)), (1.5,), 64.0, 1),
    "jit": (jax.jit(doubled), (1.5,), 96.0, 1),
    "cond": (lambda x: jax.lax.cond(x > 0, doubled, lambda x: x, x), (1.5,), 96.0, 1),
    "cond not taken": (lambda x: jax.lax.cond(x > 2, doubled, lambda x: x, x), (1.5,), 1.5, 0),
    "vmap of length": (
        jax.vmap(lambda n: doubled(1.0, n)),
        (jnp.array([2, 6, 3]),),
        jnp.array([4.0, 64.0, 8.0]),
        1,
    ),
}


@pytest.mark.parametrize("compiler", [bellhop.qjit, jax.jit], ids=["qjit", "jit"])
@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformed_loops_have_one_bar(name, compiler, shown):
    function, args, expected, times = TRANSFORMED[name]
    np.testing.assert_allclose(compiler(function)(*args), expected)
    assert [line[:2] for line in shown(wait=True)] == [("loop", 6)] * times


@pytest.mark.parametrize("transform", ["vmap", "grad", "checkpoint"])
def test_transformed_bodies_have_one_bar(transform, shown):
    def f(x):
        body = bellhop.progress(5, "body")(lambda c, _: (c * x, None))
        return jax.lax.scan(body, 1.0, None, length=5)[0]

    functions = {
        "vmap": jax.vmap(f),
        "grad": jax.vmap(jax.grad(f)),
        "checkpoint": jax.vmap(jax.grad(jax.checkpoint(f))),
    }
    expected = XS**5 if transform == "vmap" else 5 * XS**4
    np.testing.assert_allclose(bellhop.qjit(functions[transform])(XS), expected)
    assert shown() == [("body", 5, 5)]


def test_shard_map_counts_one_device(shown):
    mesh = jax.sharding.Mesh(jax.devices("cpu")[:2], ("i",))
    spec = jax.sharding.PartitionSpec("i")

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=spec, out_specs=spec)
    def f(xs):
        return doubled(xs)

    np.testing.assert_allclose(f(jnp.arange(4.0)), 64 * np.arange(4.0))
    assert [line[:2] for line in shown(wait=True)] == [("loop", 6)]


def test_in_a_circuit(shown):
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def f(x):
        bellhop.for_loop(0, 4, 1, progress="gates")(lambda i: qml.RX(x, wires=0))()
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(f(0.1), np.cos(0.4))
    np.testing.assert_allclose(bellhop.qjit(jax.grad(f))(0.1), -4 * np.sin(0.4))
    assert [line[:2] for line in shown()] == [("gates", 4)] * 2


def test_in_a_region(shown):
    region = bellhop.accelerate(doubled, dev=jax.devices("cpu")[1])
    assert bellhop.qjit(region)(1.0) == 64
    assert shown() == [("loop", 6, 6)]


def test_the_program_shows_it_for_devices_that_cannot(shown):
    region = bellhop.accelerate(doubled, dev=jax.devices("cpu")[1])
    with delegate_everywhere():
        assert bellhop.qjit(region)(1.0) == 64
    assert shown() == [("loop", 6, 6)]


def test_is_refused_in_programs_that_cannot_show_it():
    with (
        delegate_everywhere(),
        pytest.raises(NotImplementedError, match=r"loop at .*bars.py:\d+"),
    ):
        jax.jit(doubled)(1.0)
