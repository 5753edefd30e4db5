"""What of a jaxpr depends on its inputs: held against derivatives, which are zero where none do."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bellhop.jaxprs.equations import find_dependents


def program(x, y, n):
    """Return values of which each depends on some of the arguments, through all of control flow."""

    def step(carried, element):
        first, second, third = carried
        return (second, 2 * third + second, third), (first * element, element)

    carried, (stacked, elements) = lax.scan(step, (1.0, x, y), jnp.arange(3.0) + n)
    powers = lax.fori_loop(0, 3, lambda _, pair: (pair[0] * x, pair[1] + 1.0), (1.0, n))
    chosen = lax.cond(x > 0, lambda y, n: (y, 1.0), lambda y, n: (n, 1.0), y, n)
    known = lax.cond(True, lambda x, y: (x, y), lambda x, y: (2 * x, 1.0), x, y)
    counted = lax.while_loop(lambda i: i < n, lambda i: i + 1.0, 0.0)
    return (*carried, stacked, elements, *powers, *chosen, *known, counted, jax.jit(jnp.sin)(y))


def test_results_depending_on_each_input():
    point = 0.3, 0.7, 2.0
    closed = jax.make_jaxpr(program)(*point)
    slopes = jax.jacfwd(program, argnums=(0, 1, 2))(*point)
    for number in range(3):
        depends, _ = find_dependents(closed.jaxpr, [i == number for i in range(3)])
        has_slope = [bool(np.any(slope[number])) for slope in slopes]
        # Predicates decide too, and have no slope; nor have branches that are not taken.
        without = {0: {7, 8}, 2: {7, 11}}.get(number, set())
        expected = [yes or place in without for place, yes in enumerate(has_slope)]
        assert depends == expected


def test_equations_depending_on_an_input():
    def printed(x, n):
        def body(i, carried):
            jax.debug.callback(lambda _: None, i)
            return carried * x

        def again(i):
            jax.debug.callback(lambda: None)
            return i + 1

        lax.fori_loop(0, 3, body, x)
        return lax.while_loop(lambda i: i < n, again, 0)

    closed = jax.make_jaxpr(printed)(0.5, 3)

    def effects(*inputs):
        _, equations = find_dependents(closed.jaxpr, inputs)
        return sum(bool(eqn.effects) for eqn in equations if eqn.primitive.name == "debug_callback")

    assert effects(True, False) == 0
    assert effects(False, True) == 1
