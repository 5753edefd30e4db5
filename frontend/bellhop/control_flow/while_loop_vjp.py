"""Reverse mode of ``lax.while_loop`` with a dynamic trip count, by checkpoints.

JAX supports forward mode of ``while``, and can split off its linear part, but it does not transpose
that part: this needs the residuals of each iteration, and an array of residuals would have no
static shape.  Here residuals are recomputed, from checkpoints in an array of fixed length.

The gradient of ``y, i = x, 0; while i < n: y, i = sin(y * x), i + 1`` by ``x`` is three loops::

    n_iterations = while[ count the iterations, y = sin(y * x) ] 0 x
    _ _ _ x_bar y_bar = while[
      body={ lambda x; n_left kept checkpoints x_bar y_bar. let
          kept checkpoints = while[ advance from the last checkpoint to iteration
          n_left - 1 ] y = checkpoints[kept]
          z_bar = mul y_bar (cos (mul y x))
          x_bar = add x_bar (mul y z_bar)
          y_bar = mul z_bar x
        in (sub n_left 1, sub kept 1, checkpoints, x_bar, y_bar) }
    ] x n_iterations 0 [x ...] 0.0 1.0
    add x_bar y_bar

The iterations are reversed from the last to the first.  The carried values before an iteration are
computed from the nearest checkpoint before it, which leaves new checkpoints on the way.  If there
are at least as many checkpoints as iterations, each iteration is computed one more time.  If not,
there are levels of checkpoints, each of which takes half of the free slots, and each iteration is
computed one more time for each level.  The method, and the optimal schedule, are from A. Griewank,
"Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
differentiation" (1992).
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
from bellhop.control_flow.tagged_values import ValueTag
from bellhop.jaxprs.equations import iterate_equations
from bellhop.jaxprs.jaxpr_interpreter import rewrite
from bellhop.tracing.dce import eliminate_dead_code, prune_loop_body
from bellhop.tracing.state import override_trace_state, trace_state

# Maximum memory of checkpoints in bytes, and minimum and maximum number of checkpoints.
_CHECKPOINT_BYTES = 1 << 22
_FEWEST, _MOST = 32, 1024


@contextlib.contextmanager
def enable_while_transpose(where: str) -> Iterator[None]:
    """Enable reverse mode of ``while`` with a dynamic trip count in a ``with`` block.

    Outside, the transpose raises JAX's error, as documented for ``jax.grad``, except for loops from
    ``make_loops_reversible``, which circuits use. The first use patches JAX's transpose rule.

    Args:
        where: description of the derivative, for errors.
    """
    patch_while_transpose(_transpose_with_fallback)
    with override_trace_state(transposing=where):
        yield


@dataclass(frozen=True)
class _ReversibleTag(ValueTag):
    """Identity tag on loop-carried values, by which the transpose rule recognizes a loop.

    The rule gives tagged loops a reverse mode. `make_loops_reversible` tags the loops of circuits.

    Attributes:
        where: description of the loop's owner, such as a QNode and its line; for errors.
    """

    where: str


def make_loops_reversible(closed: ClosedJaxpr, where: str) -> ClosedJaxpr:
    """Tag the ``while`` loops of a jaxpr, so that reverse mode always supports them.

    The first use patches JAX's transpose rule of ``while``.

    Args:
        closed: the jaxpr.
        where: description of the loops' owner, such as a QNode and its line; for errors.

    Returns:
        the jaxpr with tagged loops, at any depth; `closed` itself if it has none.
    """
    patch_while_transpose(_transpose_with_fallback)

    def loop(eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Bind a ``while`` equation again, with a body that tags its carried values.

        `rewrite` calls it in place of each ``while`` equation of the jaxpr.

        Args:
            eqn: the equation.
            *operands: its operands.

        Returns:
            the results of the new equation.
        """
        body, n_consts = eqn.params["body_jaxpr"], eqn.params["body_nconsts"]

        def step(*args: Any) -> list[Any]:
            """Run the loop's body after tagging its float and complex carried values.

            Args:
                *args: constants of the body, and carried values before the iteration.
            """
            consts, carried = _split(args, n_consts)
            is_differentiable = lambda array: jnp.issubdtype(array.dtype, jnp.inexact)
            carried = [_ReversibleTag(where).tag(x) if is_differentiable(x) else x for x in carried]
            return eval_jaxpr(body.jaxpr, body.consts, *consts, *carried)

        changed = eqn.replace(
            params={**eqn.params, "body_jaxpr": jax.make_jaxpr(step)(*body.in_avals)}
        )
        return bind_equation(changed, *operands)

    return rewrite(closed, {while_p: loop})


