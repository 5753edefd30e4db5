"""Support of ``jax.pure_callback``, ``jax.debug.print`` etc. in programs.

JAX stores the functions of a module in its executable, but a Bellhop program is embedded into
another module, whose executable does not have them. So JAX's callbacks are lowered to Bellhop's,
keeping JAX's transformation rules; other references to functions of the executable raise an error.

The functions are wrapped when a program is traced, so that a circuit forbids gates in them, and so
that in a Bellhop program an exception bypasses JAX's code, which would log it. JAX caches traced
functions, so a plain ``jax.jit`` may get wrapped functions too: there a wrapper calls the function
and raises its exception, as JAX does. `keep_exceptions` changes the wrappers of a program that JAX
runs for Bellhop. JAX passes on only the message of an exception, so the message of such a wrapper
identifies the exception (``failures``).
"""

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.interpreters import mlir
from jax.interpreters.mlir import ir
from jax.tree_util import PyTreeDef

from bellhop._jax.patches.callback_lowering import patch_callback_lowering, unwrap_callback
from bellhop._jax.patches.callbacks_in_programs import wrapped_primitives
from bellhop._jax.private import (
    buffer_callback_p,
    equation_lines,
    equation_site,
    is_hidden_file,
    keepalive_functions,
    lower_with_rules,
)
from bellhop.arguments.declared_types import array_type
from bellhop.base.source import (
    callable_site,
    is_in_users_project,
    qualified_name,
    set_function_name,
)
from bellhop.base.types import Operand
from bellhop.compiler.buffer_callback_target import BufferCallbackTarget
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.compiler.failures import pass_by_failure_id
from bellhop.compiler.gates_in_callbacks import current_circuit_name, forbid_gates
from bellhop.compiler.lowering_context import current_lowering
from bellhop.errors import CompileError
from bellhop.jaxprs.equations import change_params, inner_jaxprs
from bellhop.tracing.state import is_tracing
from bellhop_mlir._walk import find_operations, source_line
from bellhop_runtime import call_in_default_environment


class _Thread(threading.local):
    """Per-thread list that receives exceptions of JAX callbacks in a Bellhop program.

    `failures` is None while no Bellhop program of this thread calls such a callback.
    """

    failures: list[BaseException] | None = None


_thread = _Thread()
_UNCHANGED = contextlib.nullcontext()


def call_jax_function(function: Callable[..., Any], leaves: Sequence[Any]) -> Any:
    """Call the function of a JAX callback; raise the exception of the user's function.

    JAX wraps the user's function in another function, which would log the exception.

    Args:
        function: JAX's wrapper of the user's function or of a `JaxCallbackFunction`.
        leaves: leaves of the callback's arguments.

    Returns:
        the results of `function`, a sequence of arrays or numbers.
    """
    failures: list[BaseException] = []
    _thread.failures = failures
    try:
        results = function(*leaves)
    finally:
        _thread.failures = None
    if failures:
        raise failures[0]
    return results


@dataclass(frozen=True)
class JaxCallbackFunction:
    """The user's function of a JAX callback, wrapped for Bellhop programs.

    It replaces the function while a Bellhop program is traced. Instances with equal functions are
    equal, as required of equation parameters.

    Attributes:
        function: the user's function.
        circuit: description of the QNode in which it is called, for errors; None outside of
            circuits.
        keeps_exception: whether, in a program that JAX runs, an exception is replaced by an error
            whose message has the id under which the runtime keeps the exception.
    """

    function: Callable[..., Any]
    circuit: str | None
    keeps_exception: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the user's function without losing its exception in JAX's code.

        Called by a Bellhop program, it stores the exception for `call_jax_function` and returns an
        empty tuple. Called by JAX, it raises the exception, or if `keeps_exception` is set, an
        error whose message identifies the exception.
        """
        function = forbid_gates(self.function, self.circuit)
        failures, _thread.failures = _thread.failures, None
        if failures is None:
            identify = pass_by_failure_id(plain_jit=True) if self.keeps_exception else _UNCHANGED
            with identify:
                return call_in_default_environment(function, *args, **kwargs)
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            failures.append(error)
            # The results are unused, but JAX expects a pytree of arrays.
            return ()


def wrap_for_programs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the user's function of a JAX callback while a Bellhop program is traced.

    The wrapper raises an error for gates in circuits, and stores an exception of the function for
    the program, which raises it.

    Args:
        function: function that the user passed to ``jax.pure_callback`` etc.

    Returns:
        a `JaxCallbackFunction`; `function` itself outside of Bellhop's programs, and if it is
        wrapped already.
    """
    # Transformations bind traced callbacks a second time.
    if not is_tracing() or isinstance(function, JaxCallbackFunction):
        return function
    return JaxCallbackFunction(function, current_circuit_name())


