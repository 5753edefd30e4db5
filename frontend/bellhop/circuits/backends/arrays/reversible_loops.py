"""Differentiate loops of gates without saving the state of any iteration.

An iteration that only has gates is an orthogonal matrix, so its inverse is its transpose, which JAX
computes.  The backward pass recomputes the state before each iteration from the state after it::

    primal      state = M(i, x) state                      for each i, forwards
    transposed  state = M(i, x)^T state                    for each i, backwards
                cotangent, x_bar += vjp of M(i, x) state

The remaining carried values do not depend on the state; they are computed first and saved for each
iteration.  This takes five passes over the state instead of three, and up to twice the time.  So
small states are saved instead.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jax.extend.core.primitives import custom_jvp_call_p

from bellhop._jax.jaxprs import dce
from bellhop.base.types import Operand
from bellhop.circuits.backends.arrays.adjoint_method import (
    define_adjoint_derivative,
    is_differentiable,
)
from bellhop.control_flow.trace_body import TracedStep
from bellhop.jaxprs.equations import find_dependents
from bellhop.jaxprs.jaxpr_interpreter import Rules, rewrite

# Largest size of the saved states of all iterations, for each row of a batch.
MAX_SAVED_BYTES = 1 << 26


def should_reverse(step: TracedStep, carried: tuple[Any, ...], count: int) -> bool:
    """Return whether reverse mode of a loop should recompute states (`run_reversibly`).

    True if the states of all iterations are too large to save (`MAX_SAVED_BYTES`), no other carried
    value depends on the state, and an iteration has no effects. The caller has checked that each
    iteration multiplies the state by an orthogonal matrix.

    Args:
        step: one iteration.
        carried: the initial carried values; the first leaf is the state.
        count: number of iterations.
    """
    leaves, tree = jax.tree.flatten(carried)
    if step.has_effects or count * leaves[0].nbytes <= MAX_SAVED_BYTES:
        return False
    flat = lambda *now: jax.tree.leaves(step(jax.tree.unflatten(tree, now), jnp.asarray(0))[0])
    jaxpr = jax.make_jaxpr(flat)(*leaves).jaxpr
    depends, _ = find_dependents(jaxpr, [True, *[False] * (len(leaves) - 1)])
    return not any(depends[1:])


def run_reversibly(step: TracedStep, carried: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Run a loop whose iterations multiply a state by orthogonal matrices.

    Reverse mode does not save the states before the iterations, but recomputes them from the final
    state by the transposed matrices. Call it only if `should_reverse` is true.

    Args:
        step: one iteration. Its other carried values do not depend on the state.
        carried: the initial carried values; the first leaf is the state.
        count: number of iterations.

    Returns:
        the final carried values.
    """
    leaves, tree = jax.tree.flatten(carried)

    def flat(*operands: Operand) -> list[Any]:
        """Run one iteration on the leaves of the carried values.

        The operands are the leaves (the state first), and the index of the iteration.
        """
        *now, number = operands
        return jax.tree.leaves(step(jax.tree.unflatten(tree, now), number)[0])

    number = jax.ShapeDtypeStruct((), jnp.arange(0).dtype)
    closed = jax.make_jaxpr(flat)(*leaves, number)
    inputs, outputs = closed.jaxpr.invars[1:-1], closed.jaxpr.outvars[1:]
    changes = [new is not old for new, old in zip(outputs, inputs, strict=True)]
    state, *others = leaves
    numbers = jnp.arange(count)
    rows = [None] * len(others)
    if any(changes):
        others, rows = _scan_other_carry(closed, others, numbers)
    loop = _ReversibleLoop(closed, changes)
    before = [row if yes else x for row, x, yes in zip(rows, others, changes, strict=True)]
    return jax.tree.unflatten(tree, [loop.run(state, numbers, *before, *closed.consts), *others])


def _scan_other_carry(
    closed: ClosedJaxpr, others: Sequence[Any], numbers: Any
) -> tuple[list[Any], list[Any]]:
    """Run a loop without its state: compute the remaining carried values.

    Args:
        closed: jaxpr of one iteration, ``(state, *others, index) -> (state, *others)``.
        others: initial carried values other than the state.
        numbers: the indices of all iterations.

    Returns:
        the final values of `others`, and their values before each iteration, stacked along a
        leading axis.
    """
    used = [False, *[True] * len(others)]
    alone, _ = dce(closed, used, [*used, True])

    def step(before: list[Any], number: Operand) -> tuple[list[Any], list[Any]]:
        """Return the values after an iteration, and the values before it to stack."""
        return eval_jaxpr(alone.jaxpr, alone.consts, *before, number), before

    return jax.lax.scan(step, list(others), numbers)


