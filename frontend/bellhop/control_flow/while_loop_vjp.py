"""Reverse mode of ``lax.while_loop``, whose length the program computes.

JAX has forward mode of ``while``, and can split off its linear part, but it does not transpose that
part: this needs residuals of each iteration, and an array of these would have no static shape.
Here they are computed a second time, from checkpoints in an array of fixed length.

The gradient of ``y, i = x, 0; while i < n: y, i = sin(y * x), i + 1`` by ``x`` is three loops::

    n_iterations = while[ count the iterations, y = sin(y * x) ] 0 x
    _ _ _ x_bar y_bar = while[
      body={ lambda x; n_left kept checkpoints x_bar y_bar. let
          kept checkpoints = while[ advance from the last checkpoint to iteration n_left - 1 ]
          y = checkpoints[kept]
          z_bar = mul y_bar (cos (mul y x))
          x_bar = add x_bar (mul y z_bar)
          y_bar = mul z_bar x
        in (sub n_left 1, sub kept 1, checkpoints, x_bar, y_bar) }
    ] x n_iterations 0 [x ...] 0.0 1.0
    add x_bar y_bar

The iterations are reversed from the last to the first.  The carried values before an iteration are
computed from the nearest checkpoint before it, which leaves new checkpoints on the way.  If there
are at least as many checkpoints as iterations, each iteration is computed one more time.  If not,
there are levels of checkpoints, each of which takes half of the free places, and each iteration is
computed one more time for each level.  The idea is that of A. Griewank, "Achieving logarithmic
growth of temporal and spatial complexity in reverse automatic differentiation" (1992), where the
optimal schedule is, too.
"""

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jax.extend.core.primitives import while_p
from jax.interpreters import ad

from bellhop._jax.jaxprs import bind_equation, partial_eval_jaxpr_nounits, transpose_jaxpr
from bellhop._jax.patches.batched_while_cond import select_active_elements
from bellhop._jax.patches.while_transpose import patch_while_transpose
from bellhop.base.types import Aval, Operand
from bellhop.control_flow.rematerialized_effects import remove_effects
from bellhop.control_flow.tagged_values import ValueTag, has_tag, tag_value
from bellhop.jaxprs.equations import iterate_equations
from bellhop.jaxprs.jaxpr_interpreter import rewrite
from bellhop.tracing.dce import eliminate_dead_code, prune_loop_body
from bellhop.tracing.state import override_trace_state, trace_state

# The bytes that checkpoints may take; and the least and the greatest number of checkpoints.
_CHECKPOINT_BYTES = 1 << 22
_FEWEST, _MOST = 32, 1024


@contextlib.contextmanager
def enable_while_transpose(where: str) -> Iterator[None]:
    """Let JAX transpose ``while`` inside of the ``with`` block.

    Outside, the transpose still raises JAX's own error, as JAX documents for ``jax.grad``, but for
    loops ``make_loops_reversible``: those of circuits.

    Args:
        where: what is differentiated, for errors.
    """
    patch_while_transpose(_transpose_with_fallback)
    with override_trace_state(transposing=where):
        yield


@dataclass(frozen=True)
class _ReversibleTag(ValueTag):
    """The mark of what a loop carries that has a reverse mode, whoever asks for it.

    Attributes:
        where: whose loop it is, for errors.
    """

    where: str


