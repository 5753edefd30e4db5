"""Compilation of a Python function: trace, lower with JAX, run Bellhop's passes.

``compile_program(lambda x: 2 * g(x), [ShapeDtypeStruct((), float)], table)`` with a QNode ``g``
traces the jaxpr ::

    { lambda ; a:f64[]. let b = quantum_circuit[body=...] a    c = mul 2.0 b in (c,) }

lowers it, together with the data in ``compiler/lowering_context.py``, to a module ::

    %0 = "quantum.begin"(%arg0) ...
    %1:2 = call @circuit_g(%0, %arg0)      # holds "quantum.gates" and "quantum.measure"
    "quantum.end"(%1#0)
    %2 = stablehlo.multiply %cst, %1#1

and returns the ``Program`` (``compiler/program.py``) from ``optimize``: its bytecode, with custom
calls in place of Bellhop's operations.
"""

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.interpreters.mlir import ir

from bellhop._jax.jaxprs import find_leaked_values, forget_lowering
from bellhop._jax.private import without_mesh
from bellhop.base.source import PACKAGE, callable_site, definition_site, to_user_site
from bellhop.compiler.classical import is_classical, make_classical_program
from bellhop.compiler.compile_timing import Stopwatch
from bellhop.compiler.jax_callbacks import lower_for_program
from bellhop.compiler.lowering_context import begin_lowering
from bellhop.compiler.optimize import optimize
from bellhop.compiler.program import Program
from bellhop.devices.devices import Target
from bellhop.errors import CompileError
from bellhop.tracing.dce import drop_unused_calls
from bellhop.tracing.program_order import order_effects
from bellhop.tracing.traced_value_errors import ADVICE_ON_LEAKS
from bellhop_mlir._walk import find_functions
from bellhop_mlir.errors import PassError
from bellhop_runtime import CallbackTable

# Garbage collection threshold: this number of objects takes about ten megabytes.
_GC_THRESHOLD = 50_000


@contextlib.contextmanager
def _reduce_garbage_collection() -> Iterator[None]:
    """Make garbage collections rarer inside of a ``with`` block, for faster tracing."""
    # Objects of a trace live until the program is optimised, so collections every 700 objects free
    # nothing and take a tenth of the time.
    usual = gc.get_threshold()
    # 0 disables collection; a large threshold was set by another thread in this block.
    if usual[0] == 0 or usual[0] >= _GC_THRESHOLD:
        yield
        return
    gc.set_threshold(_GC_THRESHOLD, *usual[1:])
    try:
        yield
    finally:
        if gc.get_threshold()[0] == _GC_THRESHOLD:
            gc.set_threshold(*usual)


def _retrace(name: str, closed: ClosedJaxpr) -> Any:
    """Trace a jaxpr again, as a function with the given name; return JAX's ``Traced``."""

    def retraced(*leaves: Any) -> Any:
        return jaxpr_as_fun(closed)(*leaves)

    retraced.__name__ = name
    with without_mesh():
        return jax.jit(retraced, keep_unused=True).trace(*closed.in_avals)


def _locate(module: ir.Module, site: str) -> None:
    """Set the location of a module's main function to ``file:line``, in place.

    Operations that passes create for the whole program inherit the location. A ``site`` that is not
    ``file:line`` changes nothing.
    """
    file, _, line = site.rpartition(":")
    if line.isdigit():
        with module.context:
            find_functions(module)["main"].location = ir.Location.file(file, int(line), 0)


def _lower_again(name: str, site: str, closed: ClosedJaxpr) -> ir.Module:
    """Lower a classical program's jaxpr to an MLIR module, shown as ``f.mlir``.

    The executed program is lowered separately, as a part of a ``jax.jit``.

    Args:
        name: name of the user's function.
        site: ``file:line`` of the function's definition.
        closed: the jaxpr.
    """
    with begin_lowering(), without_mesh():
        module = lower_for_program(_retrace(name, closed))
        _locate(module, site)
    return module


