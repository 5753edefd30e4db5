"""Callbacks inside jax.shard_map, where JAX keeps track of what differs between devices."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from tests.needs import PYTORCH, params

import bellhop

X = np.linspace(0.2, 1.4, 4)
FLOATS = jax.ShapeDtypeStruct((2,), float)
PART, ALL = PartitionSpec("i"), PartitionSpec()


@pytest.fixture(scope="module")
def sharded():
    mesh = Mesh(np.array(jax.devices("cpu")[:2]), ("i",))
    return functools.partial(jax.shard_map, mesh=mesh, in_specs=PART, out_specs=PART)


def product():
    return bellhop.pure_callback(lambda w, x: w * np.sin(x), FLOATS)


def by_fwd_and_bwd():
    f = product()
    f.fwd(lambda w, x: (f(w, x), (w, x)))
    f.bwd(lambda kept, ct: (jnp.sum(jnp.sin(kept[1]) * ct), kept[0] * jnp.cos(kept[1]) * ct))
    return f


def by_jvp():
    f = product()

    @f.jvp
    def rule(primals, tangents):
        (w, x), (dw, dx) = primals, tangents
        return f(w, x), jnp.sin(x) * dw + w * jnp.cos(x) * dx

    return f


def by_torch():
    import torch

    return bellhop.call_torch(lambda w, x: w * torch.sin(x))


RULES = [by_fwd_and_bwd, by_jvp, by_torch]


@pytest.mark.parametrize("rules", params(RULES, {by_torch: PYTORCH}))
def test_derivative_of_what_differs(sharded, rules):
    f = rules()
    run = sharded(lambda x: f(3.0, x))
    gradient = jax.jit(jax.grad(lambda x: run(x).sum()))
    np.testing.assert_allclose(gradient(X), 3 * np.cos(X), atol=1e-12)
    np.testing.assert_allclose(jax.jacrev(gradient)(X), np.diag(-3 * np.sin(X)), atol=1e-12)


@pytest.mark.parametrize("rules", params(RULES, {by_torch: PYTORCH}))
def test_derivative_of_what_is_the_same_on_all_devices(sharded, rules):
    f = rules()
    total = sharded(
        lambda w, x: jax.lax.psum(f(w, x).sum(), "i"), in_specs=(ALL, PART), out_specs=ALL
    )
    slope = jax.jit(jax.grad(total))(np.float64(3.0), X)
    np.testing.assert_allclose(slope, np.sin(X).sum(), atol=1e-12)


def test_rules_that_forget_what_differs(sharded):
    f = product()
    f.fwd(lambda w, x: (f(w, x), None))
    f.bwd(lambda _, ct: (None, jnp.ones(2)))
    gradient = jax.grad(lambda x: sharded(lambda x: f(3.0, x))(x).sum())
    np.testing.assert_array_equal(gradient(X), np.ones(4))


def in_place(context, out, w, x):
    np.multiply(w, np.sin(x), out=out)


@pytest.mark.parametrize(
    "f",
    [
        product(),
        bellhop.io_callback(lambda w, x: w * np.sin(x), FLOATS),
        bellhop.io_callback(lambda w, x: w * np.sin(x), FLOATS, ordered=True),
        bellhop.buffer_callback(in_place, FLOATS),
    ],
    ids=["pure", "io", "ordered io", "buffer"],
)
def test_loops_and_conditionals(sharded, f):
    @jax.jit
    @sharded
    def run(x):
        x = jax.lax.fori_loop(0, 2, lambda _, y: f(3.0, y), x)
        x = jax.lax.while_loop(lambda y: y[0] > 10, lambda y: f(3.0, y), x)
        return jax.lax.cond(x[0] < 10, lambda y: f(3.0, y), lambda y: y, x)

    expected = X
    for _ in range(3):
        expected = 3 * np.sin(expected)
    np.testing.assert_allclose(run(X), expected, atol=1e-12)


def test_what_differs_is_not_the_same_on_all_devices(sharded):
    f = product()
    with pytest.raises(ValueError, match="require replication"):
        sharded(lambda x: f(3.0, x), out_specs=ALL)(X)
