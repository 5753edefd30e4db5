"""Converted functions against the same functions, run by Python."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop


def branches(x, n):
    if x > 5:
        y = x**2
    elif x > 3 and n > 1:
        y = x + 1
    elif x > 2 or not n > 0:
        y = -x
    else:
        y = 0.5
    if n > 2:
        y = y * 3
    return y


def early_returns(x, n):
    if x > 5:
        return x**2
    z = x + n
    if z > 4:
        if n > 3:
            return -z
        return z
    return 0.25


def late_result(x, n):
    if x > 2:
        z = x
    else:
        return 1.0 * n
    return z * 2


def ranges(x, n):
    total = 0.0
    for i in range(n):
        total += x * i
    for i in range(1, 2 * n, 2):
        total += i
    for i in range(n, -1, -1):
        total -= x * i
    for i in range(4):
        last = i + x
        total += last
    return total, last


def arrays(x, n):
    total = 0.0
    for v in np.arange(3.0):
        total += v * x
    for row in jnp.ones((2, 3)) * x:
        total += row[1]
    for i, v in enumerate([1.0, 2.0, 3.0]):
        total += i * v
    for i, v in enumerate(jnp.arange(2.0), 5):
        total += i * v
    for a, b in ((1, 2), (3, 4)):
        total += a * b
    return total


def leaving_loops(x, n):
    for i in range(n):
        if i * x > 5:
            break
        if i == 1:
            continue
        x = x + 1
    for i in range(5):
        if x > 9:
            break
        x = x + i
    while x < 100:
        x = x * 2
        if x > 40:
            break
    return x


def returning_from_a_loop(x, n):
    for i in range(6):
        x = x + i
        if x > 5:
            return x * 10
    return -x


def nested(x, n):
    count = 0
    for i in range(n):
        j = 0
        while j < i:
            if (i + j) % 2 == 0:  # noqa: SIM108
                x = x + j
            else:
                x = x - 0.5 * i
            j += 1
            count = count + 1
    return x, count


def while_loops(x, n):
    i = 0
    while i < n and x < 50:
        x = x * 1.5
        i += 1
    return x, i


def expressions(x, n):
    y = x if x > 2 else -x
    return y, not x > 3, (x > 1) + (n if n > 1 else 7)


def elements(x, n):
    r = jnp.zeros(4) + x
    for i in range(4):
        r[i] = r[i] + i
        r[i] += 1
        r[i] -= 0.5
        r[i] *= 2
        r[i] /= 4
        r[i] **= 2
    r[1:3] += 1
    return r


def elements_reference(x, n):
    r = np.zeros(4) + x
    for i in range(4):
        r[i] = ((r[i] + i + 1 - 0.5) * 2 / 4) ** 2
    r[1:3] += 1
    return r


def helper(x, times=2):
    for _ in range(times):
        if x > 3:
            x = x - 2
    return x


class Scaled:
    def __init__(self, scale):
        self.scale = scale

    def method(self, x):
        if x > 1:
            return x * self.scale
        return x

    def __call__(self, x):
        if x > 2:
            return self.method(x) + 1
        return x


def calls(x, n):
    def inner(y):
        if y > 2:
            return y * n
        return y

    double = lambda y: y * 2 if y > 1 else y
    scaled = Scaled(3)
    total = helper(x) + inner(x) + double(x) + scaled.method(x) + scaled(x)
    return total + functools.partial(helper, times=3)(x) + max(1, 2) + sum([1, 2]) + len("abc")


def objects(x, n):
    words = []
    table = {"a": 1.0}
    for word in ["one", "two"]:
        words.append(word)
    for _, value in table.items():
        x = x + value * len(words)
    pair = (x, n)
    if x > 3:
        pair = (pair[0] + 1, pair[1])
    return pair, "".join(words) == "onetwo"


PROGRAMS = [
    branches,
    early_returns,
    late_result,
    ranges,
    arrays,
    leaving_loops,
    returning_from_a_loop,
    nested,
    while_loops,
    expressions,
    calls,
    objects,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_values_are_those_of_python(program):
    compiled = bellhop.qjit(program, autograph=True)
    for x in (0.5, 2.5, 3.5, 6.0):
        for n in (0, 1, 3, 4):
            actual, expected = compiled(x, n), program(x, n)
            assert jax.tree.structure(actual) == jax.tree.structure(expected)
            jax.tree.map(
                lambda a, e: np.testing.assert_allclose(a, e, rtol=1e-12), actual, expected
            )


def test_assignments_to_elements():
    compiled = bellhop.qjit(elements, autograph=True)
    np.testing.assert_allclose(compiled(2.0, 1), elements_reference(2.0, 1))


def test_loops_and_branches_are_compiled_as_such():
    f = bellhop.qjit(nested, autograph=True)
    f(1.0, 3)
    assert f.mlir.count("stablehlo.while") == 2
    assert f.mlir.count("stablehlo.case") + f.mlir.count("stablehlo.if") >= 1


@pytest.mark.parametrize("program", [branches, early_returns, arrays, returning_from_a_loop])
def test_derivatives(program):
    # A callback cannot be differentiated; the branch that is not taken is never run.
    compiled = bellhop.qjit(bellhop.grad(bellhop.run_autograph(program)))
    for x in (0.5, 2.5, 6.0):
        step = 1e-6
        expected = (program(x + step, 1) - program(x - step, 1)) / (2 * step)
        np.testing.assert_allclose(compiled(x, 1), expected, atol=1e-6)


@pytest.mark.parametrize("setting", [jax.jit, bellhop.qjit, lambda f: f])
def test_run_autograph_under(setting):
    converted = setting(bellhop.run_autograph(branches))
    assert converted(4.0, 2) == branches(4.0, 2)


def test_vmap_of_a_converted_function():
    x = np.array([0.5, 2.5, 4.0, 6.0])
    result = bellhop.qjit(bellhop.vmap(bellhop.run_autograph(early_returns), in_axes=(0, None)))(
        x, 1
    )
    np.testing.assert_allclose(result, [early_returns(v, 1) for v in x])


def test_what_is_wrapped_by_us_is_converted():
    def f(x):
        if x > 1:
            return x**2
        return x

    x = np.array([3.0, 0.5])
    for setting in (
        lambda g: bellhop.qjit(g, autograph=True),
        lambda g: bellhop.qjit(bellhop.run_autograph(g)),
    ):
        assert setting(bellhop.grad(f))(3.0) == 6.0
        np.testing.assert_array_equal(setting(bellhop.vmap(f))(x), [9.0, 0.5])
        np.testing.assert_array_equal(setting(lambda x: jax.vmap(f)(x))(x), [9.0, 0.5])


def test_a_vjp_of_a_function_with_control_flow():
    # Catalyst's issue 666.
    def f(x):
        if x > 1:
            return x**2
        return x

    @bellhop.qjit(autograph=True)
    def products(x):
        return bellhop.vjp(f, [x], [1.0]), bellhop.jvp(f, [x], [1.0]), bellhop.grad(f)(x)

    assert products(3.0) == ((9.0, 6.0), (9.0, 6.0), 6.0)
    assert products(0.5) == ((0.5, 1.0), (0.5, 1.0), 1.0)


def test_functions_of_callbacks_are_left_alone():
    def outside(x):
        return x * 2 if x > 1 else x

    seen = []

    @bellhop.qjit(autograph=True)
    def f(x):
        for _ in range(2):
            x = bellhop.pure_callback(outside, float)(x)
            bellhop.debug.callback(seen.append)(x)
        return x

    assert f(1.5) == 6.0
    assert seen == [3.0, 6.0]
    with pytest.raises(bellhop.AutoGraphError, match="was not converted"):
        bellhop.autograph_source(outside)


def test_arguments_of_inner_functions_hide_no_variable():
    """In a block they are no variables of it, be the name one outside of it or none before it."""

    def outside(x, n):
        def body(i):
            y = jnp.cos(x)
            if i < 1:
                y = jnp.sin(x)
            else:
                double = lambda x: 2 * x
                y = double(y)
            return y

        return body(n)

    def inside(x, n):
        double = lambda y: 2 * y
        if n < 1:
            y = jnp.sin(x)
        else:
            y = double(jnp.cos(x))
            y = y + 0
        return y

    for function in (outside, inside):
        compiled = bellhop.qjit(function, autograph=True)
        for n, expected in ((0, np.sin(0.3)), (1, 2 * np.cos(0.3))):
            np.testing.assert_allclose(compiled(0.3, n), expected)
