"""Lowering of callbacks on GPUs and TPUs to JAX's own callbacks.

Bellhop's runtime calls Python on the host.  A program on a GPU or TPU uses the custom call of JAX
callbacks on that platform (``mlir.emit_python_callback``), for all callback kinds::

    callback.call(%token, %x) {callee = @f, kind = "debug"}                     in a qjit program
    stablehlo.custom_call @xla_ffi_python_gpu_callback(%token, %x) {index = 0}      on a GPU

and ``buffer_callback`` for output buffers.  The user's function is wrapped as on the CPU: arrays
are read-only, results are checked, and exceptions reach the caller unchanged.
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
from bellhop.mesh.joint_runs import JaxCallbackExceptions
from bellhop_mlir._walk import function_type, string_attribute
from bellhop_mlir.dialects.callback import is_token
from bellhop_mlir.dialects.callback_kinds import KINDS
from bellhop_mlir.transforms.callbacks.delegate_callbacks import KIND_MARK, MARK
from bellhop_runtime import Callback, call_in_default_environment

if TYPE_CHECKING:
    from bellhop.compiler.buffer_callback_target import BufferCallbackTarget
    from bellhop.compiler.callback_target import CallbackTarget


def uses_jax_callbacks(platform: str) -> bool:
    """Return whether programs for a platform call Python by JAX's own callbacks.

    True for all platforms but ``"cpu"``, where programs call Bellhop's runtime. True for ``"cpu"``
    too inside of `delegate_everywhere`.
    """
    return platform != "cpu" or lowering_state().delegates


def delegate_everywhere() -> contextlib.AbstractContextManager[None]:
    """Return a context in which CPU programs use JAX's own callbacks, for tests."""
    return override_lowering_state(delegates=True)


class DelegatedCallbacks:
    """The callbacks of one program for a GPU or TPU, which JAX calls on the host.

    Bellhop's runtime runs on CPUs only. Made for each such program when its passes have run.

    Args:
        targets: the callbacks, by the index in their declarations.
        callbacks: the runtime's `Callback` for each target, which converts and checks arrays.
        device: name of the program's device, which waits for the callbacks.
    """

    def __init__(
        self, targets: Sequence["CallbackTarget"], callbacks: Sequence[Callback], device: str
    ) -> None:
        self._targets = targets
        self._callbacks = callbacks
        self._device = device

    def define(self, ctx: mlir.LoweringRuleContext, module: ir.Module) -> None:
        """Define the callback functions that a module only declares, in place.

        The body of each function becomes a custom call of a JAX callback. A function is a callback
        if it has the attribute ``MARK``, its index in `targets`; this attribute and ``KIND_MARK``,
        the kind of the callback, are removed. The caller must keep this object alive, as the custom
        calls reference it weakly.

        Args:
            ctx: context of the lowering rule that merges the module.
            module: the module of a program.
        """
        # Weakly, since the garbage collector cannot see inside an executable, and callbacks may
        # reference the executable's owner.
        preserve_exceptions(ctx.module_context)
        keepalive = weakref.ref(self)
        for op in module.body.operations:
            function = op.operation
            if MARK not in function.attributes:
                continue
            index = ir.IntegerAttr(function.attributes[MARK]).value
            kind = string_attribute(function, KIND_MARK)
            del function.attributes[MARK]
            del function.attributes[KIND_MARK]
            self._define(ctx, function, index, kind, keepalive)

    def _define(
        self,
        ctx: mlir.LoweringRuleContext,
        function: ir.Operation,
        index: int,
        kind: str,
        keepalive: weakref.ref["DelegatedCallbacks"],
    ) -> None:
        """Build the body of one callback function: a custom call of a JAX callback.

        Args:
            ctx: context of the lowering rule that merges the module.
            function: the ``func.func`` without a body.
            index: index of the callback in the targets.
            kind: kind of the callback, a key of ``KINDS`` such as ``"pure"``.
            keepalive: weak reference to this object, which the custom call dereferences.
        """
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
                buffer_target = cast("BufferCallbackTarget", target)
                find = cast(
                    "Callable[[], BufferCallbackTarget]",
                    lambda: _live_delegates(keepalive)._targets[index],
                )
                values = _call_with_buffers(inner, buffer_target, find, kind, operands)
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
    """Raise an error for a callback that JAX's callback mechanism cannot call.

    Raises:
        NotImplementedError: for progress bars, and for functions that take the device.
    """
    if target.bars is not None:
        raise NotImplementedError(
            f"the progress bar of the loop at {target.site} is supported on the CPU only: another "
            "device would wait for the host in every iteration. Show the progress of a loop on the "
            "CPU, or leave the progress bar out."
        )
    if target.takes_device:
        raise NotImplementedError(
            f"{target.name_and_site} passes the device to its function, which is supported on the "
            "CPU only. Leave out the option tap_with_device or call_with_device, or call the "
            "function in a program on the CPU."
        )


def _live_delegates(keepalive: weakref.ref[DelegatedCallbacks]) -> DelegatedCallbacks:
    """Dereference a weak reference to an object that the program's `Region` keeps alive."""
    delegates = keepalive()
    assert delegates is not None, "a region keeps its functions alive"
    return delegates


