"""The interpreter of jaxprs: equations with rules, at any depth, and those without."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import eval_jaxpr
from jax.extend.core import Primitive
from jax.lax import sin_p, while_p

from bellhop.jaxprs.equations import iterate_equations
from bellhop.jaxprs.jaxpr_interpreter import interpret, interpret_with, rewrite

RULES = {sin_p: lambda _, x: [jnp.cos(x)]}


def nested(x: Any, n: Any) -> Any:
    step = lambda i, y: jax.lax.cond(i > 0, lambda: jnp.sin(y), lambda: 2 * y)
    return jax.lax.fori_loop(0, n, step, jnp.sin(x)) + jnp.exp(x)


def expected(x: float, n: int) -> float:
    y = np.cos(x)
    for i in range(n):
        y = np.cos(y) if i > 0 else 2 * y
    return y + np.exp(x)


def test_rules_apply_in_loops_and_branches() -> None:
    closed = jax.make_jaxpr(nested)(0.3, 3)
    changed = rewrite(closed, RULES)
    assert all(eqn.primitive is not sin_p for eqn in iterate_equations(changed.jaxpr))
    for n in (0, 1, 4):
        (value,) = eval_jaxpr(changed.jaxpr, changed.consts, 0.3, n)
        np.testing.assert_allclose(value, expected(0.3, n))


def test_a_jaxpr_without_rules_stays_itself() -> None:
    closed = jax.make_jaxpr(nested)(0.3, 3)
    assert rewrite(closed, {}) is closed
    assert rewrite(closed, {Primitive("other"): lambda _: []}) is closed


def test_only_what_has_a_rule_at_its_own_level() -> None:
    skipped = lambda eqn, *operands: operands[-len(eqn.outvars) :]
    closed = jax.make_jaxpr(nested)(0.3, 3)
    (value,) = interpret(closed, {while_p: skipped}, 0.3, 3)
    np.testing.assert_allclose(value, np.sin(0.3) + np.exp(0.3))


def test_values_that_are_none_of_jaxs() -> None:
    closed = jax.make_jaxpr(lambda x, y: x * y + 2.0)(0.3, 0.4)
    text = lambda eqn, *operands: [f"({eqn.primitive} {' '.join(map(str, operands))})"]
    assert interpret_with(closed, lambda _: text, "a", "b") == ["(add (mul a b) 2.0)"]


def test_lines_of_the_users_source_stay() -> None:
    closed = rewrite(jax.make_jaxpr(nested)(0.3, 3), RULES)
    assert "test_jaxpr_interpreter.py" in jax.jit(
        lambda *args: eval_jaxpr(closed.jaxpr, closed.consts, *args)
    ).lower(0.3, 3).as_text(debug_info=True)


@jax.custom_jvp
def doubled(x: Any) -> Any:
    return 2 * x


doubled.defjvp(lambda x, t: (doubled(*x), 2 * t[0]))


def of_all_kinds(x: Any, i: Any) -> Any:
    jax.debug.callback(lambda _: None, x)
    y = jax.jit(lambda x: x + 1)(x) * 2.0 + x[i] + jnp.where(i > 0, 1, x)
    y = doubled(jax.checkpoint(jnp.sin)(y))
    return jax.lax.scan(lambda c, v: (c + v, c), jnp.zeros_like(y[0]), y), nested(y[0], i)


AGAIN = {
    "all kinds": (of_all_kinds, (np.ones(3), 1)),
    "single precision": (of_all_kinds, (np.ones(3, np.float32), 1)),
    "empty": (lambda x, i: x.sum() + x * i, (np.ones(0), 1)),
    "matrices": (lambda x, i: jnp.linalg.norm(x @ x.T, axis=0) * i, (np.ones((2, 3)), 2)),
    "keys": (lambda key, i: jax.random.normal(key, 3) * i, (jax.random.key(0), 2.0)),
}


@pytest.mark.parametrize("name", AGAIN)
def test_without_rules_it_is_the_same_again(name: str) -> None:
    function, args = AGAIN[name]
    closed = jax.make_jaxpr(function)(*args)
    again = lambda *args: interpret(closed, {}, *args)
    assert str(jax.make_jaxpr(again)(*args)) == str(closed)
    rows = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), args)
    ours, theirs = jax.vmap(again)(*rows), jax.vmap(function)(*rows)
    jax.tree.map(np.testing.assert_allclose, ours, jax.tree.leaves(theirs))


def test_an_operand_of_another_type() -> None:
    closed = jax.make_jaxpr(lambda x: (x * 2.0, jnp.sin(x)))(np.float64(1))
    constant = jax.make_jaxpr(lambda: interpret(closed, {}, np.ones(())))()
    assert [aval.shape for aval in constant.out_avals] == [(), ()]
    again = jax.make_jaxpr(lambda x: interpret(closed, {}, x))(np.ones(3))
    assert [aval.shape for aval in again.out_avals] == [(3,), (3,)]