def _reversible_site(body: ClosedJaxpr) -> str | None:
    """Return the QNode and line of a tagged loop, for errors; None if the loop is not tagged.

    ``body`` is the jaxpr of the loop's body, which contains the tag.
    """
    tags = (
        eqn.params["tag"] for eqn in iterate_equations(body.jaxpr) if _ReversibleTag.is_tagging(eqn)
    )
    return next((tag.where for tag in tags), None)


def has_dynamic_loop(closed: ClosedJaxpr) -> bool:
    """Return whether a jaxpr has a ``while``, at any depth."""
    return any(eqn.primitive is while_p for eqn in iterate_equations(closed.jaxpr))


@dataclass(frozen=True)
class _SplitLoop:
    """A ``while`` loop split into a nonlinear part, which computes residuals, and a linear part.

    In the derivative of a loop, the linear part computes the tangents. `_transpose` makes the
    object, and `_run_reversed` transposes the linear part.

    Attributes:
        first: carried values of the nonlinear part before the first iteration.
        is_unfinished: takes these carried values; returns whether another iteration follows, a bool
            scalar.
        forward: takes these carried values before an iteration; returns the values after it, and
            its residuals.
        reverse: takes the residuals of an iteration, and the cotangents of the linear carried
            values after it; returns its contributions to the cotangents of the linear constants,
            and the cotangents of the linear carried values before it.
    """

    first: list[Any]
    is_unfinished: Callable[[list[Any]], Any]
    forward: Callable[[list[Any]], tuple[list[Any], list[Any]]]
    reverse: Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]


