"""Loops and conditionals of classical programs, against Python's own."""

import doctest
import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop


def piecewise(x: Any) -> Any:
    return bellhop.cond(x > 1, lambda y: y**2, lambda y: -y, [(x > 0, lambda y: jnp.sin(y))])(x)


def piecewise_in_python(x: float) -> tuple[float, float]:
    return (x**2, 2 * x) if x > 1 else (np.sin(x), np.cos(x)) if x > 0 else (-x, -1.0)


@pytest.mark.parametrize("x", [1.5, 0.4, -0.7])
def test_value_and_derivatives_of_cond(x: float) -> None:
    value, derivative = piecewise_in_python(x)
    np.testing.assert_allclose(bellhop.qjit(piecewise)(x), value, atol=1e-12)
    for grad in (bellhop.grad, jax.grad, jax.jacfwd):
        np.testing.assert_allclose(bellhop.qjit(grad(piecewise))(x), derivative, atol=1e-12)
    # Without qjit the condition is known, and Python decides.
    np.testing.assert_allclose(piecewise(x), value, atol=1e-12)


def test_cond_under_vmap_and_in_a_scan() -> None:
    x = np.array([1.5, 0.4, -0.7])
    expected = [piecewise_in_python(y)[0] for y in x]
    np.testing.assert_allclose(bellhop.qjit(jax.vmap(piecewise))(x), expected, atol=1e-12)
    mapped = bellhop.qjit(lambda x: jax.lax.map(piecewise, x))
    np.testing.assert_allclose(mapped(x), expected, atol=1e-12)


def test_cond_as_a_decorator() -> None:
    @bellhop.qjit
    def sign(x: Any) -> Any:
        @bellhop.cond(x < 0)
        def value(scale: Any) -> Any:
            return -scale

        @value.else_if(x > 0)
        def _(scale: Any) -> Any:
            return scale

        @value.otherwise
        def _(scale: Any) -> Any:
            return 0

        return value(2.5)

    assert [float(sign(x)) for x in (-0.3, 0.3, 0.0)] == [-2.5, 2.5, 0.0]


def test_numbers_as_conditions() -> None:
    program = bellhop.qjit(lambda n: bellhop.cond(n, lambda: 1, lambda: 2)())
    assert [int(program(n)) for n in (0, 3, -1)] == [2, 1, 1]


PROMOTIONS: dict[str, tuple[Any, Any, Any]] = {
    "int and float": (lambda x: 1, lambda x: x, np.float64),
    "float32 and a Python float": (lambda x: jnp.float32(1), lambda x: 2.0, np.float32),
    "float and complex": (lambda x: x, lambda x: x * 1j, np.complex128),
    "bool and int": (lambda x: x > 0, lambda x: 2, np.int64),
}


@pytest.mark.parametrize("name", PROMOTIONS)
def test_branches_of_different_types(name: str) -> None:
    one, other, dtype = PROMOTIONS[name]
    program = bellhop.qjit(lambda x: bellhop.cond(x > 0, one, other)(x))
    for x in (0.5, -0.5):
        assert program(x).dtype == dtype
        np.testing.assert_allclose(program(x), (one if x > 0 else other)(x))


def test_only_the_branch_that_is_taken_runs() -> None:
    ran: list[str] = []

    def branch(name: str) -> Any:
        return lambda: bellhop.debug.callback(lambda: ran.append(name))()

    @bellhop.qjit
    def program(i: Any) -> None:
        chosen = bellhop.switch(i)(branch("default"))
        chosen.branch(3)(branch("three"))
        chosen.branch(-1)(branch("minus one"))
        chosen()
        bellhop.cond(i > 0, branch("positive"), branch("not positive"))()

    for i, expected in [(3, ["three", "positive"]), (-1, ["minus one", "not positive"])]:
        program(i)
        jax.effects_barrier()
        assert ran == expected
        ran.clear()