def make_loops_reversible(closed: ClosedJaxpr, where: str) -> ClosedJaxpr:
    """Return a jaxpr whose loops of computed length have a reverse mode, whoever asks for it.

    Args:
        closed: the jaxpr.
        where: whose loops they are, for errors.
    """
    patch_while_transpose(_transpose_with_fallback)

    def loop(eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        body, n_consts = eqn.params["body_jaxpr"], eqn.params["body_nconsts"]

        def step(*args: Any) -> list[Any]:
            consts, carried = _split(args, n_consts)
            is_moved = lambda array: jnp.issubdtype(array.dtype, jnp.inexact)
            carried = [
                tag_value(x, mark=_ReversibleTag(where)) if is_moved(x) else x for x in carried
            ]
            return eval_jaxpr(body.jaxpr, body.consts, *consts, *carried)

        changed = eqn.replace(
            params={**eqn.params, "body_jaxpr": jax.make_jaxpr(step)(*body.in_avals)}
        )
        return bind_equation(changed, *operands)

    return rewrite(closed, {while_p: loop})


def _reversible_site(body: ClosedJaxpr) -> str | None:
    """Return whose loop it is; None where only our own derivatives have a reverse mode of it."""
    marks = (
        eqn.params["mark"] for eqn in iterate_equations(body.jaxpr) if has_tag(eqn, _ReversibleTag)
    )
    return next((mark.where for mark in marks), None)


def has_dynamic_loop(closed: ClosedJaxpr) -> bool:
    """Tell whether a jaxpr has a ``while``, at any depth."""
    return any(eqn.primitive is while_p for eqn in iterate_equations(closed.jaxpr))


@dataclass(frozen=True)
class _SplitLoop:
    """A loop that is split into its non-linear part, which residuals need, and its linear part.

    Attributes:
        first: the carried values before the first iteration.
        goes_on: takes carried values; returns whether another iteration follows.
        forward: takes the carried values before an iteration; returns those after it, and its
            residuals.
        reverse: takes the residuals of an iteration, and the cotangents of the carried values after
            it; returns what it adds to the cotangents of the linear constants, and the cotangents
            of the carried values before it.
    """

    first: list[Any]
    goes_on: Callable[[list[Any]], Any]
    forward: Callable[[list[Any]], tuple[list[Any], list[Any]]]
    reverse: Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]


