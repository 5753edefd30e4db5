"""Callbacks in programs for other devices than the CPU are JAX's own callbacks there.

Our runtime calls Python on the host.  A program on a GPU or TPU calls it by JAX's
``pure_callback``, ``io_callback``, ``debug.callback`` and ``buffer_callback``, which know the
platform.  The user's function is wrapped as on the CPU: arrays are read-only, results are checked,
and exceptions reach the caller unchanged.
"""

import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import jax
import numpy as np
from jax.experimental import io_callback
from jax.experimental.buffer_callback import buffer_callback
from jax.extend.mlir.dialects import func
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop.base.ir_types import aval_of
from bellhop.compiler.context import lowering_state, lowering_with
from bellhop.compiler.failures import raise_failures_of_plain_jits, told_by_number
from bellhop_mlir._walk import string
from bellhop_mlir.dialects.callback import is_token
from bellhop_mlir.dialects.callback_kinds import KINDS
from bellhop_mlir.transforms.callbacks.delegate_callbacks import KIND_MARK, MARK
from bellhop_runtime import Callback

if TYPE_CHECKING:
    from bellhop.compiler.buffer_target import BufferTarget
    from bellhop.compiler.target import CallbackTarget


def is_delegated(platform: str) -> bool:
    """Tell whether callbacks in programs for a platform are JAX's."""
    return platform != "cpu" or lowering_state().delegates


def delegated_everywhere() -> contextlib.AbstractContextManager[None]:
    """Delegate on the CPU too, so that it can be tested where there is nothing else."""
    return lowering_with(delegates=True)


class Delegates:
    """The functions that a program for another device calls, by their numbers.

    Args:
        targets: the Python functions.
        callbacks: what calls them, and then what runs the program's own regions.
    """

    def __init__(self, targets: Sequence["CallbackTarget"], callbacks: Sequence[Callback]) -> None:
        self._targets = targets
        self._callbacks = callbacks

    def define(self, ctx: mlir.LoweringRuleContext, module: ir.Module) -> None:
        """Give the functions that stand for callbacks in a module the bodies that JAX makes.

        The bodies hold the callbacks by us alone: an executable is closed to the garbage
        collector, and they may refer to what holds it.
        """
        held = weakref.ref(self)
        for op in module.body.operations:
            function = op.operation
            if MARK not in function.attributes:
                continue
            number = ir.IntegerAttr(function.attributes[MARK]).value
            kind = string(function, KIND_MARK)
            del function.attributes[MARK]
            del function.attributes[KIND_MARK]
            self._define(ctx, function, number, kind, held)

    def _define(
        self,
        ctx: mlir.LoweringRuleContext,
        function: ir.Operation,
        number: int,
        kind: str,
        held: weakref.ref["Delegates"],
    ) -> None:
        type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        inputs, results = list(type_.inputs), list(type_.results)
        is_ordered = bool(inputs) and is_token(inputs[0])
        avals = [aval_of(type_) for type_ in inputs[is_ordered:]]
        out_avals = [aval_of(type_) for type_ in results[is_ordered:]]
        if number < len(self._targets) and self._targets[number].writes:
            target = cast("BufferTarget", self._targets[number])
            find = cast("Callable[[], BufferTarget]", lambda: _alive(held)._targets[number])
            delegate = _writing(target, find, out_avals, kind)
        else:
            if number < len(self._targets):
                _check_delegated(self._targets[number])
            run = _Run(lambda: _alive(held)._callbacks[number], out_avals, kind)
            delegate = _returning(run, out_avals, kind, ordered=is_ordered)
        block = function.regions[0].blocks.append(*inputs)
        with ir.InsertionPoint(block), function.location:
            operands = list(block.arguments)
            token = operands.pop(0) if is_ordered else None
            inner = ctx.replace(avals_in=avals, avals_out=out_avals)
            values, token = _lower(inner, delegate, operands, token)
            func.ReturnOp(values if token is None else [token, *values])


def _check_delegated(target: "CallbackTarget") -> None:
    if target.bars is not None:
        raise NotImplementedError(
            f"the progress of a loop (at {target.site}) is shown by programs on the CPU, and this "
            "loop runs on another device, which would wait for the host in every iteration. Show "
            "that of a loop around it."
        )
    if target.takes_device:
        raise NotImplementedError(
            f"{target.called} asks for the device, "
            "which JAX's callbacks do not tell. Leave it out, or call it on the CPU."
        )


