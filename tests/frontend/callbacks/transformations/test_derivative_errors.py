"""Wrong and missing derivative rules, and what is said of them."""

import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop


def scale(x) -> float:
    return 2 * float(x.sum())


def with_rules(fwd=None, bwd=None):
    callback = bellhop.pure_callback(scale)
    if fwd is not None:
        callback.fwd(lambda x: fwd(callback, x))
    if bwd is not None:
        callback.bwd(bwd)
    return callback


def save_nothing(callback, x):
    return callback(x), None


DERIVATIVES = {
    "grad": jax.grad,
    "bellhop.grad": bellhop.grad,
    "jacobian": bellhop.jacobian,
    "jacfwd": jax.jacfwd,
    "value_and_grad": jax.value_and_grad,
}


@pytest.mark.parametrize("derive", DERIVATIVES.values(), ids=DERIVATIVES)
@pytest.mark.parametrize("form", [bellhop.qjit, jax.jit, lambda f: f], ids=["qjit", "jit", ""])
def test_no_rule_is_an_error_that_says_what_to_do(derive, form):
    callback = with_rules()
    with pytest.raises(bellhop.DifferentiableCompileError) as caught:
        form(derive(lambda x: callback(x)))(jnp.ones(3))
    message = str(caught.value)
    assert f"pure_callback 'scale' (called from {__file__}:" in message
    assert "has no derivative rule" in message
    assert "@scale.fwd and @scale.bwd" in message
    assert "bellhop.accelerate" in message


@pytest.mark.parametrize(
    ("rules", "missing"),
    [({"fwd": save_nothing}, "bwd"), ({"bwd": lambda _, dy: dy}, "fwd")],
    ids=["only fwd", "only bwd"],
)
def test_half_a_rule_is_an_error_that_says_what_is_missing(rules, missing):
    callback = with_rules(**rules)
    assert bellhop.qjit(callback)(jnp.ones(3)) == 6.0
    with pytest.raises(bellhop.DifferentiableCompileError) as caught:
        bellhop.qjit(jax.grad(lambda x: callback(x)))(jnp.ones(3))
    message = str(caught.value)
    assert f"pure_callback 'scale' (called from {__file__}:" in message
    assert f"has no {missing} rule" in message
    assert f"@scale.{missing}" in message


def test_call_with_a_tangent_has_no_reverse_mode():
    note = bellhop.io_callback(lambda dx: dx, float)
    sine = jax.custom_jvp(jnp.sin)
    sine.defjvp(lambda primals, tangents: (jnp.sin(*primals), note(*tangents)))
    assert jax.jvp(sine, (1.0,), (2.0,))[1] == 2.0
    with pytest.raises(bellhop.DifferentiableCompileError, match="gets a tangent, and reverse"):
        jax.grad(sine)(1.0)


def test_callback_that_is_not_differentiated_needs_no_rule():
    callback = with_rules()

    @bellhop.qjit
    @jax.grad
    def f(x):
        constant = callback(jnp.ones(3))
        stopped = callback(jax.lax.stop_gradient(x))
        return constant * stopped * jnp.sum(x)

    assert list(f(jnp.ones(3))) == [36.0] * 3


def test_callback_with_integer_result_needs_no_rule():
    sign = bellhop.pure_callback(lambda x: int(x > 0), int)
    assert bellhop.qjit(jax.grad(lambda x: sign(x) * x))(3.0) == 1.0


WRONG_FWD = {
    "no pair": (lambda c, x: c(x), "the callback's result and the residuals"),
    "three": (lambda c, x: (c(x), 1, 2), "the callback's result and the residuals"),
    "list": (lambda c, x: [c(x), None], "the callback's result and the residuals"),
    "structure": (lambda c, x: ((c(x), c(x)), None), "returned a result of structure"),
    "shape": (
        lambda c, x: (jnp.ones(2), None),
        r"returned a result of type float64\[2\], expected the",
    ),
    "dtype": (
        lambda c, x: (jnp.float32(2), None),
        r"returned a result of type float32\[\], expected the",
    ),
}


