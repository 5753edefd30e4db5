"""Pure callbacks with a forward rule: derivatives of any order, in either direction."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import bellhop

POINTS = np.array([0.3, 2.0, 5.5])


@pytest.fixture(params=["sequential", "expand_dims", "broadcast_all"])
def bessel(request):
    """The Bessel function of integer order, whose derivatives are Bessel functions."""

    @bellhop.pure_callback(vmap_method=request.param)
    def jv(v, z) -> float:
        return scipy.special.jv(v, z)

    @jv.jvp
    def jv_jvp(primals, tangents):
        v, z = primals
        _, dz = tangents
        below, above = jv(v - 1, z), jv(v + 1, z)
        return jv(v, z), dz * jnp.where(v == 0, -above, 0.5 * (below - above))

    return jv


@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize(
    "derive", [jax.grad, jax.jacfwd, jax.jacrev, bellhop.grad], ids=["grad", "fwd", "rev", "ours"]
)
def test_first_derivative_of_bessel(form, bessel, derive, order):
    f = form(derive(lambda z: bessel(order, z)))
    for z in POINTS:
        np.testing.assert_allclose(f(z), scipy.special.jvp(order, z, 1), atol=1e-14)


def test_hessian_and_third_derivative_of_bessel(form, bessel):
    f = form(jax.hessian(lambda z: bessel(1, z)))
    g = form(jax.grad(jax.grad(jax.grad(lambda z: bessel(1, z)))))
    for z in POINTS:
        np.testing.assert_allclose(f(z), scipy.special.jvp(1, z, 2), atol=1e-14)
        np.testing.assert_allclose(g(z), scipy.special.jvp(1, z, 3), atol=1e-14)


def test_vmap_and_derivatives_of_bessel(form, bessel):
    first = form(jax.vmap(jax.grad(lambda z: bessel(1, z))))(POINTS)
    np.testing.assert_allclose(first, scipy.special.jvp(1, POINTS, 1), atol=1e-14)
    second = form(jax.hessian(lambda zs: jax.vmap(lambda z: bessel(1, z))(zs).sum()))(POINTS)
    np.testing.assert_allclose(second, np.diag(scipy.special.jvp(1, POINTS, 2)), atol=1e-14)


def test_control_flow_and_checkpoint(form, bessel):
    def f(x):
        y, _ = jax.lax.scan(lambda c, _: (bessel(1, c) + c, None), x, None, length=3)
        y = jax.lax.cond(y > 0, lambda v: bessel(0, v), lambda v: v, y)
        return jax.checkpoint(lambda v: bessel(2, v) * v)(y)

    step = 1e-5
    value, slope = form(jax.value_and_grad(f))(0.7)
    assert value == f(0.7)
    np.testing.assert_allclose(slope, (f(0.7 + step) - f(0.7 - step)) / (2 * step), rtol=1e-8)


@pytest.mark.parametrize("bessel", ["sequential"], indirect=True)
@pytest.mark.parametrize("where", ["loop", "checkpointed loop", "loop in a loop"])
@pytest.mark.parametrize(
    "derive",
    [jax.hessian, lambda f: jax.grad(jax.grad(f)), lambda f: jax.jacfwd(jax.jacfwd(f))],
    ids=["hessian", "reverse", "forward"],
)
def test_second_derivative_through_a_loop(bessel, where, derive):
    def power(x, length=2):
        """Apply a Bessel function again and again."""
        return jax.lax.scan(lambda z, _: (bessel(0, z), None), x, length=length)[0]

    if where == "loop in a loop":
        f = lambda x: jax.lax.scan(lambda z, _: (power(z, 1), None), x, length=2)[0]
    else:
        f = power if where == "loop" else jax.checkpoint(power)
    inner = scipy.special.j0(0.3)
    expected = scipy.special.jvp(0, inner, 2) * scipy.special.jvp(
        0, 0.3, 1
    ) ** 2 + scipy.special.jvp(0, inner, 1) * scipy.special.jvp(0, 0.3, 2)  # the chain rule, twice
    np.testing.assert_allclose(bellhop.qjit(derive(f))(0.3), expected, atol=1e-14)


def test_second_derivative_through_a_loop_of_the_users_own_rule():
    sine = bellhop.pure_callback(np.sin, jax.ShapeDtypeStruct((), float))
    f = jax.custom_jvp(sine)
    f.defjvp(lambda primals, tangents: (f(*primals), jnp.cos(primals[0]) * tangents[0]))
    twice = jax.hessian(lambda x: jax.lax.scan(lambda z, _: (f(z), None), x, length=2)[0])
    s, c = np.sin(0.3), np.cos(0.3)
    np.testing.assert_allclose(twice(0.3), -np.sin(s) * c**2 - np.cos(s) * s, atol=1e-14)


def test_trees_keywords_and_integer_results(form):
    @bellhop.pure_callback(result_type={"y": float, "n": int})
    def f(pair, scale) -> dict:
        return {"y": float(pair["a"] * scale), "n": int(scale)}

    @f.jvp
    def rule(primals, tangents):
        (pair, scale), (dpair, dscale) = primals, tangents
        return f(pair, scale), {"y": dpair["a"] * scale + pair["a"] * dscale, "n": 0}

    def g(a, scale):
        result = f(scale=scale, pair={"a": a})
        return result["y"] * result["n"]

    assert form(jax.grad(g, argnums=(0, 1)))(2.0, 3.0) == (9.0, 6.0)


def test_not_differentiated_calls_do_not_run_the_rule(form):
    calls = []
    sine = bellhop.pure_callback(np.sin, float)
    sine.jvp(lambda primals, tangents: calls.append(1))
    assert form(sine)(0.5) == np.sin(0.5)
    assert calls == []


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda y, dy: y, "must return a tuple of two, the callback's result and the tangent"),
        (lambda y, dy: ((y, y), dy), "returned a result of structure"),
        (lambda y, dy: (y, (dy, dy)), "returned as tangent a tuple, expected"),
        (
            lambda y, dy: (y, jnp.stack([dy, dy])),
            r"returned as tangent float64\[2\], expected float64\[\]",
        ),
        (
            lambda y, dy: (y, dy.astype("float32")),
            r"returned as tangent float32\[\], expected float64\[\]",
        ),
        (
            lambda y, dy: (jnp.stack([y, y]), dy),
            r"returned a result of type float64\[2\], expected the",
        ),
        (lambda y, dy: (y, None), "returned as tangent None, expected"),
    ],
)
def test_wrong_rules(form, returned, message):
    sine = bellhop.pure_callback(np.sin, float)
    sine.jvp(lambda primals, tangents: returned(sine(*primals), *tangents))
    with pytest.raises(
        TypeError, match=rf"the jvp rule of pure_callback 'sin' \(.*py:\d+\) {message}"
    ):
        form(jax.grad(sine))(1.0)


@pytest.fixture
def both():
    """Rules of both modes, which count; what only a rule knows of tells who was asked."""
    calls = []
    sine = bellhop.pure_callback(np.sin, float)

    @sine.fwd
    def _(x):
        return sine(x), x

    @sine.bwd
    def _(x, dy):
        calls.append("bwd")
        return jnp.cos(x) * dy

    @sine.jvp
    def _(primals, tangents):
        calls.append("jvp")
        return sine(*primals), jnp.cos(*primals) * tangents[0]

    return sine, calls


@pytest.mark.parametrize(
    ("derive", "asked"),
    [(jax.grad, "bwd"), (jax.jacrev, "bwd"), (jax.jacfwd, "jvp")],
    ids=["grad", "rev", "fwd"],
)
def test_each_mode_asks_its_own_rule(form, both, derive, asked):
    sine, calls = both
    np.testing.assert_allclose(form(derive(lambda x: sine(x) ** 2))(0.4), np.sin(0.8))
    assert set(calls) == {asked}


@pytest.mark.parametrize(
    "derive",
    [jax.hessian, lambda f: jax.grad(jax.jacfwd(f)), lambda f: jax.jacfwd(jax.jacfwd(f))],
    ids=["forward over reverse", "reverse over forward", "forward"],
)
def test_second_derivatives_by_both_rules(form, both, derive):
    f = jax.vmap(derive(lambda x: both[0](x) ** 2))
    np.testing.assert_allclose(form(f)(POINTS), 2 * np.cos(2 * POINTS), atol=1e-14)


def test_hessian_by_forward_over_reverse_where_bwd_calls_a_callback(form):
    def energy(x, n):
        return jnp.sum(jnp.sin(x["x"]) ** 2) * jnp.exp(x["x"][0]) * n

    vector = jax.ShapeDtypeStruct((3,), float)
    value = bellhop.pure_callback(lambda x, n, extra: np.asarray(energy(x, n)), float)
    slope = bellhop.pure_callback(lambda x: np.asarray(jax.grad(energy)(x, 1.0)["x"]), vector)
    slope.jvp(
        lambda at, along: (slope(*at), jax.jvp(jax.grad(energy), (*at, 1.0), (*along, 0.0))[1]["x"])
    )
    value.fwd(lambda x, n, extra: (value(x, n, extra), (x, n)))

    @value.bwd
    def _(residuals, cotangent):
        x, n = residuals
        return {"x": n * slope(x) * cotangent, "unused": None}, None, ()

    @value.jvp
    def _(primals, tangents):
        x, n, _ = primals
        return value(*primals), n * slope(x) @ tangents[0]["x"]

    at = {"x": np.array([0.3, 0.5, 0.7]), "unused": None}
    for derive in (jax.hessian, lambda f: jax.jacfwd(jax.grad(f))):
        found = form(derive(lambda x: value(x, 2, ())))(at)["x"]["x"]
        expected = jax.hessian(energy)(at, 2)["x"]["x"]
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_lone_fwd_is_missed_even_with_a_rule_of_forward_mode():
    sine = bellhop.pure_callback(np.sin, float)
    sine.jvp(lambda primals, tangents: (sine(*primals), jnp.cos(*primals) * tangents[0]))
    sine.fwd(lambda x: (sine(x), x))
    with pytest.raises(bellhop.DifferentiableCompileError, match="but has no bwd rule"):
        jax.grad(sine)(0.5)


def test_rules_are_functions():
    with pytest.raises(TypeError, match="the jvp rule of pure_callback 'sin' must be a function"):
        bellhop.pure_callback(np.sin, float).jvp(3)
