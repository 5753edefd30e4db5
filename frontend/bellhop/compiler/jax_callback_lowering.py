"""Callbacks in programs for other devices than the CPU are JAX's own callbacks there.

Our runtime calls Python on the host.  A program on a GPU or TPU calls it by the custom call that
JAX lowers its own callbacks to there (``mlir.emit_python_callback``), whatever the flavour::

    callback.call(%token, %x) {callee = @f, kind = "debug"}                         before
    stablehlo.custom_call @xla_ffi_python_gpu_callback(%token, %x) {index = 0}      on a GPU

and buffers by ``buffer_callback``.  The user's function is wrapped as on the CPU: arrays are
read-only, results are checked, and exceptions reach the caller unchanged.
"""

import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import jax
import numpy as np
from jax.experimental.buffer_callback import buffer_callback
from jax.extend.mlir.dialects import func
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax.private import callback_sharding, without_mesh
from bellhop.base.types import to_aval, to_structs
from bellhop.compiler.deadlock_check import mark_waiting, propagate_waits_to_threads
from bellhop.compiler.failures import pass_by_failure_id, preserve_exceptions
from bellhop.compiler.lowering_context import lowering_state, override_lowering_state
from bellhop.devices.devices import host_device
from bellhop.mesh.joint_runs import Delegated
from bellhop_mlir._walk import function_type, string_attribute
from bellhop_mlir.dialects.callback import is_token
from bellhop_mlir.dialects.callback_kinds import KINDS
from bellhop_mlir.transforms.callbacks.delegate_callbacks import KIND_MARK, MARK
from bellhop_runtime import Callback, call_in_default_environment

if TYPE_CHECKING:
    from bellhop.compiler.buffer_callback_target import BufferCallbackTarget
    from bellhop.compiler.callback_target import CallbackTarget


def is_delegated(platform: str) -> bool:
    """Tell whether callbacks in programs for a platform are JAX's."""
    return platform != "cpu" or lowering_state().delegates


def delegate_everywhere() -> contextlib.AbstractContextManager[None]:
    """Delegate on the CPU too, so that it can be tested where there is nothing else."""
    return override_lowering_state(delegates=True)


class Delegates:
    """The functions that a program for another device calls, by their numbers.

    Args:
        targets: the Python functions.
        callbacks: what calls them.
        device: the name of that which waits for them.
    """

    def __init__(
        self, targets: Sequence["CallbackTarget"], callbacks: Sequence[Callback], device: str
    ) -> None:
        self._targets = targets
        self._callbacks = callbacks
        self._device = device

    def define(self, ctx: mlir.LoweringRuleContext, module: ir.Module) -> None:
        """Give the functions that stand for callbacks in a module the bodies that JAX makes.

        The bodies hold the callbacks by us alone: an executable is closed to the garbage
        collector, and they may refer to what holds it.
        """
        preserve_exceptions(ctx.module_context)
        held = weakref.ref(self)
        for op in module.body.operations:
            function = op.operation
            if MARK not in function.attributes:
                continue
            number = ir.IntegerAttr(function.attributes[MARK]).value
            kind = string_attribute(function, KIND_MARK)
            del function.attributes[MARK]
            del function.attributes[KIND_MARK]
            self._define(ctx, function, number, kind, held)

    def _define(
        self,
        ctx: mlir.LoweringRuleContext,
        function: ir.Operation,
        index: int,
        kind: str,
        keepalive: weakref.ref["Delegates"],
    ) -> None:
        type_ = function_type(function)
        inputs, results = list(type_.inputs), list(type_.results)
        is_ordered = bool(inputs) and is_token(inputs[0])
        inner = ctx.replace(
            avals_in=[to_aval(type_) for type_ in inputs[is_ordered:]],
            avals_out=[to_aval(type_) for type_ in results[is_ordered:]],
        )
        block = function.regions[0].blocks.append(*inputs)
        with ir.InsertionPoint(block), function.location:
            operands = list(block.arguments)
            token = operands.pop(0) if is_ordered else None
            target = self._targets[index]
            if target.writes:
                writing = cast("BufferCallbackTarget", target)
                find = cast(
                    "Callable[[], BufferCallbackTarget]",
                    lambda: _live_delegates(keepalive)._targets[index],
                )
                values = _call_with_buffers(inner, writing, find, kind, operands)
            else:
                _check_delegated(target)
                run = _HostCallback(
                    lambda: _live_delegates(keepalive)._callbacks[index],
                    inner.avals_out,
                    kind,
                    device=self._device,
                )
                values, token = _emit_call(inner, run, kind, operands, token)
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
            f"{target.name_and_site} asks for the device, "
            "which JAX's callbacks do not tell. Leave it out, or call it on the CPU."
        )


def _live_delegates(keepalive: weakref.ref[Delegates]) -> Delegates:
    delegates = keepalive()
    assert delegates is not None, "a region keeps the functions that it calls"
    return delegates


