"""Programs: the code that runs, what it was made from, and its call from another module of JAX.

``Code.module`` of ``qjit(lambda x: io_callback(f, float, x, ordered=True))`` is bytecode of ::

    func.func @main(%token: !stablehlo.token, %x: tensor<f64>, %table: tensor<2xui32>)
        -> (!stablehlo.token, tensor<f64>)

``merge`` copies it into the module of the ``jax.jit`` that runs it, as ``@bellhop_main``, and
``call`` emits there ``func.call @bellhop_main(%token, %x, %table)``.  The table's address is an
argument, so that the code is the same in every process.  Inside that ``jax.jit`` a program is one
primitive, ``program_p``.
"""

import functools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Primitive
from jax.extend.mlir.dialects import func, stablehlo
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax.jaxprs import lower_high_primitives
from bellhop._jax.private import hold_weakly_in_caches, ir_type
from bellhop.base.ir_display import LazyText, Snapshot, WrittenText
from bellhop.base.types import Aval
from bellhop.compiler.host_placement import check_lowering_on_host
from bellhop.compiler.jax_callback_lowering import Delegates
from bellhop.devices.devices import Target
from bellhop.settings.code_generation import OLDER_GENERATOR
from bellhop_mlir._meshes import find_meshes
from bellhop_mlir._walk import string_attribute
from bellhop_mlir.dialects.callback_kinds import KINDS
from bellhop_runtime import CallbackTable, CallWithArguments

if TYPE_CHECKING:
    from bellhop.compiler.callback_target import CallbackTarget


_CALLBACKS = frozenset(
    kind.custom_call for kind in KINDS.values() if kind.is_traced and kind.calls_python
)
_REGIONS = frozenset(kind.custom_call for kind in KINDS.values() if not kind.is_traced)

_HANDLE = ShapedArray((2,), np.uint32)


@dataclass(frozen=True, eq=False)
class Code:
    """The part of a program that is embedded into a ``jax.jit``.

    It refers to no Python function.  JAX's caches hold it as long as the ``jax.jit``, and a
    callback may refer to that in turn, so that neither would ever be freed.

    Attributes:
        module: bytecode of StableHLO and custom calls.  ``@main`` takes the ordering
            tokens, the operands and the table, and returns the tokens and the results.  It is
            empty where there is a ``jaxpr``.
        tokens: how many ordering tokens there are.
        out_avals: the types of the results.
        arguments: the numbers of the arguments that are operands.  Others are not used, or only by
            regions, which take them where they lie.
        targets: where the caller asks for each of the results; empty where for none.
        handle_result_indices: the numbers of those of them that are on a device, and of which it
            returns a handle.
        delegates: the implementations of its undefined functions, if it is not for the CPU.
        runtime_calls: the names of its custom calls that are the runtime's.
        delegates_calls: whether it has functions for JAX to define, which call Python.
        takes_arguments: whether regions of it take what it is called with.
        jaxpr: a classical program, which is lowered where it is called (``classical``); weakly
            held, since rules of ``jax.custom_jvp`` in it are Python functions.
        uses_older_generator: whether XLA's older generator makes the kernels.
    """

    module: bytes
    tokens: int
    out_avals: tuple[Any, ...]
    arguments: tuple[int, ...]
    targets: tuple[Target | None, ...] = ()
    handle_result_indices: tuple[int, ...] = ()
    delegates: "weakref.ref[Delegates] | None" = None
    runtime_calls: frozenset[str] = frozenset()
    delegates_calls: bool = False
    takes_arguments: bool = False
    uses_older_generator: bool = False
    jaxpr: "weakref.ref[ClosedJaxpr] | None" = None

    @property
    def compiler_options(self) -> dict[str, bool] | None:
        """XLA's options for the ``jax.jit`` that holds the program; None for the defaults."""
        return OLDER_GENERATOR if self.uses_older_generator else None

    @property
    def calls_runtime(self) -> bool:
        """Whether it has custom calls of ours, which look into the table."""
        return bool(self.runtime_calls)

    @property
    def calls_python(self) -> bool:
        """Whether it calls functions of Python, and not by regions alone."""
        return self.delegates_calls or not self.runtime_calls.isdisjoint(_CALLBACKS)

    @property
    def may_wait(self) -> bool:
        """Whether what it calls may wait for other programs, as callbacks and regions do."""
        return self.calls_python or not self.runtime_calls.isdisjoint(_REGIONS)

    @property
    def needs_call(self) -> bool:
        """Whether regions of it take what it is called with, or keep what it returns."""
        return self.takes_arguments or bool(self.handle_result_indices)

    @functools.cached_property
    def result_types(self) -> tuple[Any, ...]:
        """The types of what it returns."""
        return tuple(
            _HANDLE if number in self.handle_result_indices else aval
            for number, aval in enumerate(self.out_avals)
        )

    def operands(self, arguments: Sequence[Any]) -> list[Any]:
        """Return those of the arguments that are operands."""
        return [arguments[number] for number in self.arguments]


