"""The kernels of a program, by whichever of XLA's code generators they are made."""

import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.patience import run_at_once

import bellhop
from bellhop.settings.code_generation import HAS_BOTH, repeats_kernels

X = np.linspace(0.1, 0.9, 24).reshape(4, 6)

KERNELS = {
    "elementwise": (lambda x: jnp.sin(x) * jnp.exp(-x * x), lambda x: np.sin(x) * np.exp(-x * x)),
    "power": (lambda x: x**1.7, lambda x: x**1.7),
    "reduction": (lambda x: x.sum(1) + x.max(), lambda x: x.sum(1) + x.max()),
    "argmax": (lambda x: jnp.argmax(x % 0.3, 1), lambda x: np.argmax(x % 0.3, 1)),
    "transpose": (lambda x: x.T * 2, lambda x: x.T * 2),
    "product": (lambda x: x @ x.T, lambda x: x @ x.T),
    "gather": (lambda x: x[jnp.array([3, 0])] + 1, lambda x: x[[3, 0]] + 1),
    "scatter": (
        lambda x: x.at[jnp.array([1, 1, 2])].add(1.0),
        lambda x: x + np.array([0.0, 2.0, 1.0, 0.0])[:, None],
    ),
    "cumulative sum": (lambda x: jnp.cumsum(x, 0), lambda x: np.cumsum(x, 0)),
    "sort": (lambda x: jnp.sort(-x, 1), lambda x: np.sort(-x, 1)),
    "concatenation": (
        lambda x: jnp.concatenate([x, x * 2], 1),
        lambda x: np.concatenate([x, x * 2], 1),
    ),
    "integers": (
        lambda x: (x * 100).astype(jnp.int32) // 7,
        lambda x: (x * 100).astype(np.int32) // 7,
    ),
    "choice": (lambda x: jnp.where(x > 0.5, x, 1 / x), lambda x: np.where(x > 0.5, x, 1 / x)),
    "no elements": (lambda x: jnp.tanh(x[:0]).sum(0), lambda x: np.zeros(6, x.dtype)),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_are_those_of_numpy(name, dtype):
    ours, theirs = KERNELS[name]
    x = X.astype(dtype)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    result = bellhop.qjit(ours)(x)
    np.testing.assert_allclose(result, theirs(x), rtol=tolerance, atol=tolerance)
    assert result.dtype == jax.jit(ours)(x).dtype


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, np.complex64, np.complex128])
def test_values_are_those_of_jax(dtype):
    def function(x):
        return (x * x + x).sum(0), jnp.concatenate([x, -x])

    x = jnp.asarray(X, dtype)
    for ours, theirs in zip(bellhop.qjit(function)(x), jax.jit(function)(x), strict=True):
        assert ours.dtype == theirs.dtype
        ours, theirs = (np.asarray(each, np.complex128) for each in (ours, theirs))
        np.testing.assert_allclose(ours, theirs, rtol=2 * float(jnp.finfo(dtype).eps))


def test_program_within_a_program_of_jax():
    function = bellhop.qjit(lambda x: jnp.sin(x) * 2)
    x = jnp.asarray(X)
    expected = 2 * np.sin(X)
    np.testing.assert_allclose(jax.jit(lambda x: function(x) + 1)(x), expected + 1)
    np.testing.assert_allclose(jax.jit(jax.vmap(function))(x), expected)
    np.testing.assert_allclose(bellhop.qjit(lambda x: function(x) + 1)(x), expected + 1)


def repeating(count, calls=None):
    """Return a function that adds a number to the result of each of so many callbacks."""
    sine = bellhop.pure_callback(np.sin, float)

    def function(x):
        if calls is not None:
            calls.append(x.shape)
        for i in range(count):
            x = sine(x) + i
        return x

    return function


def repeated(x, count):
    for i in range(count):
        x = np.sin(x) + i
    return x


# make test has JAX's own programs compiled by the older generator (tests/conftest.py).
IS_DEFAULT_NEWER = "xla_cpu_use_fusion_emitters=false" not in os.environ.get("XLA_FLAGS", "")


def is_by_newer_generator(compiled):
    # It makes a fusion of every single operation.
    return "wrapped_add" in compiled.as_text()


def test_equal_kernels_between_callbacks_are_compiled_once():
    calls = []
    f = bellhop.qjit(repeating(30, calls))
    for x in (0.5, 0.25):
        np.testing.assert_allclose(f(x), repeated(x, 30), rtol=1e-14)
    assert len(calls) == 1
    assert is_by_newer_generator(f.compiled_function) is IS_DEFAULT_NEWER
    assert not f._program().code.uses_older_generator
    few = bellhop.qjit(repeating(3))
    np.testing.assert_allclose(few(0.5), repeated(0.5, 3), rtol=1e-14)
    assert is_by_newer_generator(few.compiled_function) is not HAS_BOTH
    assert few._program().code.uses_older_generator is HAS_BOTH


def test_function_whose_later_program_repeats_kernels():
    @functools.partial(bellhop.qjit, static_argnums=1)
    def f(x, count):
        return repeating(count)(x)

    for count in (2, 40, 2, 3):
        np.testing.assert_allclose(f(0.5, count), repeated(0.5, count), rtol=1e-14)