class _HostCallback:
    """What JAX calls on the host: the callback, as a program of ours would call it."""

    def __init__(
        self,
        callback: Callable[[], Callback],
        result_avals: Sequence[jax.core.ShapedArray],
        kind: str,
        *,
        delegated: Delegated | None = None,
        device: str | None = None,
    ) -> None:
        self._callback = callback
        self._is_tap = not KINDS[kind].is_awaited
        self._result_avals = result_avals
        self._delegated = delegated
        self._device = device
        if device is not None:
            propagate_waits_to_threads()

    def __call__(self, *leaves: Any) -> tuple[np.ndarray, ...]:
        # JAX calls this on threads of XLA, which replace subnormal numbers by zero.
        return call_in_default_environment(self._call_callback, *leaves)

    def _call_callback(self, *leaves: Any) -> tuple[np.ndarray, ...]:
        arguments = [np.array(leaf, order="C", copy=None) for leaf in leaves]
        if self._is_tap:
            Callback.tap(self._callback(), arguments)
            return ()
        results = [np.empty(aval.shape, aval.dtype) for aval in self._result_avals]

        def call() -> None:
            self._callback()(arguments, results)

        # As JAX does: the device of the program is busy until the call returns.
        with (
            mark_waiting(self._device),
            pass_by_failure_id(self._delegated is not None),
            jax.default_device(host_device()),
            without_mesh(),
        ):
            if self._delegated is None:
                call()
            elif not self._delegated.call(call):
                return tuple(map(np.zeros_like, results))
        return tuple(results)


def _emit_call(
    ctx: mlir.LoweringRuleContext,
    run: _HostCallback,
    kind: str,
    operands: Sequence[ir.Value],
    token: ir.Value | None,
    *,
    partitioned: bool = False,
) -> tuple[list[ir.Value], ir.Value | None]:
    """Emit JAX's custom call of what returns its results."""
    results, token, _ = mlir.emit_python_callback(
        ctx,
        run,
        token,
        list(operands),
        ctx.avals_in,
        ctx.avals_out,
        has_side_effect=not KINDS[kind].is_pure,
        returns_token=token is not None,
        partitioned=partitioned,
        sharding=callback_sharding(ctx),
    )
    return list(results), token


def _call_with_buffers(
    ctx: mlir.LoweringRuleContext,
    target: "BufferCallbackTarget",
    find: Callable[[], "BufferCallbackTarget"],
    kind: str,
    operands: Sequence[ir.Value],
    *,
    plain_jit: bool = False,
) -> list[ir.Value]:
    """Lower the call by JAX of what writes its results."""

    def run(context: Any, out: Sequence[Any], *args: Any) -> None:
        with pass_by_failure_id(plain_jit):
            call_in_default_environment(find().write, context, out, args)

    call = buffer_callback(
        run,
        tuple(to_structs(ctx.avals_out)),
        has_side_effect=not KINDS[kind].is_pure,
        input_output_aliases=dict(target.aliases),
        command_buffer_compatible=target.command_buffer_compatible,
    )
    inner = ctx.replace(tokens_in=mlir.TokenSet(), tokens_out=None)
    return list(mlir.lower_fun(call, multiple_results=True)(inner, *operands))


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
    if target.writes:
        preserve_exceptions(ctx.module_context)
        writing = cast("BufferCallbackTarget", target)
        ctx = _with_key_data_types(ctx, operands)
        values = _call_with_buffers(ctx, writing, lambda: writing, kind, operands, plain_jit=True)
        return values, token
    _check_delegated(target)
    return lower_to_python_call(
        ctx, target.bind(), kind, operands, token, partitioned=target.partitioned
    )


def lower_to_python_call(
    ctx: mlir.LoweringRuleContext,
    call: Callable[[list[np.ndarray], list[np.ndarray]], None],
    kind: str,
    operands: Sequence[ir.Value],
    token: ir.Value | None,
    *,
    partitioned: bool = False,
) -> tuple[list[ir.Value], ir.Value | None]:
    """Lower to a call of Python in a program of JAX's own, which then keeps it alive.

    Args:
        ctx: that of a rule.
        call: takes arguments, and arrays that it writes the results into.
        kind: one of ``bellhop_mlir.dialects.callback_kinds``.
        operands: those of the rule.
        token: that before the call, or None.
        partitioned: whether each device of a partitioned program calls with its own part.

    Returns:
        the results, and the next token where there is one.
    """
    delegated = preserve_exceptions(ctx.module_context).delegated
    run = _HostCallback(lambda: call, ctx.avals_out, kind, delegated=delegated)
    ctx = _with_key_data_types(ctx, operands)
    return _emit_call(ctx, run, kind, operands, token, partitioned=partitioned)


def _with_key_data_types(
    ctx: mlir.LoweringRuleContext, operands: Sequence[ir.Value]
) -> mlir.LoweringRuleContext:
    """Return a context in which keys are what they are to a program, arrays of words."""
    return ctx.replace(avals_in=[to_aval(operand.type) for operand in operands])