hold_weakly_in_caches(Code)


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled program, and how it came about.

    Attributes:
        code: the part that runs.
        jaxpr: the traced function.
        lowered: the module before the passes.
        optimized: the module after the optimising passes.
        stages: the module as lowered and after each pass, where asked for.
        targets: its callbacks, in the order of their numbers in the module.
        delegates: the functions that its code needs, where it is not for the CPU.
        concurrent: how many of its callbacks run at once.
        circuits: those that are operations of it: name, device, and who runs each and why.
    """

    code: Code
    jaxpr: Any
    lowered: Snapshot | LazyText
    optimized: LazyText | WrittenText
    stages: dict[str, str]
    targets: tuple["CallbackTarget", ...]
    delegates: Delegates | None = None
    concurrent: int = 1
    circuits: tuple[tuple[str, ...], ...] = ()

    @property
    def mlir(self) -> str:
        """The text of the module before the passes."""
        return self.lowered.text

    @property
    def mlir_opt(self) -> str:
        """The text of the module after the optimising passes."""
        return self.optimized.text

    @property
    def prints(self) -> bool:
        """Whether it prints."""
        return any(target.prints for target in self.targets)

    @property
    def prints_later(self) -> bool:
        """Whether it prints asynchronously, from another thread."""
        return any(target.prints and target.asynchronous for target in self.targets)

    @property
    def shows_progress(self) -> bool:
        """Whether loops in it have bars."""
        return any(target.bars is not None for target in self.targets)


def merge_program(ctx: mlir.LoweringRuleContext, code: Code) -> str:
    """Merge a program into the module that JAX is lowering and return its symbol there."""
    context = ctx.module_context
    module = ir.Module.parse(code.module, context.context)
    if code.delegates is not None:
        delegates = code.delegates()
        assert delegates is not None, "a region keeps the functions that it calls"
        delegates.define(ctx, module)
    _merge_meshes(context, module)
    return mlir.merge_mlir_modules(
        context.module, "bellhop_main", module, dst_symtab=context.symbol_table
    )


def _merge_meshes(context: mlir.ModuleContext, module: ir.Module) -> None:
    """Move the meshes of a program into JAX's module, whose ``merge_mlir_modules`` takes none."""
    for mesh in find_meshes(module):
        name = string_attribute(mesh, "sym_name")
        new, number = name, 0
        while new in context.symbol_table or new in ir.SymbolTable(module.operation):
            new, number = f"{name}_{number}", number + 1
        ir.SymbolTable.replace_all_symbol_uses(name, new, module.operation)
        ir.SymbolTable.set_symbol_name(mesh, new)
        mesh.move_before(context.module.body.operations[0].operation)
        context.symbol_table.insert(mesh)


def call_program(
    ctx: mlir.LoweringRuleContext,
    symbol: str,
    code: Code,
    operands: Sequence[ir.Value],
    table: ir.Value,
    tokens: Sequence[ir.Value],
) -> list[ir.Value]:
    """Call a program that was merged.

    Returns:
        the tokens, then the results.
    """
    results = [token.type for token in tokens]
    results += [ir_type(ctx, aval) for aval in code.result_types]
    return list(func.CallOp(results, symbol, [*tokens, *operands, table]).results)


def table_handle(table: CallbackTable | CallWithArguments) -> np.ndarray:
    """Return the address of a table, or of a call, as programs take it: two 32-bit words."""
    return np.array([table.address], np.uint64).view(np.uint32)


# Operands: the arguments of the program, then the handle of its table.  A region runs on the
# devices that it is compiled for; other programs on one of the host.
program_p = Primitive("bellhop_program")
program_p.multiple_results = True


@program_p.def_abstract_eval
def _abstract_eval(*avals: Aval, code: Code, is_region: bool) -> Any:
    del is_region
    # JAX drops what has no result; where a program has none, it returns the handle.
    return code.result_types or avals[-1:]


def _lower(
    ctx: mlir.LoweringRuleContext, *operands: ir.Value, code: Code, is_region: bool
) -> list[ir.Value]:
    if not is_region:
        check_lowering_on_host(ctx.module_context)
    *arguments, table = operands
    if code.jaxpr is not None:
        return _lower_jaxpr(ctx, code, arguments) or [table]
    # The program orders its own effects from beginning to end, and the call waits for them.
    tokens = [stablehlo.create_token() for _ in range(code.tokens)]
    results = call_program(ctx, merge_program(ctx, code), code, arguments, table, tokens)
    return results[code.tokens :] or [table]


def _lower_jaxpr(
    ctx: mlir.LoweringRuleContext, code: Code, arguments: Sequence[ir.Value]
) -> list[ir.Value]:
    """Lower a classical program into the function that JAX is lowering."""
    assert code.jaxpr is not None
    closed = code.jaxpr()
    assert closed is not None, "a runner keeps the jaxprs of its programs"
    closed = lower_high_primitives(closed)
    kept = [closed.jaxpr.invars[number] for number in code.arguments]
    constants = [
        mlir.ir_constant(value, aval=var.aval)
        for value, var in zip(closed.consts, closed.jaxpr.constvars, strict=True)
    ]
    results, _ = mlir.jaxpr_subcomp(
        ctx.module_context,
        closed.jaxpr.replace(invars=kept),
        ctx.name_stack,
        mlir.TokenSet(),
        constants,
        *arguments,
        dim_var_values=ctx.dim_var_values,
        const_lowering=ctx.const_lowering,
        outer_traceback=None,
    )
    return list(results)


mlir.register_lowering(program_p, _lower, cacheable=False)