def _transpose_with_fallback(by_jax: Callable[..., Any]) -> Callable[..., Any]:
    def transpose(cotangents: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        where = trace_state().transposing or _reversible_site(params["body_jaxpr"])
        if where is None:
            return list(by_jax(cotangents, *args, **params))
        # Loops in it too.
        with override_trace_state(transposing=where):
            return _transpose(where, cotangents, *args, **params)

    return transpose


def _transpose(where: str, cotangents: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    if all(type(cotangent) is ad.Zero for cotangent in cotangents):
        # An effect keeps it. Arrays, as the transpose of a scan refuses a zero of what it stacks.
        return [_zeros(arg.aval) if ad.is_undefined_primal(arg) else None for arg in args]
    cond, n_cond = params["cond_jaxpr"], params["cond_nconsts"]
    body, n_consts = params["body_jaxpr"], params["body_nconsts"]
    if cond.out_avals[0].shape:
        body, n_consts = _make_batched_body(cond, n_cond, body), n_cond + n_consts
        args = (*args[:n_cond], *args)
    cond_consts, consts, init = _split(args, n_cond, n_consts)
    are_linear_consts = [ad.is_undefined_primal(const) for const in consts]
    known, linear, are_linear = _split_body(
        body, are_linear_consts, [ad.is_undefined_primal(value) for value in init]
    )
    is_known_const, is_known = _invert_flags(are_linear_consts), _invert_flags(are_linear)
    n_linear = sum(are_linear_consts) + sum(are_linear)

    known, cond = remove_effects(known, where), remove_effects(cond, where)
    # DCE comes first, so that nothing is computed again that the linear part does not need; the
    # gates of a circuit, for example, must not be applied again.
    n_residuals = len(linear.in_avals) - n_linear
    linear, used = eliminate_dead_code(
        linear, [True] * len(linear.out_avals), [False] * n_residuals + [True] * n_linear
    )
    _, by_cond = eliminate_dead_code(cond, [True])
    needed = _where(is_known, by_cond[n_cond:])
    known, used_consts, needed = prune_loop_body(
        known, sum(is_known_const), needed, used[:n_residuals]
    )
    is_needed = _flags(needed, is_known)
    cond, used = eliminate_dead_code(cond, [True], [False] * n_cond + is_needed)
    known_consts = _where(used_consts, _where(is_known_const, consts))
    known_cond_consts = _where(used[:n_cond], cond_consts)

    def is_unfinished(values: list[Any]) -> Any:
        return jnp.any(eval_jaxpr(cond.jaxpr, cond.consts, *known_cond_consts, *values)[0])

    def forward(values: list[Any]) -> tuple[list[Any], list[Any]]:
        results = eval_jaxpr(known.jaxpr, known.consts, *known_consts, *values)
        return results[: len(values)], results[len(values) :]

    def reverse(residuals: list[Any], after: list[Any]) -> tuple[list[Any], list[Any]]:
        undefined = [ad.UndefinedPrimal(aval) for aval in linear.in_avals[len(residuals) :]]
        found = transpose_jaxpr(linear, [*residuals, *undefined], after)[len(residuals) :]
        before = [_instantiate(ct, x.aval) for ct, x in zip(found, undefined, strict=True)]
        return before[: sum(are_linear_consts)], before[sum(are_linear_consts) :]

    of_consts, of_carried = _run_reversed(
        _SplitLoop(
            list(map(jnp.asarray, _where(is_needed, init))), is_unfinished, forward, reverse
        ),
        [_zeros(const.aval) for const in _where(are_linear_consts, consts)],
        [
            _instantiate(ct, aval)
            for ct, aval in zip(
                _where(are_linear, cotangents), _where(are_linear, body.out_avals), strict=True
            )
        ],
    )
    # The tangent of a carried value may be a known zero before the loop.  Such an argument gets no
    # cotangent.
    of_args = [
        *_scatter_values(of_consts, are_linear_consts),
        *_scatter_values(of_carried, are_linear),
    ]
    n_args = len(args) - len(of_args)
    results = [*[None] * n_args, *of_args]
    results = [
        ct if ad.is_undefined_primal(arg) else None for ct, arg in zip(results, args, strict=True)
    ]
    # For a mapped condition, copies of its constants were put before all arguments.
    return results[len(args) - _count(params) :]


def _count(params: dict[str, Any]) -> int:
    return len(params["cond_jaxpr"].in_avals) + params["body_nconsts"]


def _run_reversed(
    loop: _SplitLoop, of_consts: list[Any], of_carried: list[Any]
) -> tuple[list[Any], list[Any]]:
    """Return the cotangents of linear constants and of the carried values before the loop.

    Args:
        loop: the loop.
        of_consts: zeros, in the types of the former.
        of_carried: the cotangents of the carried values after the loop.
    """

    def advance(values: list[Any]) -> list[Any]:
        return loop.forward(values)[0]

    # A checkpoint is the number of an iteration, and the carried values before it.
    def find_state(top: Any, checkpoints: list[Any]) -> list[Any]:
        return [
            lax.dynamic_index_in_dim(stack, top, keepdims=False, allow_negative_indices=False)
            for stack in checkpoints
        ]

    def advance_checkpoint(last: Any, kept: Any) -> Any:
        """Go from the last checkpoint towards iteration ``last``, and put one checkpoint there."""
        top, checkpoints = kept
        number, *values = find_state(top, checkpoints)
        distance = last - number
        free = places - 1 - top
        half = jnp.maximum(lax.div(free, jnp.int32(2)), 1)
        even = jnp.where(free < 2, distance, lax.div(distance + half - 1, half))
        stride = jnp.where(distance <= free, 1, even)
        values = lax.fori_loop(0, stride, lambda _, values: advance(values), values)
        return top + 1, [
            lax.dynamic_update_index_in_dim(stack, value, top + 1, 0, allow_negative_indices=False)
            for stack, value in zip(checkpoints, [number + stride, *values], strict=True)
        ]

    def reverse_one(state: Any) -> Any:
        n_left, kept, of_consts, of_carried = state
        last = n_left - 1
        top, checkpoints = lax.while_loop(
            lambda kept: find_state(*kept)[0] < last,
            lambda kept: advance_checkpoint(last, kept),
            kept,
        )
        _, residuals = loop.forward(find_state(top, checkpoints)[1:])
        more, of_carried = loop.reverse(residuals, of_carried)
        of_consts = [total + one for total, one in zip(of_consts, more, strict=True)]
        return last, (jnp.maximum(top - 1, 0), checkpoints), of_consts, of_carried

    n_iterations, _ = lax.while_loop(
        lambda state: loop.goes_on(state[1]),
        lambda state: (state[0] + 1, advance(state[1])),
        (jnp.int32(0), loop.first),
    )
    places = _count_checkpoints(loop.first)
    first = [jnp.int32(0), *loop.first]
    kept = jnp.int32(0), [jnp.broadcast_to(value, (places, *value.shape)) for value in first]
    state = lax.while_loop(
        lambda state: state[0] > 0, reverse_one, (n_iterations, kept, of_consts, of_carried)
    )
    return state[2:]


def _count_checkpoints(values: Sequence[Any]) -> int:
    """Return the number of checkpoints."""
    size = sum(math.prod(value.shape) * value.dtype.itemsize for value in values)
    return min(max(_CHECKPOINT_BYTES // max(size, 1), _FEWEST), _MOST)


def _split_body(
    body: ClosedJaxpr, are_linear_consts: list[bool], are_linear: list[bool]
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool]]:
    """Split a body into its known and its linear part.

    Returns:
        both parts, and for each carried value whether it is linear: at the beginning, or because an
        iteration makes it so.
    """
    while True:
        known, linear, found, _ = partial_eval_jaxpr_nounits(
            body, [*are_linear_consts, *are_linear], instantiate=are_linear
        )
        if list(found) == are_linear:
            return known, linear, are_linear
        are_linear = [a or b for a, b in zip(are_linear, found, strict=True)]


def _make_batched_body(cond: ClosedJaxpr, n_cond: int, body: ClosedJaxpr) -> ClosedJaxpr:
    """Return the body of a loop with a mapped condition: elements that have ended do not change."""
    n_consts = len(body.in_avals) - len(body.out_avals)

    def step(*args: Any) -> list[Any]:
        cond_consts, consts, carried = _split(args, n_cond, n_consts)
        (goes_on,) = eval_jaxpr(cond.jaxpr, cond.consts, *cond_consts, *carried)
        after = eval_jaxpr(body.jaxpr, body.consts, *consts, *carried)
        return select_active_elements(goes_on, after, carried)

    return jax.make_jaxpr(step)(*cond.in_avals[:n_cond], *body.in_avals)


def _split(values: Sequence[Any], *sizes: int) -> list[list[Any]]:
    ends = [0, *itertools.accumulate(sizes), len(values)]
    return [list(values[start:end]) for start, end in itertools.pairwise(ends)]


def _where(chosen: Iterable[bool], values: Iterable[Any]) -> list[Any]:
    return [value for value, yes in zip(values, chosen, strict=True) if yes]


def _scatter_values(values: Iterable[Any], places: Sequence[bool]) -> list[Any]:
    """Return the values in the chosen places, and None in the others."""
    rest = iter(values)
    return [next(rest) if yes else None for yes in places]


def _flags(chosen: Iterable[bool], places: Sequence[bool]) -> list[bool]:
    return [bool(yes) for yes in _scatter_values(chosen, places)]


def _invert_flags(flags: Iterable[bool]) -> list[bool]:
    return [not flag for flag in flags]


def _zeros(aval: Aval) -> Any:
    return jnp.zeros(aval.shape, aval.dtype)


def _instantiate(cotangent: Operand, aval: Aval) -> Any:
    is_zero = cotangent is None or type(cotangent) is ad.Zero
    return _zeros(aval) if is_zero else cotangent
