"""grad and its relatives where a loop's length is computed in the program, and of containers."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.control_flow import while_loop_vjp


def power_by_for(x, n):
    return bellhop.for_loop(0, n, 1)(lambda i, y: y * x)(jnp.ones_like(x))


def power_by_while(x, n):
    return bellhop.while_loop(lambda i, _: i < n)(lambda i, y: (i + 1, y * x))(0, jnp.ones_like(x))[
        1
    ]


@pytest.mark.parametrize("setting", [bellhop.qjit, lambda f: f])
@pytest.mark.parametrize("power", [power_by_for, power_by_while])
def test_loops_of_unknown_length(power, setting):
    assert setting(bellhop.grad(power))(2.0, 3) == 12
    value, slope = setting(bellhop.value_and_grad(power))(2.0, 4)
    assert (value, slope) == (16, 32)
    rows = setting(bellhop.jacobian(lambda x, n: power(x, n), argnums=[0]))
    x = jnp.array([1.0, 2.0])
    np.testing.assert_allclose(rows(x, 3)[0], np.diag([3.0, 12.0]))


def test_circuits_in_loops_of_unknown_length():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def cosine(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    @bellhop.qjit
    @bellhop.grad
    def f(x, n):
        return bellhop.for_loop(0, n, 1)(lambda i, y: cosine(y))(x)

    np.testing.assert_allclose(f(0.3, 2), np.sin(np.cos(0.3)) * np.sin(0.3), atol=1e-9)


def iterated(x, n):
    """Iterations that depend on one another, on what is captured and on their number."""

    def body(i, y, z):
        return jnp.sin(y * x[i % 3]) + z, 1.1 * z + x[0]

    return body, bellhop.for_loop(0, n, 1)(body)(x[1], x[2])[0]


def iterated_by_scan(x, n):
    body, _ = iterated(x, 0)
    step = lambda state, i: (body(i, *state), None)
    return jax.lax.scan(step, (x[1], x[2]), jnp.arange(n))[0][0]


slope_by_scan = jax.jit(jax.grad(iterated_by_scan), static_argnums=1)

X = jnp.array([0.1, 0.2, 0.3])


@pytest.mark.large
def test_any_number_of_iterations():
    """Those that fit in checkpoints, and those that do not."""
    slope = bellhop.qjit(bellhop.grad(lambda x, n: iterated(x, n)[1]))
    for n in (0, 1, 2, 7, 1023, 1024, 1025, 1500, 5000):
        expected = slope_by_scan(X, n)
        np.testing.assert_allclose(slope(X, n), expected, rtol=1e-9)


@pytest.mark.large
def test_few_checkpoints(monkeypatch):
    """Of more iterations than checkpoints, each is computed again more than once."""
    monkeypatch.setattr(while_loop_vjp, "_MOST", 5)
    slope = bellhop.qjit(bellhop.grad(lambda x, n: iterated(x, n)[1]))
    for n in (1, 4, 5, 6, 7, 30, 100):
        expected = slope_by_scan(X, n)
        np.testing.assert_allclose(slope(X, n), expected, rtol=1e-9)


def test_loops_in_one_another():
    def nested(x, n):
        def outer(i, y):
            condition = lambda j, _: j < n + i
            inner = lambda j, y: (j + 1, jnp.sin(y * x[1]) + x[0])
            return bellhop.while_loop(condition)(inner)(0, y)[1] * x[2] + 1

        return bellhop.for_loop(0, n, 1)(outer)(x[0])

    def unrolled(x, n):
        y = x[0]
        for i in range(n):
            for _ in range(n + i):
                y = jnp.sin(y * x[1]) + x[0]
            y = y * x[2] + 1
        return y

    slope = bellhop.qjit(bellhop.grad(nested))
    expected = jax.jit(jax.grad(unrolled), static_argnums=1)
    np.testing.assert_allclose(slope(X, 3), expected(X, 3), rtol=1e-9)


@pytest.mark.large
def test_batches_of_loops():
    """Loops of several lengths in one: each stands still when it has ended."""
    of_one = lambda x, n: iterated(x, n)[1]
    of_all = lambda x, lengths: jnp.sum(jax.vmap(of_one, (None, 0))(x, lengths))
    expected = sum(slope_by_scan(X, n) for n in (0, 3, 5))
    slope = bellhop.qjit(bellhop.grad(of_all))(X, jnp.array([0, 3, 5]))
    np.testing.assert_allclose(slope, expected, rtol=1e-9)
    rows = bellhop.qjit(bellhop.vmap(bellhop.grad(of_one)))(
        jnp.stack([X, 2 * X]), jnp.array([4, 9])
    )
    for row, x, n in zip(rows, (X, 2 * X), (4, 9), strict=True):
        np.testing.assert_allclose(row, slope_by_scan(x, n), rtol=1e-9)


@pytest.mark.hessian
def test_second_derivatives():
    once = bellhop.grad(lambda x, n: iterated(x, n)[1])
    hessian = bellhop.qjit(bellhop.jacobian(once))
    expected = jax.jit(jax.hessian(iterated_by_scan), static_argnums=1)
    np.testing.assert_allclose(hessian(X, 6), expected(X, 6), rtol=1e-8)


def test_complex_values():
    def cost(z, n):
        return jnp.abs(bellhop.for_loop(0, n, 1)(lambda i, w: w * z + 1)(z)) ** 2

    def unrolled(z):
        return jnp.abs(((z * z + 1) * z + 1) * z + 1) ** 2

    z = 0.3 + 0.4j
    slope = bellhop.qjit(bellhop.grad(cost))(z, 3)
    np.testing.assert_allclose(slope, jax.jit(jax.grad(unrolled))(z), rtol=1e-12)


def test_vjp():
    f = bellhop.qjit(lambda x, n: bellhop.vjp(lambda y: power_by_while(y, n), [x], [2.0]))
    assert f(2.0, 3) == (8, 24)


def test_callbacks_with_a_rule_for_the_way_back():
    @bellhop.pure_callback
    def sine(x) -> float:
        return np.sin(x)

    sine.fwd(lambda x: (sine(x), x))
    sine.bwd(lambda x, dy: dy * jnp.cos(x))
    after = bellhop.qjit(bellhop.grad(lambda x, n: sine(power_by_for(x, n))))
    np.testing.assert_allclose(after(0.5, 3), np.cos(0.125) * 0.75, rtol=1e-12)
    fd = bellhop.qjit(bellhop.grad(lambda x, n: sine(power_by_for(x, n)), method="fd"))
    np.testing.assert_allclose(fd(0.5, 3), np.cos(0.125) * 0.75, atol=1e-5)
    inside = bellhop.qjit(
        bellhop.grad(lambda x, n: bellhop.for_loop(0, n, 1)(lambda i, y: sine(y))(x))
    )
    np.testing.assert_allclose(inside(0.5, 2), np.cos(np.sin(0.5)) * np.cos(0.5), rtol=1e-12)


def test_side_effects(capfd):
    def beside(x, n):
        bellhop.debug.print("{}", x)
        return power_by_for(x, n)

    assert bellhop.qjit(bellhop.grad(beside))(2.0, 3) == 12
    assert capfd.readouterr().out == "2.0\n"

    def inside(x, n):
        def body(i, y):
            bellhop.debug.print("{}", y)
            return y * x

        return bellhop.for_loop(0, n, 1)(body)(x)

    assert bellhop.qjit(bellhop.grad(inside))(2.0, 3) == 32
    assert capfd.readouterr().out == "2.0\n4.0\n8.0\n"


def test_results_of_side_effects_are_not_asked_for_again():
    def drawn(x, n):
        draw = bellhop.io_callback(lambda: np.random.default_rng(0).random(), float)
        return bellhop.for_loop(0, n, 1)(lambda i, y: y * draw())(x)

    match = r"grad of 'drawn' \(.*would repeat calls with side effects whose results the"
    with pytest.raises(bellhop.DifferentiableCompileError, match=match):
        bellhop.qjit(bellhop.grad(drawn))(2.0, 3)


def test_plain_jax_keeps_its_own_error():
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        bellhop.qjit(jax.grad(power_by_for))(2.0, 3)


@pytest.mark.parametrize("method", [None, "fd"])
def test_one_scalar_in_a_container(method):
    def f(x, y):
        return {"a": [x * y]}

    def close(result, expected):
        np.testing.assert_allclose(result, expected, atol=1e-5)

    close(bellhop.qjit(bellhop.grad(f, method=method))(2.0, 3.0)["a"][0], 3)
    both = bellhop.qjit(bellhop.grad(f, method=method, argnums=(0, 1)))(2.0, 3.0)
    close(both["a"][0], (3, 2))
    value, slope = bellhop.qjit(bellhop.value_and_grad(f, method=method))(2.0, 3.0)
    close(value["a"][0], 6)
    close(slope["a"][0], 3)


def test_a_loop_with_an_effect_whose_result_is_not_used():
    """Its effect keeps it, and nothing depends on what it reads of a scan."""
    seen = []

    def f(x, n):
        last, all_ = jax.lax.scan(lambda c, _: (jnp.sin(c), c), x, jnp.ones(3))

        def body(i, carried):
            note = lambda: (bellhop.debug.callback(seen.append)(i), all_)[1]
            bellhop.cond(i < 2, note, lambda: jnp.sin(all_))()
            return i + 1, carried

        bellhop.while_loop(lambda i, _: i < 2)(body)(n, last)
        return last

    slope = bellhop.qjit(bellhop.grad(f))(1.1, 0)
    a, b = np.sin(1.1), np.sin(np.sin(1.1))
    np.testing.assert_allclose(slope, np.cos(1.1) * np.cos(a) * np.cos(b), atol=1e-12)
    assert len(seen) == 2


@pytest.mark.parametrize(
    "differentiated",
    [
        bellhop.grad,
        jax.grad,
        lambda f: lambda x: jax.linearize(f, x)[1](1.0),
        lambda f: lambda x: jax.jvp(f, (x,), (1.0,))[1],
    ],
    ids=["grad", "jax.grad", "linearize", "jvp"],
)
def test_effects_of_a_loop_happen_once_in_its_derivative(differentiated):
    """JAX computes such a loop again with the tangents, where these are used or an effect is."""
    seen = []

    def f(x):
        def body(carried):
            i, y = carried
            bellhop.callback(seen.append)(i)
            bellhop.io_callback(lambda i: seen.append(i + 10))(i)
            if compiled is bellhop.qjit:
                # In a program of ours, JAX's are as well.
                jax.debug.callback(lambda i: seen.append(i + 20), i, ordered=True)
            return i + 1, jnp.sin(y)

        i, _ = jax.lax.while_loop(lambda carried: carried[0] < 2, body, (0, x))
        return x * x * i

    compiled = bellhop.qjit
    assert bellhop.qjit(differentiated(f))(1.5) == 6.0
    assert sorted(map(int, seen)) == [0, 1, 10, 11, 20, 21]
    if differentiated is not bellhop.grad:
        seen.clear()
        compiled = jax.jit
        assert jax.jit(differentiated(f))(1.5) == 6.0
        assert sorted(map(int, seen)) == [0, 1, 10, 11]