def test_functions_are_traced_once() -> None:
    traced: list[str] = []

    def note(name: str) -> Callable[[Any], Any]:
        return lambda y: (traced.append(name), y)[1]

    @bellhop.qjit
    def program(x: Any) -> Any:
        y = bellhop.cond(x > 0, note("true"), note("false"))(x)
        y = bellhop.for_loop(0, 3)(lambda i, y: note("for")(y))(y)
        return bellhop.while_loop(lambda y: y < 0)(note("while"))(y)

    program(0.3)
    assert traced == ["true", "false", "for", "while"]


def test_while_loop() -> None:
    @bellhop.qjit
    def collatz(n: Any) -> Any:
        def body(n: Any, steps: Any) -> Any:
            return bellhop.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1)(), steps + 1

        return bellhop.while_loop(lambda n, steps: n != 1)(body)(n, 0)[1]

    assert [int(collatz(n)) for n in (1, 6, 27)] == [0, 8, 111]


def test_forward_derivative_of_a_while_loop() -> None:
    program = bellhop.while_loop(lambda y: y < 10)(lambda y: y * y)
    np.testing.assert_allclose(bellhop.qjit(jax.jacfwd(program))(3.0), 4 * 3.0**3)


RANGES = [(0, 5, 1), (5, 0, -1), (7, -4, -3), (-3, 8, 4), (3, 3, 1), (2, 5, -1), (5, 2, 2)]


@pytest.mark.parametrize("bounds", RANGES)
@pytest.mark.parametrize("dtype", [None, np.int8, np.int32])
def test_for_loop_over_a_range(bounds: Any, dtype: Any) -> None:
    def program(*bounds: Any) -> Any:
        return bellhop.for_loop(*bounds)(lambda i, total, n: (10 * total + i, n + 1))(0, 0)

    total, count = 0, 0
    for i in range(*bounds):
        total, count = 10 * total + i, count + 1
    typed = bounds if dtype is None else tuple(map(dtype, bounds))
    assert tuple(map(int, bellhop.qjit(program)(*typed))) == (total, count)
    assert tuple(map(int, bellhop.qjit(lambda: program(*typed))())) == (total, count)


def test_for_loop_with_unsigned_and_large_bounds() -> None:
    program = bellhop.qjit(lambda a, b: bellhop.for_loop(a, b)(lambda i, n: n + 1)(0))
    assert int(program(np.uint32(5), np.uint32(2))) == 0
    assert int(program(np.int8(-100), np.int8(100))) == 200


@pytest.mark.parametrize("bounds", [(0, 2**63 - 1, 2**62), (2**62, -(2**63), -(2**62)), (5, 2, 3)])
def test_loops_over_ranges_whose_length_has_no_sign(bounds: tuple[int, int, int]) -> None:
    def by_for_loop(*bounds: Any) -> Any:
        return bellhop.for_loop(*bounds)(lambda i, y: (y[0] + 1, i))((0, 0))

    def by_python(*bounds: Any) -> Any:
        n = last = 0
        for i in range(*bounds):
            n += 1
            last = i
        return n, last

    program = bellhop.qjit(by_python, autograph=True)
    assert by_python(*bounds) == tuple(map(int, program(*bounds)))
    by_loop = bellhop.qjit(lambda *bounds: by_for_loop(*bounds))
    assert by_python(*bounds) == tuple(map(int, by_loop(*bounds)))


def test_for_loop_with_one_bound_and_with_a_computed_step_of_zero() -> None:
    assert int(bellhop.qjit(lambda n: bellhop.for_loop(n)(lambda i, y: y + i)(0))(4)) == 6
    assert int(bellhop.qjit(lambda s: bellhop.for_loop(0, 3, s)(lambda i, y: y + 1)(0))(0)) == 0


