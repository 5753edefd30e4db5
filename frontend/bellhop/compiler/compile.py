"""From a Python function to a program: traced and lowered by JAX, then optimised by our passes.

``compile_program(lambda x: 2 * g(x), [ShapeDtypeStruct((), float)], table)``, of a QNode ``g``,
traces the jaxpr ::

    { lambda ; a:f64[]. let b = quantum_circuit[body=...] a    c = mul 2.0 b in (c,) }

lowers it, with what ``compiler/lowering_context.py`` gathers, to a module ::

    %0 = "quantum.begin"(%arg0) ...
    %1:2 = call @circuit_g(%0, %arg0)      # holds "quantum.gates" and "quantum.measure"
    "quantum.end"(%1#0)
    %2 = stablehlo.multiply %cst, %1#1

and returns the ``Program`` (``compiler/program.py``) that ``optimize`` makes of it: its bytecode,
with custom calls in place of our operations.
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
from bellhop.base.source import callable_site, definition_site
from bellhop.compiler.classical import classical_program, is_classical
from bellhop.compiler.compile_timing import Stopwatch
from bellhop.compiler.jax_callbacks import lower_for_program
from bellhop.compiler.lowering_context import begin_lowering
from bellhop.compiler.optimize import optimize
from bellhop.compiler.program import Program
from bellhop.devices.devices import Target
from bellhop.errors import CompileError
from bellhop.tracing.dce import drop_unused_calls
from bellhop.tracing.program_order import in_program_order
from bellhop_mlir._walk import find_functions
from bellhop_mlir.errors import PassError
from bellhop_runtime import CallbackTable

# So many objects are some ten megabytes.
_OBJECTS = 50_000


@contextlib.contextmanager
def _reduce_garbage_collection() -> Iterator[None]:
    """Let Python look for garbage less often.

    What is made while a program is traced stays until it is optimised, so that to look for garbage
    among it every 700 objects is in vain, and a tenth of the time.
    """
    usual = gc.get_threshold()
    # Zero is never; another thread may be in here too.
    if usual[0] == 0 or usual[0] >= _OBJECTS:
        yield
        return
    gc.set_threshold(_OBJECTS, *usual[1:])
    try:
        yield
    finally:
        if gc.get_threshold()[0] == _OBJECTS:
            gc.set_threshold(*usual)


def _retrace(name: str, closed: ClosedJaxpr) -> Any:
    def retraced(*leaves: Any) -> Any:
        return jaxpr_as_fun(closed)(*leaves)

    retraced.__name__ = name
    with without_mesh():
        return jax.jit(retraced, keep_unused=True).trace(*closed.in_avals)


def _locate(module: ir.Module, site: str) -> None:
    """Give the program a location, from which what passes make for all of it has its own."""
    file, _, line = site.rpartition(":")
    if line.isdigit():
        with module.context:
            find_functions(module)["main"].location = ir.Location.file(file, int(line), 0)


def _lower_again(name: str, site: str, closed: ClosedJaxpr) -> ir.Module:
    """Return the module of a function's jaxpr in which no call of Python stands.

    Args:
        name: the name of the function.
        site: ``file:line`` of its definition.
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
    """Trace, lower and optimise a function of array leaves.

    Args:
        function: takes and returns pytrees of arrays; it is traced once.
        args: abstract values, or values, of the arguments.
        table: gets the callbacks of the program, and must live as long as it runs.
        out_targets: says, once it is traced, where each of the results is asked for.
        keep_stages: whether to keep the text of the module after every pass.
        concurrent: how many independent pure callbacks run at once.
        is_merged: whether the program becomes a part of one of JAX's.
    """
    stopwatch = Stopwatch()
    # A program runs on one device, whatever mesh the user has set.
    with without_mesh():
        traced = jax.jit(function, keep_unused=True).trace(*args)
    where = f"'{function.__name__}' ({definition_site(function)})"
    for leaked in find_leaked_values(traced):
        used = f", at {leaked.used}" if leaked.used else ""
        made = f"computed at {leaked.created}" if leaked.created else "an argument of its body"
        raise jax.errors.UnexpectedTracerError(
            f"{where} uses a value of another traced function or loop{used}: a "
            f"{leaked.type.str_short()}, {made}, which was kept outside of that in a list, an "
            "attribute or a global. Return the value from there, and pass it as an argument."
        )
    for value in traced.jaxpr.consts:
        if not isinstance(jax.typeof(value), jax.core.ShapedArray):
            raise CompileError(
                f"{where} uses a {jax.typeof(value)} from outside of it, as "
                "jax.new_ref makes, which a qjit program cannot change in place. Pass its value, "
                "ref[...], as an argument and return the new one, or make it inside."
            )
    # A copy: JAX's caches hold what they know of the original while it lives, and that may refer
    # to us.
    closed = ClosedJaxpr(traced.jaxpr.jaxpr, traced.jaxpr.consts)
    targets = out_targets()
    needs_module = keep_stages or is_merged or any(target is not None for target in targets)
    if not needs_module and is_classical(closed):
        stopwatch.lap("tracing")
        # Not the function: JAX's caches would hold what was traced of it.
        name, site = function.__name__, callable_site(function)
        return classical_program(closed, functools.partial(_lower_again, name, site))
    used = drop_unused_calls(traced.jaxpr)
    if not is_merged:
        # In a program of JAX's, JAX threads the tokens.
        used = in_program_order(used)
    to_lower = traced if used is traced.jaxpr else _retrace(function.__name__, used)
    stopwatch.lap("tracing")
    with begin_lowering() as gathered, without_mesh():
        module = lower_for_program(to_lower)
        _locate(module, callable_site(function))
        gathered.finish()
    forget_lowering(to_lower.jaxpr)
    stopwatch.lap("lowering", module)
    out_avals = tuple(traced.jaxpr.out_avals)
    try:
        return optimize(
            module,
            gathered.targets,
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
