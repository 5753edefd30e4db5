"""Callbacks under JAX's transformations and control flow, against plain Python."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

LAX = jax.lax


@pytest.fixture
def counted():
    """A pure callback that doubles, and the list of what it was called with."""
    calls = []

    def double(x):
        calls.append(np.array(x))
        return 2 * x

    return bellhop.pure_callback(double, float), calls


def test_vmap_calls_once_for_each_element(form, counted):
    double, calls = counted
    xs = jnp.arange(5.0)
    np.testing.assert_array_equal(form(jax.vmap(double))(xs), 2 * xs)
    assert [float(call) for call in calls] == [0, 1, 2, 3, 4]


def test_vmap_of_vmap_calls_in_order_of_the_elements(form, counted):
    double, calls = counted
    xs = jnp.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(form(jax.vmap(jax.vmap(jax.vmap(double))))(xs), 2 * xs)
    assert [float(call) for call in calls] == list(range(24))


def test_vmap_of_vmap_over_different_arguments(form):
    calls = []

    def call(x, y):
        calls.append((float(x), float(y)))
        return x - y

    minus = bellhop.pure_callback(call, float)
    table = form(jax.vmap(jax.vmap(minus, in_axes=(None, 0)), in_axes=(0, None)))
    xs, ys = np.arange(2.0), np.arange(3.0)
    np.testing.assert_array_equal(table(xs, ys), xs[:, None] - ys)
    assert calls == [(x, y) for x in xs for y in ys]


@pytest.mark.parametrize("in_axes", [(0, None), (None, 0), (1, 0), (-1, None)])
def test_vmap_over_any_axes(form, in_axes):
    outer = bellhop.pure_callback(
        lambda x, y: x - np.sum(y), jax.ShapeDtypeStruct((2,), np.float64)
    )
    reference = lambda x, y: x - jnp.sum(y)
    shapes = {(0, None): ((3, 2), (3,)), (None, 0): ((2,), (3, 4)), (1, 0): ((2, 3), (3,))}
    shapes[-1, None] = ((2, 3), (4,))
    args = [jnp.arange(float(np.prod(shape))).reshape(shape) for shape in shapes[in_axes]]
    observed = form(jax.vmap(outer, in_axes=in_axes))(*args)
    np.testing.assert_array_equal(observed, jax.vmap(reference, in_axes=in_axes)(*args))


def test_vmap_of_nothing(form, counted):
    double, calls = counted
    assert form(jax.vmap(double))(jnp.zeros(0)).shape == (0,)
    assert calls == []


def test_vmap_without_mapped_arguments_calls_once(form, counted):
    double, calls = counted
    result = form(lambda xs: jax.vmap(lambda x: x + double(3.0))(xs))(jnp.arange(4.0))
    np.testing.assert_array_equal(result, jnp.arange(4.0) + 6)
    assert len(calls) == 1


def test_scan(form, counted):
    double, calls = counted

    def step(carry, x):
        return double(carry) + x, double(x)

    last, ys = form(lambda xs: LAX.scan(step, 1.0, xs))(jnp.arange(4.0))
    carry = 1.0
    for x in range(4):
        carry = 2 * carry + x
    assert last == carry
    np.testing.assert_array_equal(ys, 2 * jnp.arange(4.0))
    assert len(calls) == 8


def test_while_with_callbacks_in_body_and_condition(form):
    conditions, bodies = [], []

    def below(x):
        conditions.append(float(x))
        return bool(x < 20)

    def grow(x):
        bodies.append(float(x))
        return 3 * x

    f = form(
        lambda x: LAX.while_loop(
            bellhop.pure_callback(below, bool), bellhop.pure_callback(grow, float), x
        )
    )
    assert f(1.0) == 27.0
    assert conditions == [1, 3, 9, 27]
    assert bodies == [1, 3, 9]


def test_fori_loop_with_traced_bounds(form, counted):
    double, calls = counted
    f = form(lambda n, x: LAX.fori_loop(0, n, lambda _, x: double(x), x))
    assert f(5, 1.0) == 32.0
    assert f(0, 1.0) == 1.0
    assert len(calls) == 5


@pytest.mark.parametrize("flag", [True, False])
def test_cond_calls_the_branch_that_is_taken(form, flag):
    calls = []

    def named(name, factor):
        def function(x):
            calls.append(name)
            return factor * x

        return bellhop.pure_callback(function, float)

    f = form(lambda p, x: LAX.cond(p, named("yes", 2), named("no", 3), x))
    assert f(flag, 5.0) == (10.0 if flag else 15.0)
    assert calls == ["yes" if flag else "no"]


def test_switch(form):
    branches = [
        bellhop.pure_callback(functools.partial(lambda i, x: x**i, i), float) for i in range(4)
    ]
    f = form(lambda i, x: LAX.switch(i, branches, x))
    assert [float(f(i, 3.0)) for i in range(4)] == [1.0, 3.0, 9.0, 27.0]


def test_cond_under_vmap_is_right(form):
    double = bellhop.pure_callback(lambda x: 2 * x, float)
    triple = bellhop.pure_callback(lambda x: 3 * x, float)
    f = form(jax.vmap(lambda x: LAX.cond(x > 2, double, triple, x)))
    xs = np.arange(5.0)
    np.testing.assert_array_equal(f(xs), np.where(xs > 2, 2 * xs, 3 * xs))


def test_jvp_without_differentiated_inputs(form, counted):
    double, _ = counted

    def f(x):
        return jax.jvp(lambda a: a * double(3.0), (x,), (1.0,))

    assert form(f)(5.0) == (30.0, 6.0)


def test_integer_and_boolean_callbacks_are_constants_to_derivatives(form):
    count = bellhop.pure_callback(lambda x: int(x // 1), int)
    f = form(jax.grad(lambda x: x * count(x)))
    assert f(3.5) == 3.0


def test_checkpoint(form):
    square = bellhop.pure_callback(lambda x: float(x) ** 2, float)
    square.fwd(lambda x: (square(x), x))
    square.bwd(lambda x, dy: 2 * x * dy)
    f = form(jax.grad(jax.checkpoint(lambda x: square(jnp.sin(x)))))
    np.testing.assert_allclose(f(0.7), 2 * np.sin(0.7) * np.cos(0.7), rtol=1e-12)


def test_forward_over_reverse_with_callback_in_residuals_only(form):
    @bellhop.pure_callback
    def square(x) -> float:
        return float(x) ** 2

    square.fwd(lambda x: (square(x), x))
    square.bwd(lambda x, dy: 2 * x * dy)
    np.testing.assert_allclose(form(jax.jacrev(jax.grad(lambda x: x * square(x))))(3.0), 18.0)


def test_nested_jit_is_called_with_each_value(form, counted):
    double, calls = counted
    inner = jax.jit(double)
    assert form(lambda x: inner(x) + inner(x + 1))(1.0) == 6.0
    assert sorted(float(call) for call in calls) == [1.0, 2.0]


def test_equal_calls_are_merged_and_unused_ones_dropped(counted):
    double, calls = counted

    @bellhop.qjit
    def f(x):
        double(x + 1)
        return double(x) + double(x)

    assert f(3.0) == 12.0
    assert [float(call) for call in calls] == [3.0]


def test_different_closures_of_one_function_stay_apart(form):
    def make(factor):
        return bellhop.pure_callback(lambda x: factor * x, float)

    f = form(lambda x: [make(i)(x) for i in range(4)])
    assert f(2.0) == [0.0, 2.0, 4.0, 6.0]


def test_default_device_and_integer_inputs(form):
    total = bellhop.pure_callback(lambda x, n: float(x.sum() * n), float)
    assert form(lambda x, n: total(x, n))(np.arange(3), 2) == 6.0


def test_linear_solver_with_callback_matrix_product(form):
    matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
    product = bellhop.pure_callback(lambda v: matrix @ v, jax.ShapeDtypeStruct((2,), np.float64))
    b = jnp.array([1.0, 2.0])
    x, _ = form(lambda b: jax.scipy.sparse.linalg.cg(product, b))(b)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=1e-6)


def test_64_bit_types_off(run_script):
    out = run_script(
        """
        import jax, numpy as np, bellhop
        f = bellhop.pure_callback(lambda x: np.sum(x, dtype=np.float64), float)
        g = bellhop.pure_callback(lambda x: x.astype(np.int64).sum(), int)
        h = bellhop.qjit(lambda x: (f(x), g(x), 2 * x))
        print(*(leaf.dtype for leaf in h(np.arange(3.0))), *h(np.arange(3.0))[:2])
        """,
        BELLHOP_X64="0",
    )
    assert out.split() == ["float32", "int32", "float32", "3.0", "3"]