@pytest.mark.parametrize(("fwd", "message"), WRONG_FWD.values(), ids=WRONG_FWD)
def test_wrong_fwd_is_named(fwd, message):
    callback = with_rules(fwd, lambda _, dy: jnp.full(3, 2 * dy))
    with pytest.raises(TypeError, match=message) as caught:
        bellhop.qjit(jax.grad(lambda x: jnp.sum(callback(x))))(jnp.ones(3))
    assert "the fwd rule of pure_callback 'scale'" in str(caught.value)


WRONG_BWD = {
    "shape": (
        lambda _, dy: jnp.ones(2) * dy,
        r"of argument 0 float64\[2\], expected float64\[3\]",
    ),
    "scalar": (lambda _, dy: dy, r"of argument 0 float64\[\], expected float64\[3\]"),
    "dtype": (
        lambda _, dy: jnp.ones(3, jnp.float32),
        r"of argument 0 float32\[3\], expected float64\[3\]",
    ),
    "two": (lambda _, dy: (jnp.ones(3), jnp.ones(3)), "returned 2 cotangents for 1 argument"),
    "none": (lambda _, dy: (), "returned 0 cotangents for 1 argument"),
    "structure": (lambda _, dy: {"x": jnp.ones(3)}, "argument 0 a dict"),
    "text": (
        lambda _, dy: "wrong",
        r"argument 0 a str, expected .*\. Return an array of this shape and dtype",
    ),
}


@pytest.mark.parametrize(("bwd", "message"), WRONG_BWD.values(), ids=WRONG_BWD)
def test_wrong_bwd_is_named(bwd, message):
    callback = with_rules(save_nothing, bwd)
    with pytest.raises(TypeError, match=message) as caught:
        bellhop.qjit(jax.grad(lambda x: callback(x)))(jnp.ones(3))
    assert "the bwd rule of pure_callback 'scale'" in str(caught.value)


def test_bare_cotangent_for_two_arguments_is_an_error():
    f = bellhop.pure_callback(lambda x, y: float(x + y), float)
    f.fwd(lambda x, y: (f(x, y), None))
    f.bwd(lambda _, dy: dy)
    with pytest.raises(TypeError, match="must return a tuple of 2 cotangents"):
        bellhop.qjit(jax.grad(lambda x: f(x, x)))(1.0)


def test_wrong_structure_of_a_pytree_argument_is_named():
    f = bellhop.pure_callback(lambda t: float(t["a"]), float)
    f.fwd(lambda t: (f(t), None))
    f.bwd(lambda _, dy: ({"b": dy},))
    with pytest.raises(TypeError, match=r"cotangent of argument 0 a value of structure .*'b'"):
        bellhop.qjit(jax.grad(f))({"a": 1.0})


@pytest.mark.parametrize("rule", ["fwd", "bwd"])
def test_rule_must_be_a_function(rule):
    callback = with_rules()
    with pytest.raises(TypeError, match=f"the {rule} rule of pure_callback 'scale' must be a"):
        getattr(callback, rule)(3)


def test_exception_in_a_rule_reaches_the_caller():
    def broken(_, dy):
        raise LookupError("in bwd")

    callback = with_rules(save_nothing, broken)
    with pytest.raises(LookupError, match="in bwd") as caught:
        bellhop.qjit(jax.grad(lambda x: callback(x)))(jnp.ones(3))
    place = f"{__file__}:{broken.__code__.co_firstlineno}"
    assert f"raised in the bwd rule of pure_callback 'scale' ({place})" in caught.value.__notes__
    # JAX quotes the exception in the cause with the line that called the callback.
    printed = "".join(traceback.format_exception(caught.value))
    assert printed.count("in bwd\n") == 1
    assert "call the operation whose derivative or batched form raised the exception" in printed