@pytest.mark.parametrize("form", ["lower", "declared", "load"])
def test_equal_kernels_compiled_before_a_call(form, tmp_path):
    if form == "lower":
        compiled = bellhop.qjit(repeating(30)).lower(0.5).compile()
        f = compiled
    else:
        function = repeating(30)
        function.__annotations__ = {"x": float}
        f = bellhop.qjit(function)
        if form == "load":
            f.save(tmp_path / "f")
            f = bellhop.load(tmp_path / "f", {"numpy:sin": np.sin})
            f(0.25)
        compiled = f.compiled_function
    assert is_by_newer_generator(compiled) is IS_DEFAULT_NEWER
    np.testing.assert_allclose(f(0.5), repeated(0.5, 30), rtol=1e-14)


def test_first_calls_of_equal_kernels_in_threads_that_wait_for_one_another():
    results = []

    def call(x):
        # The first run is not over yet.
        if x == 0.5:
            run_at_once(lambda: results.append(float(f(0.25))))
        return x

    first = bellhop.pure_callback(call, float)
    rest = repeating(30)
    f = bellhop.qjit(lambda x: rest(first(x)))
    run_at_once(*[lambda: results.append(float(f(0.5)))] * 4)
    expected = [repeated(0.25, 30)] * 4 + [repeated(0.5, 30)] * 4
    np.testing.assert_allclose(sorted(results), sorted(expected), rtol=1e-14)


@pytest.mark.parametrize(
    ("line", "repeats"),
    [
        # Constants are operands of a single operation on scalars, and else parts of the kernel.
        ("%v{i} = stablehlo.add %r{i}, %cst{i} : tensor<f64>", True),
        ("%v{i} = stablehlo.add %r{i}, %cst{i} : tensor<3xf64>", False),
        ("%v{i} = stablehlo.add %r{i}, %r{i} : tensor<3xf64>", True),
        ("%u{i} = stablehlo.sine %r{i} : tensor<f64>\n"
         "%v{i} = stablehlo.add %u{i}, %cst{i} : tensor<f64>", False),
        ("%u{i} = stablehlo.sine %r{i} : tensor<f64>\n"
         "%v{i} = stablehlo.add %u{i}, %r{i} : tensor<f64>", True),
        ("%v{i} = stablehlo.custom_call @other(%r{i}) : tensor<f64>", False),
    ],
)  # fmt: skip
def test_what_counts_as_an_equal_kernel(line, repeats):
    lines = ["func.func public @main(%v0: tensor<f64>) -> tensor<f64> {"]
    for i in range(1, 30):
        lines += [
            f"%cst{i} = stablehlo.constant dense<{i}.0> : tensor<f64>",
            f"%r{i} = stablehlo.custom_call @bellhop_callback(%v{i - 1}) : tensor<f64>",
            line.format(i=i),
        ]
    module = "\n".join([*lines, "return %v29 : tensor<f64>", "}"])
    assert repeats_kernels(module) is repeats


def elementwise(x, count):
    for _ in range(count):
        x = jnp.sin(x)
    return x


@pytest.mark.parametrize(
    ("size", "loops", "is_newer"), [(256, 1, False), (300, 1, True), (64, 3, True)]
)
def test_generator_by_the_size_of_arrays(size, loops, is_newer):
    identity = bellhop.pure_callback(lambda x: x, jax.ShapeDtypeStruct((size,), float))

    def loop(x):
        return jax.lax.fori_loop(0, loops, lambda i, x: identity(x) + 1, x)

    f = bellhop.qjit(loop if loops > 1 else lambda x: identity(x) + 1)
    x = np.linspace(0.0, 1.0, size)
    np.testing.assert_allclose(f(x), x + loops)
    assert f._program().code.uses_older_generator is (HAS_BOTH and not is_newer)


def test_program_without_calls_is_compiled_as_by_jax():
    f = bellhop.qjit(lambda x: x + 1)
    f(0.5)
    assert is_by_newer_generator(f.compiled_function) is IS_DEFAULT_NEWER


PLACES = {
    "program": lambda x, call: elementwise(x, 10_000),
    "after a callback": lambda x, call: elementwise(call(x), 10_000),
    "loop": lambda x, call: jax.lax.fori_loop(0, 2, lambda i, x: elementwise(call(x), 10_000), x),
    "region": lambda x, call: bellhop.accelerate(lambda x: elementwise(x, 10_000), dev="cpu")(x),
}


@pytest.mark.large
@pytest.mark.parametrize("place", PLACES)
def test_thousands_of_operations_in_a_row(place):
    call = bellhop.pure_callback(lambda x: x, jax.ShapeDtypeStruct((4,), float))
    x = np.arange(4.0)
    expected = x
    for _ in range(20_000 if place == "loop" else 10_000):
        expected = np.sin(expected)
    result = bellhop.qjit(lambda x: PLACES[place](x, call))(x)
    np.testing.assert_allclose(result, expected, rtol=1e-10)