def _transpose_with_fallback(transpose_with_jax: Callable[..., Any]) -> Callable[..., Any]:
    """Make a transpose rule of ``while`` that uses checkpoints or JAX's rule.

    Args:
        transpose_with_jax: JAX's rule, which raises an error for most loops. The new rule calls it
            for loops that are neither tagged nor inside of `enable_while_transpose`.
    """

    def transpose(cotangents: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        """Transpose a loop by checkpoints if it is tagged or inside of `enable_while_transpose`.

        JAX's rule transposes all other loops.
        """
        where = trace_state().transposing or _reversible_site(params["body_jaxpr"])
        if where is None:
            return list(transpose_with_jax(cotangents, *args, **params))
        # Nested loops are transposed too.
        with override_trace_state(transposing=where):
            return _transpose(where, cotangents, *args, **params)

    return transpose


def _transpose(where: str, cotangents: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    """Transpose a ``while`` equation, recomputing its residuals from checkpoints.

    Args:
        where: description of the derivative, for errors.
        cotangents: cotangents of the results, some of them symbolic zeros.
        *args: operands; linear operands are ``UndefinedPrimal``.
        **params: parameters of the equation.

    Returns:
        for each operand its cotangent if it is linear, else None.

    Raises:
        DifferentiableCompileError: if a recomputed call with side effects has a result that the
            derivative needs.
    """
    if all(type(cotangent) is ad.Zero for cotangent in cotangents):
        # The equation is kept for its effects. Return arrays, as the transpose of scan rejects
        # symbolic zeros.
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
    # Remove dead code first, so that nothing is recomputed needlessly: gates of a circuit, for
    # example, must not be applied twice.
    n_residuals = len(linear.in_avals) - n_linear
    linear, used = eliminate_dead_code(
        linear, [True] * len(linear.out_avals), [False] * n_residuals + [True] * n_linear
    )
    _, cond_inputs = eliminate_dead_code(cond, [True])
    needed = _select(is_known, cond_inputs[n_cond:])
    known, used_consts, needed = prune_loop_body(
        known, sum(is_known_const), needed, used[:n_residuals]
    )
    is_needed = _scatter_flags(needed, is_known)
    cond, used = eliminate_dead_code(cond, [True], [False] * n_cond + is_needed)
    known_consts = _select(used_consts, _select(is_known_const, consts))
    known_cond_consts = _select(used[:n_cond], cond_consts)

    def is_unfinished(values: list[Any]) -> Any:
        """Evaluate the loop's condition; for a batched loop, whether any element continues."""
        return jnp.any(eval_jaxpr(cond.jaxpr, cond.consts, *known_cond_consts, *values)[0])

    def forward(values: list[Any]) -> tuple[list[Any], list[Any]]:
        """Evaluate the nonlinear part of an iteration; return carried values and residuals."""
        results = eval_jaxpr(known.jaxpr, known.consts, *known_consts, *values)
        return results[: len(values)], results[len(values) :]

    def reverse(residuals: list[Any], after: list[Any]) -> tuple[list[Any], list[Any]]:
        """Transpose the linear part of an iteration.

        Args:
            residuals: residuals of the iteration.
            after: cotangents of the linear carried values after the iteration.

        Returns:
            the cotangents of the linear constants, and of the linear carried values before it.
        """
        undefined = [ad.UndefinedPrimal(aval) for aval in linear.in_avals[len(residuals) :]]
        found = transpose_jaxpr(linear, [*residuals, *undefined], after)[len(residuals) :]
        before = [_instantiate(ct, x.aval) for ct, x in zip(found, undefined, strict=True)]
        return before[: sum(are_linear_consts)], before[sum(are_linear_consts) :]

    const_cts, carried_cts = _run_reversed(
        _SplitLoop(
            list(map(jnp.asarray, _select(is_needed, init))), is_unfinished, forward, reverse
        ),
        [_zeros(const.aval) for const in _select(are_linear_consts, consts)],
        [
            _instantiate(ct, aval)
            for ct, aval in zip(
                _select(are_linear, cotangents), _select(are_linear, body.out_avals), strict=True
            )
        ],
    )
    # The tangent of a carried value may be a symbolic zero before the loop. Such an argument gets
    # no cotangent.
    arg_cts = [
        *_scatter_values(const_cts, are_linear_consts),
        *_scatter_values(carried_cts, are_linear),
    ]
    n_args = len(args) - len(arg_cts)
    results = [*[None] * n_args, *arg_cts]
    results = [
        ct if ad.is_undefined_primal(arg) else None for ct, arg in zip(results, args, strict=True)
    ]
    # For a batched condition, copies of its constants precede all arguments.
    return results[len(args) - _count_operands(params) :]


def _count_operands(params: dict[str, Any]) -> int:
    """Return the number of operands of a ``while`` equation, from its parameters."""
    return len(params["cond_jaxpr"].in_avals) + params["body_nconsts"]


def _run_reversed(
    loop: _SplitLoop, const_cts: list[Any], carried_cts: list[Any]
) -> tuple[list[Any], list[Any]]:
    """Transpose a loop: compute the cotangents of linear constants and initial values.

    Emits a loop that counts iterations, and a loop that reverses them from the last to the first,
    recomputing residuals from checkpoints. A checkpoint is the carried values before an iteration,
    with the index of the iteration; checkpoints are stored in a stack of arrays of fixed length.

    Args:
        loop: the loop, split into its nonlinear and its linear part.
        const_cts: zeros in the types of the linear constants.
        carried_cts: cotangents of the final carried values.

    Returns:
        the cotangents of the linear constants and of the initial carried values.
    """

    def advance(values: list[Any]) -> list[Any]:
        """Compute the carried values after an iteration, without residuals."""
        return loop.forward(values)[0]

    # A checkpoint has the index of an iteration and the carried values before it.
    def find_state(top: Any, checkpoints: list[Any]) -> list[Any]:
        """Read a checkpoint: an iteration's index, and the carried values before it.

        Args:
            top: index of the checkpoint.
            checkpoints: the arrays of the stack.
        """
        return [
            lax.dynamic_index_in_dim(stack, top, keepdims=False, allow_negative_indices=False)
            for stack in checkpoints
        ]

    def advance_checkpoint(target: Any, checkpoint_stack: Any) -> Any:
        """Compute iterations from the last checkpoint towards ``target``; push a new checkpoint.

        Args:
            target: index of the iteration to reverse next.
            checkpoint_stack: index of the last checkpoint, and the arrays of checkpoints.

        Returns:
            the new stack.
        """
        top, checkpoints = checkpoint_stack
        number, *values = find_state(top, checkpoints)
        distance = target - number
        free = n_slots - 1 - top
        half = jnp.maximum(lax.div(free, jnp.int32(2)), 1)
        even = jnp.where(free < 2, distance, lax.div(distance + half - 1, half))
        stride = jnp.where(distance <= free, 1, even)
        values = lax.fori_loop(0, stride, lambda _, values: advance(values), values)
        return top + 1, [
            lax.dynamic_update_index_in_dim(stack, value, top + 1, 0, allow_negative_indices=False)
            for stack, value in zip(checkpoints, [number + stride, *values], strict=True)
        ]

    def reverse_iteration(state: Any) -> Any:
        """Reverse the last iteration that has not been reversed yet.

        Args:
            state: tuple of the number of iterations left, the checkpoint stack as in
                `advance_checkpoint`, and the lists of cotangents of the linear constants, summed
                so far, and of the carried values after this iteration.

        Returns:
            the tuple for the next call: one iteration less, and cotangents of the carried values
            before this iteration.
        """
        n_left, checkpoint_stack, const_cts, carried_cts = state
        target = n_left - 1
        top, checkpoints = lax.while_loop(
            lambda checkpoint_stack: find_state(*checkpoint_stack)[0] < target,
            lambda checkpoint_stack: advance_checkpoint(target, checkpoint_stack),
            checkpoint_stack,
        )
        _, residuals = loop.forward(find_state(top, checkpoints)[1:])
        more, carried_cts = loop.reverse(residuals, carried_cts)
        const_cts = [total + one for total, one in zip(const_cts, more, strict=True)]
        return target, (jnp.maximum(top - 1, 0), checkpoints), const_cts, carried_cts

    n_iterations, _ = lax.while_loop(
        lambda state: loop.is_unfinished(state[1]),
        lambda state: (state[0] + 1, advance(state[1])),
        (jnp.int32(0), loop.first),
    )
    n_slots = _count_checkpoints(loop.first)
    first = [jnp.int32(0), *loop.first]
    checkpoint_stack = (
        jnp.int32(0),
        [jnp.broadcast_to(value, (n_slots, *value.shape)) for value in first],
    )
    state = lax.while_loop(
        lambda state: state[0] > 0,
        reverse_iteration,
        (n_iterations, checkpoint_stack, const_cts, carried_cts),
    )
    return state[2:]


def _count_checkpoints(values: Sequence[Any]) -> int:
    """Return how many checkpoints of these carried values fit the memory limit.

    The number is at least `_FEWEST`, also if these exceed the limit, and at most `_MOST`.
    """
    size = sum(math.prod(value.shape) * value.dtype.itemsize for value in values)
    return min(max(_CHECKPOINT_BYTES // max(size, 1), _FEWEST), _MOST)


def _split_body(
    body: ClosedJaxpr, are_linear_consts: list[bool], are_linear: list[bool]
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool]]:
    """Split a loop body into a nonlinear (known) and a linear part.

    A value is linear if it depends on the loop's linear inputs: tangents, in the derivative of a
    loop. A carried value that becomes linear in an iteration is linear from the start, so the split
    is repeated until it no longer changes.

    Args:
        body: jaxpr of one iteration: takes constants and carried values.
        are_linear_consts: for each constant, whether it is linear.
        are_linear: for each carried value, whether it is linear before the loop.

    Returns:
        the known part, which also returns residuals; the linear part, which takes the residuals
        first; and for each carried value whether it is linear in any iteration.
    """
    while True:
        known, linear, found, _ = partial_eval_jaxpr_nounits(
            body, [*are_linear_consts, *are_linear], instantiate=are_linear
        )
        if list(found) == are_linear:
            return known, linear, are_linear
        are_linear = [a or b for a, b in zip(are_linear, found, strict=True)]


def _make_batched_body(cond: ClosedJaxpr, n_cond: int, body: ClosedJaxpr) -> ClosedJaxpr:
    """Make a loop body with a batch axis, which changes only elements that are not finished.

    An element is finished if the loop's condition is false for it.

    Args:
        cond: jaxpr of the loop's condition, whose result has a batch axis.
        n_cond: number of constants of `cond`.
        body: jaxpr of one iteration.

    Returns:
        the jaxpr of an iteration, with the constants of `cond` before the constants of `body`.
    """
    n_consts = len(body.in_avals) - len(body.out_avals)

    def step(*args: Any) -> list[Any]:
        """Run the body, and select the previous carried values for finished elements.

        Args:
            *args: constants of the condition, constants of the body, and carried values.
        """
        cond_consts, consts, carried = _split(args, n_cond, n_consts)
        (is_unfinished,) = eval_jaxpr(cond.jaxpr, cond.consts, *cond_consts, *carried)
        after = eval_jaxpr(body.jaxpr, body.consts, *consts, *carried)
        return select_active_elements(is_unfinished, after, carried)

    return jax.make_jaxpr(step)(*cond.in_avals[:n_cond], *body.in_avals)


def _split(values: Sequence[Any], *sizes: int) -> list[list[Any]]:
    """Split a sequence into lists of the given sizes, and a last list of the rest."""
    ends = [0, *itertools.accumulate(sizes), len(values)]
    return [list(values[start:end]) for start, end in itertools.pairwise(ends)]


def _select(chosen: Iterable[bool], values: Iterable[Any]) -> list[Any]:
    """List the values whose flag in `chosen` is True."""
    return [value for value, yes in zip(values, chosen, strict=True) if yes]


def _scatter_values(values: Iterable[Any], places: Sequence[bool]) -> list[Any]:
    """List for each flag in `places` the next of `values` if it is True, else None.

    The values ``a, b`` and flags ``[True, False, True]`` give ``[a, None, b]``.
    """
    rest = iter(values)
    return [next(rest) if yes else None for yes in places]


def _scatter_flags(chosen: Iterable[bool], places: Sequence[bool]) -> list[bool]:
    """Scatter the flags `chosen` to the places that are True; all other flags are False."""
    return [bool(yes) for yes in _scatter_values(chosen, places)]


def _invert_flags(flags: Iterable[bool]) -> list[bool]:
    """Negate each bool of a list."""
    return [not flag for flag in flags]


def _zeros(aval: Aval) -> Any:
    """Return zeros with the shape and dtype of an abstract value."""
    return jnp.zeros(aval.shape, aval.dtype)


def _instantiate(cotangent: Operand, aval: Aval) -> Any:
    """Replace a symbolic zero or None by zeros of the type `aval`."""
    is_zero = cotangent is None or type(cotangent) is ad.Zero
    return _zeros(aval) if is_zero else cotangent