def keep_exceptions(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Rewrite a jaxpr so that errors of JAX callbacks identify the user's exception.

    For programs that JAX runs for Bellhop: JAX passes on only the message of an error. The message
    then has the id under which the runtime keeps the exception, and Bellhop raises the exception.

    Args:
        closed: jaxpr of the program, which may share inner jaxprs with JAX's caches.

    Returns:
        the new jaxpr; `closed` itself if it has no callbacks of JAX.
    """

    def wrap_function(params: dict[str, Any]) -> dict[str, Any]:
        """Return a JAX callback's equation parameters with a wrapped ``callback``.

        The wrapper, a `JaxCallbackFunction`, passes an exception of the user's function by its id.
        """
        function = params["callback"]
        if not isinstance(function, JaxCallbackFunction):
            function = JaxCallbackFunction(function, None)
        return {**params, "callback": replace(function, keeps_exception=True)}

    return change_params(closed, wrapped_primitives(), wrap_function)


def _find_calling_site(callback: Callable[..., Any]) -> str | None:
    """Find the ``file:line`` of the user's code that calls the callback being lowered.

    If a library calls the callback, the equation's own line is the library's. Then the line of the
    innermost function, loop or branch around the equation is used that is in the user's code.

    Args:
        callback: the parameter of the callback's equation.

    Returns:
        the library's line if no line of the user's code is known; None if no line is known.
    """
    site = equation_site()
    if site is not None and _is_users_file(site.rpartition(":")[0]):
        return site
    lowering = current_lowering()
    jaxpr = None if lowering is None else lowering.jaxpr
    return (jaxpr and _find_user_line(jaxpr, callback)) or site


def _is_users_file(file: str) -> bool:
    """Return whether a file belongs to the user's project, and JAX shows it in tracebacks."""
    return is_in_users_project(file) and not is_hidden_file(file)


def _find_user_line(jaxpr: Jaxpr, callback: Callable[..., Any]) -> str | None:
    """Return ``file:line`` of the innermost user code around a callback's equation.

    Args:
        jaxpr: jaxpr in which the equation is searched, at any depth.
        callback: value of the equation's parameter ``callback``.

    Returns:
        None if the equation is not found, and an empty string if no line around it is the user's.
    """
    for eqn in jaxpr.eqns:
        line = "" if eqn.params.get("callback") is callback else None
        for inner in inner_jaxprs(eqn):
            line = _find_user_line(inner, callback) if line is None else line
        if line is not None:
            lines = (f"{file}:{n}" for file, n in equation_lines(eqn) if _is_users_file(file))
            return line or next(lines, "")
    return None


def _to_canonical_array(value: object) -> np.ndarray:
    """Convert a value to a NumPy array, of 32 bits in place of 64 if JAX's 64-bit types are off."""
    array = np.asarray(value)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)