def test_for_loop_with_bounds_that_are_known_arrays_has_a_derivative() -> None:
    bound = jnp.int32(3)
    program = bellhop.grad(lambda x: bellhop.for_loop(0, bound)(lambda i, y: y * x)(x))
    np.testing.assert_allclose(bellhop.qjit(program)(2.0), 32.0)


def test_carried_values_are_promoted() -> None:
    halve = bellhop.qjit(lambda n: bellhop.for_loop(0, n)(lambda i, y: y / 2)(1))
    assert halve(3) == 0.125
    rotate = bellhop.qjit(
        lambda x: bellhop.for_loop(0, 3)(lambda i, y, z: (z, y * 1j))(x, np.float32(1))
    )
    y, z = rotate(np.float64(2))
    assert (y.dtype, z.dtype) == (np.complex128, np.complex128)
    np.testing.assert_allclose([y, z], [1j, -2])
    # A narrower result is carried in the first type.
    assert bellhop.qjit(lambda x: bellhop.for_loop(0, 2)(lambda i, y: 3)(x))(0.5).dtype == float
    doubled = bellhop.qjit(lambda n: bellhop.while_loop(lambda y: y < 1)(lambda y: y + 0.3)(n))
    np.testing.assert_allclose(doubled(0), 1.2)


def test_carried_pytrees() -> None:
    @bellhop.qjit
    def program(x: Any) -> Any:
        def body(i: Any, state: Any) -> Any:
            return {"a": state["b"] * x, "b": state["a"] + i}

        return bellhop.for_loop(0, 3)(body)({"a": jnp.zeros(2, int), "b": jnp.ones(2)})

    a, b = np.zeros(2), np.ones(2)
    for i in range(3):
        a, b = b * 2.0, a + i
    result = program(2.0)
    np.testing.assert_allclose(result["a"], a)
    np.testing.assert_allclose(result["b"], b)


ERRORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "missing otherwise": (
        lambda x: bellhop.cond(x > 0, lambda: x)(),
        "cond: the structures differ: the first branch '<lambda>' (HERE) has array, and the "
        "missing otherwise branch (false_fn) returns None",
    ),
    "other structure": (
        lambda x: bellhop.cond(x > 0, lambda: (x, x), lambda: {"a": x})(),
        "cond: the structures differ: the first branch '<lambda>' (HERE) has (array, array), and "
        "otherwise '<lambda>' (HERE) returns {'a': array}",
    ),
    "other shape": (
        lambda x: bellhop.cond(x > 0, lambda: x, lambda: jnp.ones(3))(),
        "cond: the shapes differ: the first branch '<lambda>' (HERE) has float64[], and otherwise "
        "'<lambda>' (HERE) returns float64[3]",
    ),
    "no scalar": (
        lambda x: bellhop.cond(jnp.stack([x, x]) > 0, lambda: x, lambda: x)(),
        "cond of '<lambda>' (HERE): a condition must be a scalar, got the shape (2,)",
    ),
    "no number": (
        lambda x: bellhop.cond("yes", lambda: x, lambda: x)(),
        "cond of '<lambda>' (HERE): a condition must be a bool or a number, got a str",
    ),
    "a string": (
        lambda x: bellhop.cond(x > 0, lambda: "yes", lambda: "no")(),
        "cond: the first branch '<lambda>' (HERE) returns a str, expected arrays and numbers",
    ),
    "no true_fn": (lambda x: bellhop.cond(x > 0, None, lambda: x), "without true_fn"),
    "float index": (lambda x: bellhop.switch(x)(lambda: x)(), "the index must be an integer"),
    "float bound": (
        lambda x: bellhop.for_loop(0, x)(lambda i: None)(),
        "for_loop: the upper bound must be an integer, got float64[]",
    ),
    "other shape carried": (
        lambda x: bellhop.for_loop(0, 3)(lambda i, y: jnp.ones(2) * y)(x),
        "for_loop of '<lambda>' (HERE): the shapes differ: the loop carries float64[], and the "
        "body returns float64[2]",
    ),
    "other structure carried": (
        lambda x: bellhop.while_loop(lambda y: y > 0)(lambda y: (y, y))(x),
        "while_loop of '<lambda>' (HERE): the structures differ: the loop carries array, and "
        "the body returns (array, array)",
    ),
    "other count carried": (
        lambda x: bellhop.while_loop(lambda y, z: y > 0)(lambda y, z: y)(x, x),
        "while_loop of '<lambda>' (HERE): the body must return the 2 carried values",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    program, message = ERRORS[name]
    with pytest.raises(TypeError) as caught:
        bellhop.qjit(program)(0.5)
    here = re.compile(re.escape(f"({__file__}:") + r"\d+\)")
    assert message in here.sub("(HERE)", str(caught.value))


def test_two_branches_of_one_case() -> None:
    choice = bellhop.switch(3)(lambda: 0)
    choice.branch(1)(lambda: 1)
    with pytest.raises(ValueError, match="two branches for the case 1"):
        choice.branch(1)


@pytest.mark.parametrize("loop", [lambda **o: bellhop.for_loop(3, **o), bellhop.while_loop])
def test_arrays_that_change_their_shape(loop: Any) -> None:
    arguments = () if loop is not bellhop.while_loop else (lambda: False,)
    with pytest.raises(NotImplementedError, match="fixed shapes"):
        loop(*arguments, allow_array_resizing=True)


@pytest.mark.subprocess
def test_control_flow_does_not_import_pennylane() -> None:
    script = (
        "import sys, bellhop\n"
        "f = bellhop.qjit(lambda x: bellhop.cond(x > 0, lambda: x, lambda: -x)())\n"
        "assert f(-1.0) == 1.0 and 'pennylane' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_results_are_not_weakly_typed() -> None:
    power = bellhop.qjit(lambda x: bellhop.for_loop(0, 3)(lambda i, y: y * x)(1.0))
    absolute = bellhop.qjit(lambda x: bellhop.cond(x < 0, lambda: -x, lambda: x)())
    assert not power(2.0).weak_type
    assert not absolute(2.0).weak_type


def test_random_keys_are_carried_and_returned() -> None:
    def program(x: Any) -> Any:
        key = bellhop.for_loop(0, 3)(lambda i, key: jax.random.fold_in(key, i))(jax.random.key(1))
        key = bellhop.cond(x > 0, lambda: jax.random.fold_in(key, 7), lambda: key)()
        return jax.random.uniform(key)

    key = jax.random.key(1)
    for i in (0, 1, 2, 7):
        key = jax.random.fold_in(key, i)
    np.testing.assert_allclose(bellhop.qjit(program)(0.3), jax.random.uniform(key))


@pytest.mark.parametrize("module", ["cond", "for_loop", "switch", "while_loop"])
def test_examples_of_the_documentation(module: str) -> None:
    results = doctest.testmod(importlib.import_module(f"bellhop.control_flow.{module}"))
    assert results.attempted
    assert not results.failed


def test_linearize_does_not_repeat_the_effects_of_loops_of_computed_length():
    """Outside of programs too; there JAX repeats its own."""

    def counted(report, while_loop):
        seen = []

        def f(x, n):
            def body(carried):
                report(seen.append, carried[1])
                return carried[0] + 1, jnp.sin(carried[1])

            return while_loop(lambda carried: carried[0] < n, body, (0, x))[1]

        jax.block_until_ready(jax.linearize(lambda x: f(x, 3), 0.3)[1](1.0))
        jax.effects_barrier()
        return len(seen)

    def ours(condition, body, carried):
        loop = bellhop.while_loop(lambda *carried: condition(carried))
        return loop(lambda *carried: body(carried))(*carried)

    assert counted(lambda f, x: bellhop.debug.callback(f)(x), ours) == 3
    assert counted(jax.debug.callback, jax.lax.while_loop) == 6