@_reduce_garbage_collection()
def compile_program(
    function: Callable[..., Any],
    args: Sequence[Any],
    table: CallbackTable,
    *,
    out_targets: Callable[[], tuple[Target | None, ...]] = tuple,
    keep_stages: bool = False,
    concurrent: int = 1,
    is_merged: bool = False,
) -> Program:
    """Trace, lower and optimise a function of array leaves; compile its regions.

    XLA compiles the program itself later, as a part of a ``jax.jit``. A classical program, which
    needs none of the passes, is only traced: that ``jax.jit`` lowers it.

    Args:
        function: takes arrays as positional arguments and returns a sequence of arrays; it is
            traced once.
        args: abstract values, or values, of the arguments.
        table: receives the program's callbacks and regions, and must live as long as the program.
        out_targets: called after tracing; returns the requested device or sharding of each result,
            None for the host; an empty tuple if all results are on the host.
        keep_stages: whether to keep the module's text after every pass.
        concurrent: number of independent pure callbacks that run concurrently.
        is_merged: whether the program becomes a part of the user's ``jax.jit`` program, where JAX
            orders its effects.

    Returns:
        the program, with its code, jaxpr and MLIR text.

    Raises:
        jax.errors.UnexpectedTracerError: if the function uses a leaked tracer.
        CompileError: if the function closes over a mutable reference, if a primitive in it is not
            supported, or if a pass fails.
    """
    stopwatch = Stopwatch()
    # A program runs on one device; the user's mesh does not apply.
    with without_mesh():
        traced = jax.jit(function, keep_unused=True).trace(*args)
    where = f"'{function.__name__}' ({definition_site(function)})"
    for leaked in find_leaked_values(traced):
        used = f", at {to_user_site(leaked.used)}" if leaked.used else ""
        created = f", computed at {to_user_site(leaked.created)}" if leaked.created else ""
        made = ", an argument of its body" if leaked.is_argument else created
        owner = leaked.owner or "the function"
        if PACKAGE in owner:
            # Such as the body of a loop that autograph converted.
            owner = "the loop or conditional"
        raise jax.errors.UnexpectedTracerError(
            f"{where} uses a value of another traced function or loop{used}: a "
            f"{leaked.type.str_short()}{made}, which was stored outside of "
            f"{owner}, in a list, an attribute, a global or the closure of a jax.custom_jvp or "
            f"jax.custom_vjp function. {ADVICE_ON_LEAKS}"
        )
    for value in traced.jaxpr.consts:
        if not isinstance(jax.typeof(value), jax.core.ShapedArray):
            raise CompileError(
                f"{where} closes over a {jax.typeof(value)} (jax.new_ref), "
                "which a qjit program cannot change in place. Pass its value, "
                "ref[...], as an argument and return the new value, or create the reference in "
                "the function."
            )
    # A copy: JAX's caches live as long as the original jaxpr and may reference this program.
    closed = ClosedJaxpr(traced.jaxpr.jaxpr, traced.jaxpr.consts)
    targets = out_targets()
    needs_module = keep_stages or is_merged or any(target is not None for target in targets)
    if not needs_module and is_classical(closed):
        stopwatch.lap("tracing")
        # Do not reference the function: JAX's caches would keep its trace alive.
        name, site = function.__name__, callable_site(function)
        return make_classical_program(closed, functools.partial(_lower_again, name, site))
    used = drop_unused_calls(traced.jaxpr)
    if not is_merged:
        # In a ``jax.jit`` program, JAX threads the tokens.
        used = order_effects(used)
    to_lower = traced if used is traced.jaxpr else _retrace(function.__name__, used)
    stopwatch.lap("tracing")
    with begin_lowering() as context, without_mesh():
        module = lower_for_program(to_lower)
        _locate(module, callable_site(function))
        context.finish()
    forget_lowering(to_lower.jaxpr)
    stopwatch.lap("lowering", module)
    out_avals = tuple(traced.jaxpr.out_avals)
    try:
        return optimize(
            module,
            context.targets,
            table,
            jaxpr=closed,
            out_avals=out_avals,
            out_targets=targets,
            keep_stages=keep_stages,
            concurrent=concurrent,
            is_merged=is_merged,
        )
    except PassError as error:
        raise CompileError(str(error)) from error
