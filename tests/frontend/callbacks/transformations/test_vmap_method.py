"""vmap_method: what a pure callback is given under vmap, how often, and what it returns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

# The shape that an argument of shape (3,) has, where it is not mapped and the batch is 4.
UNMAPPED = {"expand_dims": (1, 3), "broadcast_all": (4, 3), "legacy_vectorized": (3,)}
BATCHING = pytest.mark.parametrize("method", UNMAPPED)


def recorded(function, result_type, method):
    shapes = []

    def call(*args):
        shapes.append([np.shape(arg) for arg in args])
        return function(*args)

    return bellhop.pure_callback(call, result_type, vmap_method=method), shapes


@BATCHING
def test_one_call_for_a_batch(form, method):
    double, shapes = recorded(lambda x: 2 * x, float, method)
    xs = jnp.arange(5.0)
    np.testing.assert_array_equal(form(jax.vmap(double))(xs), 2 * xs)
    assert shapes == [[(5,)]]


def test_sequential_is_the_default(form):
    shapes = []
    double = bellhop.pure_callback(lambda x: (shapes.append(x.shape), 2 * x)[1], float)
    form(jax.vmap(double))(jnp.arange(5.0))
    assert shapes == [()] * 5
    named, shapes = recorded(lambda x: 2 * x, float, "sequential")
    form(jax.vmap(named))(jnp.arange(5.0))
    assert shapes == [[()]] * 5


@BATCHING
def test_arguments_that_are_not_mapped(form, method):
    add, shapes = recorded(np.add, jax.ShapeDtypeStruct((3,), np.float64), method)
    xs, y = jnp.arange(12.0).reshape(3, 4), jnp.arange(3.0)
    observed = form(jax.vmap(add, in_axes=(1, None)))(xs, y)
    np.testing.assert_array_equal(observed, xs.T + y)
    assert shapes == [[(4, 3), UNMAPPED[method]]]


@BATCHING
def test_nothing_mapped(form, method):
    double, shapes = recorded(lambda x: 2 * x, float, method)
    form(lambda xs: jax.vmap(lambda x: x + double(1.0))(xs))(jnp.arange(3.0))
    assert shapes == [[()]]


@BATCHING
def test_nested(form, method):
    double, shapes = recorded(lambda x: 2 * x, jax.ShapeDtypeStruct((2,), np.float64), method)
    xs = jnp.arange(24.0).reshape(3, 4, 2)
    f = jax.vmap(jax.vmap(double), in_axes=1, out_axes=1)
    np.testing.assert_array_equal(form(f)(xs), 2 * xs)
    assert shapes == [[(4, 3, 2)]] or shapes == [[(3, 4, 2)]]


@pytest.mark.parametrize("method", ["expand_dims", "broadcast_all"])
def test_nested_over_different_arguments(form, method):
    add, shapes = recorded(lambda x, y: x + y, float, method)
    table = jax.vmap(jax.vmap(add, in_axes=(None, 0)), in_axes=(0, None))
    xs, ys = jnp.arange(3.0), jnp.arange(4.0)
    np.testing.assert_array_equal(form(table)(xs, ys), xs[:, None] + ys)
    full = {"expand_dims": [(3, 1), (1, 4)], "broadcast_all": [(3, 4), (3, 4)]}
    assert shapes == [full[method]]


@BATCHING
def test_in_a_scan_and_of_several_results(form, method):
    pair, shapes = recorded(lambda x: {"a": x + 1, "b": x > 0}, {"a": float, "b": bool}, method)

    def f(x):
        return jax.lax.scan(lambda c, _: (pair(c)["a"], pair(c)["b"]), x, None, length=3)

    last, flags = form(jax.vmap(f))(jnp.array([-1.0, 1.0]))
    np.testing.assert_array_equal(last, [2, 4])
    np.testing.assert_array_equal(flags, [[False, False, True], [True, True, True]])
    assert set(map(str, shapes)) == {"[(2,)]"}


@BATCHING
def test_a_batch_of_nothing(form, method):
    double, shapes = recorded(lambda x: 2 * x, float, method)
    assert form(jax.vmap(double))(jnp.zeros(0)).shape == (0,)
    assert len(shapes) <= 1


@BATCHING
def test_derivative_rules_are_batched_too(form, method):
    sine, shapes = recorded(np.sin, float, method)
    cosine = bellhop.pure_callback(np.cos, float, vmap_method=method)
    sine.fwd(lambda x: (sine(x), x))
    sine.bwd(lambda x, dy: cosine(x) * dy)
    xs = jnp.arange(4.0)
    np.testing.assert_allclose(form(jax.vmap(jax.grad(sine)))(xs), jnp.cos(xs))
    assert all(shape == [(4,)] for shape in shapes)


@BATCHING
def test_results_without_the_batch_are_errors(form, method):
    total, _ = recorded(np.sum, float, method)
    with pytest.raises(Exception, match=r"returned float64\[\], declared float64\[3\]"):
        form(jax.vmap(total))(jnp.arange(3.0))


def test_decorator(form):
    @bellhop.pure_callback(vmap_method="expand_dims")
    def double(x) -> float:
        assert x.shape == (3,)
        return 2 * x

    np.testing.assert_array_equal(form(jax.vmap(double))(jnp.arange(3.0)), [0, 2, 4])


@pytest.mark.parametrize("wrong", ["vectorized", "", 3])
def test_unknown_methods_are_refused(wrong):
    with pytest.raises(
        ValueError,
        match="pure_callback '<lambda>' has vmap_method=.*, expected one of 'sequential', "
        "'sequential_unrolled', 'sequential_threadpool', 'expand_dims', 'broadcast_all', "
        "'legacy_vectorized'",
    ):
        bellhop.pure_callback(lambda x: x, float, vmap_method=wrong)


def test_unrolled_calls_stand_one_after_another(form):
    calls = []
    double = bellhop.pure_callback(
        lambda x: (calls.append(float(x)), 2 * x)[1], float, vmap_method="sequential_unrolled"
    )
    np.testing.assert_array_equal(form(jax.vmap(double))(jnp.arange(3.0)), [0, 2, 4])
    assert sorted(calls) == [0, 1, 2]
    program = jax.jit(jax.vmap(double)).lower(jnp.arange(3.0)).as_text()
    assert "stablehlo.while" not in program


def test_none_is_sequential():
    shapes = []

    def double(x):
        shapes.append(x.shape)
        return 2 * x

    callback = bellhop.pure_callback(double, float, vmap_method=None)
    assert jax.vmap(callback)(np.arange(3.0)).tolist() == [0.0, 2.0, 4.0]
    assert shapes == [()] * 3
