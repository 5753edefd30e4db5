"""Derivatives of callbacks, against plain formulas and finite differences."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from tests.frontend.forms import FORMS

import bellhop

STRUCT = jax.ShapeDtypeStruct


def finite_difference(f, x, step=1e-6):
    return (f(x + step) - f(x - step)) / (2 * step)


@pytest.fixture
def gamma():
    @bellhop.pure_callback
    def gamma(x) -> float:
        return scipy.special.gamma(x)

    @gamma.fwd
    def _(x):
        return gamma(x), x

    @gamma.bwd
    def _(x, dy):
        slope = bellhop.pure_callback(
            lambda x: scipy.special.gamma(x) * scipy.special.digamma(x), float
        )
        return slope(x) * dy

    return gamma


@pytest.fixture
def cube():
    """A callback whose bwd is differentiable again."""

    @bellhop.pure_callback
    def cube(x) -> float:
        return float(x) ** 3

    @cube.fwd
    def _(x):
        return cube(x), x

    @cube.bwd
    def _(x, dy):
        return 3 * x**2 * dy

    return cube


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("derive", [bellhop.grad, jax.grad], ids=["bellhop.grad", "jax.grad"])
def test_gradient_is_that_of_the_function(gamma, form, derive):
    def f(x):
        return jnp.sin(gamma(x) * 0.1)

    expected = finite_difference(lambda x: math.sin(math.gamma(x) * 0.1), 3.3)
    np.testing.assert_allclose(form(derive(f))(3.3), expected, rtol=1e-7)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_value_is_untouched_by_a_derivative(gamma, form):
    assert form(gamma)(5.0) == 24.0


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_grad_of_grad(cube, form):
    f = form(jax.grad(jax.grad(lambda x: cube(x) * x)))
    np.testing.assert_allclose(f(1.5), 12 * 1.5**2, rtol=1e-12)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_hessian_by_reverse_over_reverse(cube, form):
    f = form(jax.jacrev(jax.jacrev(lambda v: cube(v[0]) * v[1])))
    np.testing.assert_allclose(f(jnp.array([2.0, 5.0])), [[60.0, 12.0], [12.0, 0.0]])


RESIDUALS = {
    "None": (lambda x: None, lambda r: 2.0),
    "tuple": (lambda x: (x, (x, None)), lambda r: r[0] / r[1][0] + 1.0),
    "dict": (lambda x: {"x": 2 * x / x}, lambda r: r["x"]),
    "vjp": (lambda x: jax.vjp(lambda v: 2 * v, x)[1], lambda r: r(jnp.ones(()))[0]),
}


@pytest.mark.parametrize(("save", "slope"), RESIDUALS.values(), ids=RESIDUALS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_residuals_of_any_structure(save, slope, form):
    double = bellhop.pure_callback(lambda x: 2 * float(x), float)
    double.fwd(lambda x: (double(x), save(x)))
    double.bwd(lambda r, dy: slope(r) * dy)

    np.testing.assert_allclose(form(jax.grad(lambda x: double(x) ** 2))(3.0), 24.0)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_vjp_of_a_jax_function_as_fwd(form):
    def reference(x, y):
        return jnp.sum(jnp.sin(x) * y)

    @bellhop.pure_callback
    def f(x, y) -> float:
        return np.sum(np.sin(x) * y)

    f.fwd(lambda x, y: jax.vjp(reference, x, y))
    f.bwd(lambda vjp, dy: vjp(dy))

    args = (jnp.arange(3.0), jnp.array([2.0, -1.0, 0.5]))
    observed = form(jax.grad(f, argnums=(0, 1)))(*args)
    expected = jax.grad(reference, argnums=(0, 1))(*args)
    for one, other in zip(observed, expected, strict=True):
        np.testing.assert_allclose(one, other)


def test_two_shapes_in_one_program():
    calls = []

    @bellhop.pure_callback(result_type=float)
    def total(x):
        calls.append(x.shape)
        return np.sum(x**2)

    @total.fwd
    def _(x):
        return total(x), x

    @total.bwd
    def _(x, dy):
        return 2 * x * dy

    @bellhop.qjit
    def f(x, y):
        return jax.grad(lambda x, y: total(x) * total(y), argnums=(0, 1))(x, y)

    x, y = np.arange(3.0), np.ones((2, 2)) * 3
    dx, dy = f(x, y)
    np.testing.assert_allclose(dx, 2 * x * np.sum(y**2))
    np.testing.assert_allclose(dy, 2 * y * np.sum(x**2))
    assert sorted(calls) == [(2, 2), (3,)]


def test_pytree_arguments_and_results():
    @bellhop.pure_callback(result_type={"s": float, "p": STRUCT((2,), float)})
    def f(tree, scale):
        return {"s": np.sum(tree["a"]) * scale, "p": tree["b"][0] * scale}

    @f.fwd
    def _(tree, scale):
        return f(tree, scale), (tree, scale)

    @f.bwd
    def _(saved, cotangent):
        tree, scale = saved
        ds, dp = cotangent["s"], cotangent["p"]
        return (
            {"a": jnp.full(3, ds * scale), "b": (dp * scale,)},
            ds * jnp.sum(tree["a"]) + jnp.sum(dp * tree["b"][0]),
        )

    def reference(tree, scale):
        return {"s": jnp.sum(tree["a"]) * scale, "p": tree["b"][0] * scale}

    def loss(f):
        return lambda tree, scale: f(tree, scale)["s"] ** 2 + jnp.sum(jnp.sin(f(tree, scale)["p"]))

    args = ({"a": jnp.arange(3.0), "b": (jnp.array([1.0, 2.0]),)}, 1.5)
    observed = bellhop.qjit(jax.grad(loss(f), argnums=(0, 1)))(*args)
    expected = jax.grad(loss(reference), argnums=(0, 1))(*args)
    assert jax.tree.structure(observed) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_allclose, observed, expected)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("cotangent_of_n", [None, 0.0, 7], ids=repr)
def test_integer_arguments_have_no_derivative(form, cotangent_of_n):
    @bellhop.pure_callback
    def power(x, n) -> float:
        return float(x) ** int(n)

    power.fwd(lambda x, n: (power(x, n), (x, n)))
    power.bwd(lambda r, dy: (r[1] * r[0] ** (r[1] - 1) * dy, cotangent_of_n))

    np.testing.assert_allclose(form(jax.grad(power))(2.0, 5), 80.0)


def test_integer_result_beside_a_float_one():
    @bellhop.pure_callback(result_type=(float, int))
    def f(x):
        return 3 * float(x), 7

    f.fwd(lambda x: (f(x), None))
    f.bwd(lambda _, cotangent: 3 * cotangent[0])

    assert bellhop.qjit(jax.grad(lambda x: f(x)[0] * f(x)[1]))(2.0) == 21.0


def test_single_argument_that_is_a_tuple():
    @bellhop.pure_callback
    def f(pair) -> float:
        return float(pair[0] * pair[1])

    f.fwd(lambda pair: (f(pair), pair))
    f.bwd(lambda pair, dy: (pair[1] * dy, pair[0] * dy))

    assert bellhop.qjit(jax.grad(f))((2.0, 5.0)) == (5.0, 2.0)


@pytest.mark.parametrize("wrap", [lambda c: c, lambda c: (c,)], ids=["bare", "tuple"])
def test_single_argument_that_is_a_tuple_of_one(wrap):
    @bellhop.pure_callback
    def f(single) -> float:
        return 4 * float(single[0])

    f.fwd(lambda single: (f(single), None))
    f.bwd(lambda _, dy: wrap((4 * dy,)))

    assert bellhop.qjit(jax.grad(f))((2.0,)) == (4.0,)


def test_missing_cotangent_is_zero():
    f = bellhop.pure_callback(lambda x, y: float(x + y), float)
    f.fwd(lambda x, y: (f(x, y), None))
    f.bwd(lambda _, dy: (dy, None))

    assert bellhop.qjit(jax.grad(f, argnums=(0, 1)))(1.0, 2.0) == (1.0, 0.0)


def test_bwd_may_use_callbacks_and_accelerated_regions():
    seen = []

    @bellhop.pure_callback
    def f(x) -> float:
        return np.sum(np.cos(x))

    @f.fwd
    def _(x):
        return f(x), x

    @f.bwd
    def _(x, dy):
        bellhop.debug.callback(lambda v: seen.append(float(v)))(dy)
        sine = bellhop.pure_callback(np.sin, STRUCT((2,), float))(x)
        return bellhop.accelerate(lambda s, dy: -s * dy)(sine, dy)

    gradient = bellhop.qjit(jax.grad(lambda x: 2 * f(x)))(jnp.array([0.3, 0.4]))
    np.testing.assert_allclose(gradient, -2 * np.sin([0.3, 0.4]))
    assert seen == [2.0]


@pytest.mark.parametrize("dev", ["cpu:0", "cpu:1"])
def test_bwd_on_another_device(dev):
    @bellhop.pure_callback
    def f(x) -> float:
        return np.sum(x**2)

    f.fwd(lambda x: (f(x), x))
    f.bwd(lambda x, dy: bellhop.accelerate(lambda x, dy: 2 * x * dy, dev=dev)(x, dy))

    np.testing.assert_allclose(bellhop.qjit(jax.grad(f))(jnp.array([1.0, 2.0])), [2.0, 4.0])


def test_symbolically_zero_cotangents_arrive_as_zeros():
    @bellhop.pure_callback(result_type=(float, float))
    def f(x):
        return float(x), 2 * float(x)

    f.fwd(lambda x: (f(x), None))
    f.bwd(lambda _, dy: dy[0] + 2 * dy[1])

    assert bellhop.qjit(jax.grad(lambda x: f(x)[0]))(1.0) == 1.0


def test_callback_is_called_once_for_value_and_gradient():
    calls = []

    @bellhop.pure_callback
    def f(x) -> float:
        calls.append(float(x))
        return 2 * float(x)

    f.fwd(lambda x: (f(x), None))
    f.bwd(lambda _, dy: 2 * dy)

    assert bellhop.qjit(jax.value_and_grad(f))(3.0) == (6.0, 2.0)
    assert calls == [3.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_dtypes(dtype):
    @bellhop.pure_callback(result_type=STRUCT((2,), dtype))
    def f(x):
        return x * dtype(3)

    f.fwd(lambda x: (f(x), None))
    f.bwd(lambda _, dy: 3 * dy)

    gradient = bellhop.qjit(jax.grad(lambda x: jnp.sum(f(x)).real))(jnp.ones(2, dtype))
    assert gradient.dtype == dtype
    np.testing.assert_array_equal(gradient, np.full(2, 3, dtype))


@pytest.mark.parametrize("form", [bellhop.qjit, jax.jit], ids=["qjit", "jit"])
def test_under_scan_vmap_and_checkpoint(cube, form):
    def f(xs):
        def step(total, x):
            return total + jax.checkpoint(lambda v: cube(v) * v)(x), cube(x)

        total, ys = jax.lax.scan(step, 0.0, xs)
        return total + jnp.sum(ys) + jnp.sum(jax.vmap(cube)(xs))

    xs = jnp.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(form(jax.grad(f))(xs), 4 * xs**3 + 6 * xs**2)
    np.testing.assert_allclose(form(jax.vmap(jax.grad(lambda x: cube(x))))(xs), 3 * xs**2)
