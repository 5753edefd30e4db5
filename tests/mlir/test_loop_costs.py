"""Costs of loops, from the trip counts that their conditions show."""

import math

import jax
import pytest

from bellhop_mlir._bindings import ir, make_context
from bellhop_mlir._walk import find_functions, find_operations
from bellhop_mlir.transforms.callbacks._cost import make_cost_estimator


def estimate_loop(first: int, bound: int, step: int, is_before) -> float:
    """Return the estimated cost of a loop that squares a matrix in each iteration."""

    def loop(x):
        carried = jax.lax.while_loop(
            lambda c: is_before(c[0], bound), lambda c: (c[0] + step, c[1] @ c[1]), (first, x)
        )
        return carried[1]

    text = jax.jit(loop).lower(jax.ShapeDtypeStruct((8, 8), "float32")).as_text()
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        [op] = find_operations(module.operation, "stablehlo.while")
        return make_cost_estimator(find_functions(module))(op)


def test_a_loop_that_counts_down_costs_as_much_as_one_that_counts_up():
    up = estimate_loop(0, 100, 1, lambda i, n: i < n)
    down = estimate_loop(100, 0, -1, lambda i, n: i > n)
    assert up == down == pytest.approx(100 * estimate_loop(0, 1, 1, lambda i, n: i < n))


def test_a_loop_without_constants_may_take_long():
    assert estimate_loop(0, 100, 1, lambda i, n: i * i < n) == math.inf