def test_rule_that_needs_values_is_told_that_it_is_traced():
    callback = with_rules(lambda callback, x: (callback(x), x), lambda x, dy: np.sin(x) * dy)
    with pytest.raises(jax.errors.TracerArrayConversionError) as caught:
        bellhop.qjit(bellhop.grad(callback))(jnp.ones(3))
    notes = "\n".join(caught.value.__notes__)
    assert "the bwd rule of pure_callback 'scale' (" in notes
    assert f"{__file__}:" in notes
    assert "). A rule is traced: write it with jax.num" in notes


@pytest.mark.parametrize("leaf", ["text", len], ids=["text", "function"])
def test_residuals_that_are_no_arrays_are_named(leaf):
    callback = with_rules(lambda callback, x: (callback(x), (x, leaf)), lambda saved, dy: dy)
    with pytest.raises(
        TypeError, match=r"fwd rule of pure_callback 'scale' \(.*py:\d+\) returned residuals"
    ):
        bellhop.grad(callback)(jnp.ones(3))


@pytest.mark.parametrize(
    "derive",
    [
        jax.jacfwd,
        jax.hessian,
        lambda f: lambda x: jax.jvp(f, (x,), (x,)),
        lambda f: lambda x: jax.linearize(f, x)[1](x),
        lambda f: jax.vmap(jax.jacfwd(f)),
    ],
    ids=["jacfwd", "hessian", "jvp", "linearize", "vmap"],
)
@pytest.mark.parametrize("form", [bellhop.qjit, jax.jit, lambda f: f], ids=["qjit", "jit", ""])
def test_forward_mode_needs_another_rule(derive, form):
    callback = with_rules(
        # The residual's own derivative is one of forward mode, too.
        lambda callback, x: (callback(x), callback(x)),
        lambda y, dy: y * dy * jnp.ones((2, 3)),
    )
    with pytest.raises(bellhop.DifferentiableCompileError) as caught:
        form(derive(lambda x: callback(x)))(jnp.ones((2, 3)))
    assert f"pure_callback 'scale' (called from {__file__}:" in str(caught.value)
    assert "Register a rule with @scale.jvp as well" in str(caught.value)


def test_forward_mode_that_nobody_asks_for_is_none():
    square = bellhop.pure_callback(lambda x: float(x @ x), float)
    square.fwd(lambda x: (square(x), x))
    square.bwd(lambda x, dy: 2 * x * dy)
    np.testing.assert_array_equal(jax.jit(jax.hessian(square))(jnp.ones(2)), 2 * np.eye(2))


def test_forward_mode_of_other_functions_is_refused_by_jax_as_ever():
    @jax.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (x, None), lambda _, dy: (dy,))
    with pytest.raises(TypeError, match="forward-mode autodiff"):
        jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(1.0)


@pytest.mark.parametrize("form", [bellhop.qjit, jax.jit, lambda f: f], ids=["qjit", "jit", ""])
def test_keywords_of_a_callback_with_rules_take_their_position(form):
    @bellhop.pure_callback
    def power(x, n=2, offset=0.0) -> float:
        return float(x) ** int(n) + float(offset)

    power.fwd(lambda x, n=2, offset=0.0: (power(x, n, offset), (x, n, offset)))

    @power.bwd
    def _(saved, dy):
        x, n, _ = saved
        return n * x ** (n - 1.0) * dy, None, dy

    assert form(jax.grad(lambda x: power(x, offset=1.0)))(3.0) == 6.0
    assert form(jax.grad(lambda o: power(2.0, offset=o)))(2.0) == 1.0
    assert form(jax.grad(lambda x: power(offset=0.0, n=3, x=x)))(2.0) == 12.0
    assert form(lambda x: power(x, n=3))(2.0) == 8.0


def test_keyword_without_a_position_is_an_error_where_there_are_rules():
    @bellhop.pure_callback
    def f(x, *, n=2) -> float:
        return float(x) * int(n)

    assert bellhop.qjit(lambda x: f(x, n=3))(2.0) == 6.0
    f.fwd(lambda x: (f(x), None))
    f.bwd(lambda _, dy: 2 * dy)
    with pytest.raises(
        TypeError, match="has a derivative rule and keyword-only arguments .n., expected"
    ):
        f(1.0, n=3)