class _HostCallback:
    """The Python function of a JAX callback, which calls a `Callback` of Bellhop.

    Args:
        callback: function without arguments that returns the `Callback`, which takes a list of
            arguments and a list of arrays to write the results into.
        result_avals: types of the results.
        kind: kind of the callback, a key of ``KINDS`` such as ``"pure"``.
        exceptions: for plain ``jax.jit``: collects the exceptions of the program's calls, which
            then return zeros. None for a Bellhop program.
        device: name of the device that waits for the call; None if unknown.
    """

    def __init__(
        self,
        callback: Callable[[], Callback],
        result_avals: Sequence[jax.core.ShapedArray],
        kind: str,
        *,
        exceptions: JaxCallbackExceptions | None = None,
        device: str | None = None,
    ) -> None:
        self._callback = callback
        self._is_tap = not KINDS[kind].is_awaited
        self._result_avals = result_avals
        self._exceptions = exceptions
        self._device = device
        if device is not None:
            propagate_waits_to_threads()

    def __call__(self, *leaves: Any) -> tuple[np.ndarray, ...]:
        """Call Bellhop's callback without flushing subnormal numbers to zero.

        XLA's threads flush such numbers; the callback computes in the default environment.

        Args:
            *leaves: the arguments, NumPy or JAX arrays.

        Returns:
            a tuple of NumPy arrays.
        """
        # XLA's threads flush subnormal numbers to zero; the callback needs the default mode.
        return call_in_default_environment(self._call_callback, *leaves)

    def _call_callback(self, *leaves: Any) -> tuple[np.ndarray, ...]:
        """Call Bellhop's callback with NumPy arrays; return its results.

        Args:
            *leaves: the arguments, NumPy or JAX arrays.

        Returns:
            a tuple of NumPy arrays; empty for a tap, which only queues the call. In a plain
            ``jax.jit`` whose devices wait for each other, zeros if this or an earlier callback of
            the execution has failed.

        Raises:
            RuntimeError: naming the id under which the runtime keeps the callback's exception.
        """
        arguments = [np.array(leaf, order="C", copy=None) for leaf in leaves]
        if self._is_tap:
            Callback.tap(self._callback(), arguments)
            return ()
        results = [np.empty(aval.shape, aval.dtype) for aval in self._result_avals]

        def call() -> None:
            self._callback()(arguments, results)

        # As in JAX's callbacks, JAX code inside uses the host: the program's device is busy.
        with (
            mark_waiting(self._device),
            pass_by_failure_id(self._exceptions is not None),
            jax.default_device(host_device()),
            without_mesh(),
        ):
            if self._exceptions is None:
                call()
            elif not self._exceptions.call(call):
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
    """Emit JAX's custom call of a Python function that returns its results.

    Args:
        ctx: context with the types of the call's arguments and results.
        run: the function.
        kind: kind of the callback, a key of ``KINDS`` such as ``"pure"``.
        operands: the arguments.
        token: token before the call, or None for an unordered call.
        partitioned: whether each device of a partitioned program calls the function with its shard.

    Returns:
        the list of results, and the token after the call or None.
    """
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
    """Emit JAX's ``buffer_callback`` of a function that writes into output buffers.

    Args:
        ctx: context with the types of the call's arguments and results.
        target: the callback, whose options are read now.
        find: returns the callback at run time.
        kind: kind of the callback, a key of ``KINDS`` such as ``"pure"``.
        operands: the arguments.
        plain_jit: whether the program is a plain ``jax.jit``; selects the message by which the
            caller finds the original exception (`pass_by_failure_id`).
    """

    def run(context: Any, out: Sequence[Any], *args: Any) -> None:
        """Call the callback's function with the output buffers and argument buffers of one call."""
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


def lower_to_jax_callback(
    ctx: mlir.LoweringRuleContext,
    target: "CallbackTarget",
    kind: str,
    operands: Sequence[ir.Value],
    token: ir.Value | None,
) -> tuple[list[ir.Value], ir.Value | None]:
    """Lower a callback in a ``jax.jit`` module to JAX's own callback.

    Used in modules for GPUs and TPUs, and for ``partitioned=True`` in modules that XLA partitions.
    The module keeps the callback alive.

    Args:
        ctx: context of the lowering rule.
        target: the callback.
        kind: kind of the callback, a key of ``KINDS`` such as ``"pure"``.
        operands: operands of the rule.
        token: token before the call, or None for an unordered call.

    Returns:
        the list of results, and the next token or None: ``token`` itself for output buffers, whose
        calls are not ordered.

    Raises:
        NotImplementedError: for progress bars, and for functions that take the device.
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
    """Emit JAX's own callback of a Python function in a ``jax.jit`` module.

    The module's executable keeps the function alive.

    Args:
        ctx: context of the lowering rule.
        call: takes a list of arguments, and a list of arrays to write the results into.
        kind: kind of the callback, a key of ``KINDS`` such as ``"pure"``.
        operands: operands of the rule.
        token: token before the call, or None for an unordered call.
        partitioned: whether each device of a partitioned program calls it with its shard.

    Returns:
        the list of results, and the token after the call or None.
    """
    exceptions = preserve_exceptions(ctx.module_context).exceptions
    run = _HostCallback(lambda: call, ctx.avals_out, kind, exceptions=exceptions)
    ctx = _with_key_data_types(ctx, operands)
    return _emit_call(ctx, run, kind, operands, token, partitioned=partitioned)


def _with_key_data_types(
    ctx: mlir.LoweringRuleContext, operands: Sequence[ir.Value]
) -> mlir.LoweringRuleContext:
    """Return a copy of `ctx` whose ``avals_in`` are the types of the MLIR operands.

    The types differ for typed random keys only, which are lowered to their uint32 data.
    """
    return ctx.replace(avals_in=[to_aval(operand.type) for operand in operands])
