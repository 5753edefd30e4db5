"""JAX's own callbacks in our programs: ``jax.pure_callback``, ``jax.debug.print`` and the rest.

JAX hands the functions that a module calls to its executable, and a program of ours is embedded
into another module, whose executable knows nothing of them.  So these calls become calls of ours,
with JAX's rules for transformations and the runtime's for exceptions; whatever else of the process
a module refers to is refused.

Their functions are changed where a program of ours is traced.  Where JAX runs what was traced,
under its transformations or in a plain ``jax.jit``, it carries only the text of an exception; so
that text is a number (``failures``).  Where we do, the exception comes as it is, around JAX's code,
which would log it.  In circuits they make no gates.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir
from jax.interpreters.mlir import ir
from jax.tree_util import PyTreeDef

from bellhop._jax.patches.callback_lowering import patch_callback_lowering, unwrap_callback
from bellhop._jax.private import (
    buffer_callback_p,
    equation_site,
    keepalive_functions,
    lower_with_rules,
)
from bellhop.arguments.declared_types import array_type
from bellhop.base.source import callable_site, qualified_name, set_function_name
from bellhop.base.types import Operand
from bellhop.compiler.buffer_callback_target import BufferCallbackTarget
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.compiler.failures import pass_by_failure_id
from bellhop.compiler.gates_in_callbacks import current_circuit_name, forbid_gates
from bellhop.compiler.lowering_context import current_lowering
from bellhop.errors import CompileError
from bellhop.tracing.state import is_tracing
from bellhop_mlir._walk import find_operations, source_line
from bellhop_runtime import call_in_default_environment


class _Thread(threading.local):
    # Gets what a function of JAX's raises, where a program of ours is calling it.
    failures: list[BaseException] | None = None


_thread = _Thread()


def call_jax_function(function: Callable[..., Any], leaves: Sequence[Any]) -> Any:
    """Call what JAX made of a function, and raise the function's own exceptions."""
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
    """The function of one of JAX's callbacks in a program of ours.

    Those of equal functions are equal, as JAX asks of the parameters of equations.

    Attributes:
        function: the user's.
        circuit: the QNode that it is called in, for errors; None outside of one.
    """

    function: Callable[..., Any]
    circuit: str | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        function = forbid_gates(self.function, self.circuit)
        failures, _thread.failures = _thread.failures, None
        if failures is None:
            with pass_by_failure_id(plain_jit=True):
                return call_in_default_environment(function, *args, **kwargs)
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            failures.append(error)
            # Nobody looks at these results; to JAX they are a pytree of arrays.
            return ()


def wrap_for_programs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of one of JAX's callbacks; changed where a program of ours is traced."""
    # What was traced is bound again under transformations.
    if not is_tracing() or isinstance(function, JaxCallbackFunction):
        return function
    return JaxCallbackFunction(function, current_circuit_name())


def _canonical(value: object) -> np.ndarray:
    array = np.asarray(value)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)


def _emit(
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
    """Lower a call of JAX's to one of ours; the arguments are those of JAX's own function.

    Returns:
        the results, the token after the call where there was one before it, and the function,
        which JAX need not keep alive.
    """

    def called(*leaves: Operand) -> tuple[np.ndarray, ...]:
        return tuple(map(_canonical, call_jax_function(function, leaves)))

    # What JAX itself or a library makes is no function of the user's.
    bound = unwrap_callback(function)
    users = bound
    if isinstance(bound, JaxCallbackFunction):
        set_function_name(users := unwrap_callback(bound.function), called)
    else:
        called.__name__ = str(ctx.primitive)
    target = CallbackTarget(
        flavour=f"jax.{ctx.primitive}",
        function=called,
        in_tree=jax.tree.structure(((0,) * len(operands), {})),
        out_tree=jax.tree.structure((0,) * len(result_avals)),
        result_avals=tuple(result_avals),
        site=equation_site() or callable_site(users),
        vmap_method=None,
    )
    of_call = ctx.replace(avals_in=operand_avals, avals_out=result_avals)
    results, token = _call(of_call, target, operands, token, has_side_effect)
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
    """Lower a ``buffer_callback`` of JAX's to ours."""
    function, circuit = callback, None
    if isinstance(callback, JaxCallbackFunction):
        function, circuit = callback.function, callback.circuit
    target = BufferCallbackTarget(
        flavour="jax.buffer_callback",
        function=function,
        in_tree=in_tree,
        out_tree=out_tree,
        result_avals=tuple(ctx.avals_out),
        site=equation_site() or callable_site(function),
        vmap_method=None,
        aliases=tuple(input_output_aliases),
        command_buffer_compatible=command_buffer_compatible,
        circuit=circuit,
    )
    results, _token = _call(ctx, target, operands, None, has_side_effect)
    return results


def _call(
    ctx: mlir.LoweringRuleContext,
    target: CallbackTarget,
    operands: Sequence[Any],
    token: ir.Value | None,
    has_side_effect: bool,
) -> tuple[list[Any], Any]:
    lowering = current_lowering()
    assert lowering is not None
    for aval in target.result_avals:
        array_type(f"{target.flavour} (called from {target.site})", aval.shape, aval.dtype)
    return lowering.emit_call(ctx, target, "io" if has_side_effect else "pure", operands, token)


def lower_for_program(traced: Any) -> ir.Module:
    """Lower a traced function to a module that no function of JAX's executable belongs to.

    Raises:
        CompileError: naming what calls Python in a way of its own.
    """
    patch_callback_lowering(_emit, lambda: current_lowering() is not None)
    lowered = lower_with_rules(traced, ((buffer_callback_p, _lower_buffer_callback),))
    module = lowered.compiler_ir("stablehlo")
    if held := keepalive_functions(lowered):
        calls = [
            op
            for op in find_operations(module.operation, "stablehlo.custom_call")
            if _has_function_index(op)
        ]
        where = ", ".join(sorted({source_line(op) for op in calls})) or "<unknown>"
        what = ", ".join(sorted(map(qualified_name, held)))
        raise CompileError(
            f"the program calls Python (from {where}) by a primitive whose lowering leaves the "
            f"function to JAX's executable: {what}. A bellhop program is not that executable. Call "
            "it with jax.pure_callback or bellhop.pure_callback, or outside the qjit function."
        )
    return module


def _has_function_index(call: ir.Operation) -> bool:
    """Tell whether a call has the number of a function of the executable."""
    config = call.attributes.get("mhlo.backend_config")
    return isinstance(config, ir.DictAttr) and "index" in config