def _alive(held: weakref.ref[Delegates]) -> Delegates:
    delegates = held()
    assert delegates is not None, "a region keeps the functions that it calls"
    return delegates


class _Run:
    """What JAX calls on the host: the callback, as a program of ours would call it."""

    def __init__(
        self,
        callback: Callable[[], Callback],
        result_avals: Sequence[jax.core.ShapedArray],
        kind: str,
        *,
        plain_jit: bool = False,
    ) -> None:
        self._callback = callback
        self._is_tap = not KINDS[kind].is_awaited
        self._result_avals = result_avals
        self._plain_jit = plain_jit

    def __call__(self, *leaves: Any) -> tuple[np.ndarray, ...]:
        arguments = [np.array(leaf, order="C", copy=None) for leaf in leaves]
        if self._is_tap:
            Callback.tap(self._callback(), arguments)
            return ()
        results = [np.empty(aval.shape, aval.dtype) for aval in self._result_avals]
        with told_by_number(self._plain_jit):
            self._callback()(arguments, results)
        return tuple(results)


def _returning(
    run: _Run,
    result_avals: Sequence[jax.core.ShapedArray],
    kind: str,
    *,
    ordered: bool,
    partitioned: bool = False,
) -> Callable[..., Any]:
    """Return the call by JAX of what returns its results."""
    types = tuple(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in result_avals)
    if KINDS[kind].is_pure:
        return lambda *args: jax.pure_callback(run, types, *args)
    if KINDS[kind].only_reports or partitioned:
        # JAX's calls of each device return nothing.
        assert not types

        def report(*args: Any) -> None:
            run(*args)

        def call(*args: Any) -> tuple[()]:
            jax.debug.callback(report, *args, ordered=ordered, partitioned=partitioned)
            return ()

        return call
    return lambda *args: io_callback(run, types, *args, ordered=ordered)


def _writing(
    target: "BufferTarget",
    find: Callable[[], "BufferTarget"],
    result_avals: Sequence[jax.core.ShapedArray],
    kind: str,
    *,
    plain_jit: bool = False,
) -> Callable[..., Any]:
    """Return the call by JAX of what writes its results."""

    def run(context: Any, out: Sequence[Any], *args: Any) -> None:
        with told_by_number(plain_jit):
            find().write(context, out, args)

    types = tuple(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in result_avals)
    return buffer_callback(
        run,
        types,
        has_side_effect=not KINDS[kind].is_pure,
        input_output_aliases=dict(target.aliases),
        command_buffer_compatible=target.command_buffer_compatible,
    )


def lower_by_jax(
    ctx: mlir.LoweringRuleContext,
    target: "CallbackTarget",
    kind: str,
    operands: Sequence[ir.Value],
    token: ir.Value | None,
) -> tuple[list[ir.Value], ir.Value | None]:
    """Lower a call in a program of JAX's own, which then keeps the function alive.

    Returns:
        the results, and the next token where there is one.
    """
    raise_failures_of_plain_jits()
    if target.writes:
        writing = cast("BufferTarget", target)
        delegate = _writing(writing, lambda: writing, ctx.avals_out, kind, plain_jit=True)
    else:
        _check_delegated(target)
        callback = target.bind()
        run = _Run(lambda: callback, ctx.avals_out, kind, plain_jit=True)
        delegate = _returning(
            run,
            ctx.avals_out,
            kind,
            ordered=token is not None,
            partitioned=target.partitioned,
        )
    return _lower(ctx, delegate, operands, token)


def _lower(
    ctx: mlir.LoweringRuleContext,
    function: Callable[..., Any],
    operands: Sequence[ir.Value],
    token: ir.Value | None,
) -> tuple[list[ir.Value], ir.Value | None]:
    lowered = mlir.lower_fun(lambda *args: tuple(function(*args)), multiple_results=True)
    if token is None:
        inner = ctx.replace(tokens_in=mlir.TokenSet(), tokens_out=None)
        return list(lowered(inner, *operands)), None
    # JAX orders its own effects by their own tokens.
    specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in ctx.avals_in]
    (effect,) = jax.make_jaxpr(function)(*specs).effects
    inner = ctx.replace(tokens_in=mlir.TokenSet({effect: token}), tokens_out=None)
    results = list(lowered(inner, *operands))
    return results, inner.tokens_out.get(effect)