def _lower_jax_callback(
    ctx: mlir.LoweringRuleContext,
    function: Callable[..., Sequence[Any]],
    token: ir.Value | None,
    operands: Sequence[Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *,
    has_side_effect: bool,
    **_: object,
) -> tuple[list[Any], Any, Any]:
    """Lower a JAX callback in a Bellhop program to a ``callback.call`` operation.

    Replaces ``mlir.emit_python_callback`` while a Bellhop program is lowered, and has its
    arguments. ``function`` is JAX's wrapper of the user's function; ``token`` is None for an
    unordered call.

    Returns:
        the results, the token after the call or None, and None in place of an object to keep alive.
    """

    def call(*leaves: Operand) -> tuple[np.ndarray, ...]:
        """Call JAX's wrapper of the user's function; return its results as NumPy arrays."""
        return tuple(map(_to_canonical_array, call_jax_function(function, leaves)))

    # Functions that JAX or a library defines are not user functions.
    traced_function = unwrap_callback(function)
    user_function = traced_function
    if isinstance(traced_function, JaxCallbackFunction):
        set_function_name(user_function := unwrap_callback(traced_function.function), call)
    else:
        call.__name__ = str(ctx.primitive)
    target = CallbackTarget(
        public_name=f"jax.{ctx.primitive}",
        function=call,
        in_tree=jax.tree.structure(((0,) * len(operands), {})),
        out_tree=jax.tree.structure((0,) * len(result_avals)),
        result_avals=tuple(result_avals),
        site=_find_calling_site(traced_function) or callable_site(user_function),
        vmap_method=None,
    )
    call_ctx = ctx.replace(avals_in=operand_avals, avals_out=result_avals)
    results, token = _emit_bellhop_call(call_ctx, target, operands, token, has_side_effect)
    return results, token, None


def _lower_buffer_callback(
    ctx: mlir.LoweringRuleContext,
    *operands: ir.Value,
    callback: Callable[..., None],
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    has_side_effect: bool,
    input_output_aliases: Sequence[tuple[int, int]],
    command_buffer_compatible: bool,
    **_: object,
) -> list[Any]:
    """Lower JAX's ``buffer_callback`` in a Bellhop program to a ``callback.call`` operation.

    The lowering rule that replaces JAX's rule; all parameters but `ctx` and `operands` are the
    parameters of the equation. ``callback`` is the user's function, or its `JaxCallbackFunction`.
    """
    function, circuit = callback, None
    if isinstance(callback, JaxCallbackFunction):
        function, circuit = callback.function, callback.circuit
    target = BufferCallbackTarget(
        public_name="jax.buffer_callback",
        function=function,
        in_tree=in_tree,
        out_tree=out_tree,
        result_avals=tuple(ctx.avals_out),
        site=_find_calling_site(callback) or callable_site(function),
        vmap_method=None,
        aliases=tuple(input_output_aliases),
        command_buffer_compatible=command_buffer_compatible,
        circuit=circuit,
    )
    results, _token = _emit_bellhop_call(ctx, target, operands, None, has_side_effect)
    return results


def _emit_bellhop_call(
    ctx: mlir.LoweringRuleContext,
    target: CallbackTarget,
    operands: Sequence[Any],
    token: ir.Value | None,
    has_side_effect: bool,
) -> tuple[list[Any], Any]:
    """Emit a ``callback.call`` operation in the Bellhop program that is being lowered.

    Args:
        ctx: context of the lowering rule, with the types of the call's arguments and results.
        target: the callback.
        operands: operands of the rule.
        token: token before the call, or None for an unordered call.
        has_side_effect: whether the call must not be removed or merged with equal calls.

    Returns:
        the list of results, and the token after the call or None.

    Raises:
        ResultTypeError: for a result type that programs do not support, such as a too large array.
    """
    lowering = current_lowering()
    assert lowering is not None
    for aval in target.result_avals:
        array_type(f"{target.public_name} (called from {target.site})", aval.shape, aval.dtype)
    return lowering.emit_call(ctx, target, "io" if has_side_effect else "pure", operands, token)


def lower_for_program(traced: Any) -> ir.Module:
    """Lower a traced function to a StableHLO module to merge into another module.

    Callbacks of JAX in it become callbacks of Bellhop: JAX would store their Python functions in
    the executable of the lowered module, which is merged into another module.

    Args:
        traced: JAX's ``Traced``, the result of ``jax.jit(f).trace(...)``.

    Raises:
        CompileError: if another primitive stores a Python function in JAX's executable; names the
            function and the line of the call.
    """
    patch_callback_lowering(_lower_jax_callback, lambda: current_lowering() is not None)
    if (lowering := current_lowering()) is not None:
        lowering.jaxpr = traced.jaxpr.jaxpr
    lowered = lower_with_rules(traced, ((buffer_callback_p, _lower_buffer_callback),))
    module = lowered.compiler_ir("stablehlo")
    if kept := keepalive_functions(lowered):
        calls = [
            op
            for op in find_operations(module.operation, "stablehlo.custom_call")
            if _has_function_index(op)
        ]
        where = ", ".join(sorted({source_line(op) for op in calls})) or "<unknown>"
        names = ", ".join(sorted(map(qualified_name, kept)))
        raise CompileError(
            f"the program calls Python (from {where}) by a primitive that is not "
            f"supported, since it stores the function in JAX's executable: {names}. Call the "
            "function by jax.pure_callback or bellhop.pure_callback, or outside of qjit."
        )
    return module


def _has_function_index(call: ir.Operation) -> bool:
    """Return whether a custom call has the index of a function in JAX's executable."""
    config = call.attributes.get("mhlo.backend_config")
    return isinstance(config, ir.DictAttr) and "index" in config