class _ReversibleLoop:
    """A loop of orthogonal iterations, as a function whose VJP recomputes states.

    `run(state, numbers, *others, *consts)` returns the final state. `numbers` are the indices of
    the iterations; `consts` are the constants of the jaxpr.

    Args:
        closed: jaxpr of one iteration, ``(state, *others, index) -> (state, ...)``.
        is_scanned: for each of `others`, whether it has one slice per iteration (as `xs` of
            `lax.scan`) or is loop-invariant.
    """

    def __init__(self, closed: ClosedJaxpr, is_scanned: Sequence[bool]) -> None:
        used = [True, *[False] * len(is_scanned)]
        of_state, _ = dce(closed, used, [True] * len(closed.jaxpr.invars))
        self._jaxpr = of_state.jaxpr
        self._is_scanned = [*is_scanned, *[False] * len(closed.consts)]
        self._n_others = len(is_scanned)
        # For transposing, inline functions with custom JVP rules.
        self._plain_jaxpr = rewrite(of_state, _PLAIN_RULES).jaxpr
        self.run = define_adjoint_derivative(self._run_forward, self._pull_back)

    def _evaluate_iteration(
        self, jaxpr: Any, state: Operand, number: Operand, given: Sequence[Any]
    ) -> Any:
        """Return the state after one iteration.

        Args:
            jaxpr: jaxpr of an iteration that only computes the state.
            state: the state before the iteration.
            number: index of the iteration.
            given: the other carried values at this iteration, and the constants of the jaxpr.
        """
        others, consts = given[: self._n_others], given[self._n_others :]
        return eval_jaxpr(jaxpr, consts, state, *others, number)[0]

    def _split_scanned(self, given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Split values into those with a slice per iteration and the loop-invariant ones."""
        both = list(zip(given, self._is_scanned, strict=True))
        return [x for x, yes in both if yes], [x for x, yes in both if not yes]

    def _merge_scanned(self, rows: Sequence[Any], rest: Sequence[Any]) -> list[Any]:
        """Return values in their original order: the inverse of `_split_scanned`."""
        of_rows, of_rest = iter(rows), iter(rest)
        return [next(of_rows if yes else of_rest) for yes in self._is_scanned]

    def _run_forward(self, state: Operand, numbers: Any, *given: Any) -> Any:
        """Run all iterations, and return the final state.

        Args:
            state: the initial state.
            numbers: indices of the iterations.
            *given: the other carried values, which are known for each iteration: stacked over
                iterations where `is_scanned`, else constant; and the constants of the jaxpr.
        """
        rows, rest = self._split_scanned(given)

        def step(state: Operand, row: Operand) -> tuple[Any, None]:
            number, slices = row
            return self._evaluate_iteration(
                self._jaxpr, state, number, self._merge_scanned(slices, rest)
            ), None

        return jax.lax.scan(step, state, (numbers, rows))[0]

    def _pull_back(
        self, after: Operand, cotangent: Operand, numbers: Any, *given: Any
    ) -> list[Any]:
        """Run all iterations backwards and recompute their states; return all cotangents.

        Args:
            after: state after the loop.
            cotangent: the cotangent of `after`.
            numbers: indices of the iterations.
            given: inputs of the loop other than the state, as in `_run_forward`.

        Returns:
            the cotangent of the initial state, followed by the cotangents of the differentiable
            values of `given`.
        """
        rows, rest = self._split_scanned(given)

        def step(carry: Any, row: Operand) -> tuple[Any, list[Any]]:
            """Undo one iteration in the reverse scan of `_pull_back`.

            Args:
                carry: the state after the iteration, its cotangent, and the cotangents of
                    loop-invariant values summed over later iterations.
                row: index of the iteration, and slices of the values that differ between
                    iterations.

            Returns:
                the new carry, and the cotangents of the slices (None for slices that are not
                differentiable).
            """
            state, cotangent, of_rest = carry
            number, slices = row
            now = self._merge_scanned(slices, rest)
            inverse = lambda state: self._evaluate_iteration(self._plain_jaxpr, state, number, now)
            [before] = jax.vjp(inverse, jnp.zeros_like(state))[1](state)

            def iteration(state: Operand, *new_values: Any) -> Any:
                """Run the iteration as a function of the state and all differentiable values."""
                return self._evaluate_iteration(
                    self._jaxpr, state, number, _replace_differentiable(now, new_values)
                )

            _, pull = jax.vjp(iteration, before, *filter(is_differentiable, now))
            cotangent, *cotangents = pull(cotangent)
            each = _replace_differentiable([None] * len(now), cotangents, now)
            slice_cotangents, invariant_cotangents = self._split_scanned(each)
            sums = [
                a if b is None else a + b
                for a, b in zip(of_rest, invariant_cotangents, strict=True)
            ]
            return (before, cotangent, sums), slice_cotangents

        zeros = [jnp.zeros_like(x) if is_differentiable(x) else None for x in rest]
        start = after, cotangent, zeros
        (_, cotangent, of_rest), of_rows = jax.lax.scan(step, start, (numbers, rows), reverse=True)
        cotangents = self._merge_scanned(of_rows, of_rest)
        return [cotangent, *(each for each in cotangents if each is not None)]


def _replace_differentiable(
    values: Sequence[Any], new_values: Sequence[Any], like: Any = None
) -> list[Any]:
    """Return a copy of a list with new floating-point and complex values.

    Args:
        values: the list; integers and booleans in it are kept.
        new_values: the new values, in order.
        like: values whose dtypes decide which positions are replaced; None for `values` themselves.
    """
    others = iter(new_values)
    which = map(is_differentiable, values if like is None else like)
    return [next(others) if yes else x for x, yes in zip(values, which, strict=True)]


def _inline_custom_jvp(eqn: JaxprEqn, *operands: Operand) -> list[Any]:
    """Evaluate the function of a ``custom_jvp_call`` equation, without its JVP rule."""
    closed = eqn.params["call_jaxpr"]
    return eval_jaxpr(closed.jaxpr, closed.consts, *operands)


_PLAIN_RULES: Rules = {custom_jvp_call_p: _inline_custom_jvp}
