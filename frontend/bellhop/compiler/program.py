"""Compiled programs: executable code, compilation stages, and calls from JAX modules.

``Code.module`` of ``qjit(lambda x: io_callback(f, float, x, ordered=True))`` is bytecode of ::

    func.func @main(%token: !stablehlo.token, %x: tensor<f64>, %table: tensor<2xui32>)
        -> (!stablehlo.token, tensor<f64>)

``merge_program`` copies it into the module of the ``jax.jit`` that runs it, as ``@bellhop_main``,
and ``call_program`` emits there ``func.call @bellhop_main(%token, %x, %table)``.  The table's
address is an argument, so that the code is the same in every process.  Inside that ``jax.jit`` a
program is one primitive, ``program_p``.
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
from bellhop.compiler.jax_callback_lowering import DelegatedCallbacks
from bellhop.devices.devices import Target
from bellhop.settings.code_generation import OLDER_GENERATOR
from bellhop.settings.loop_simplification import WITHOUT_SIMPLIFICATION
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

    It references no Python functions: JAX's caches keep it as long as the ``jax.jit``, and a
    callback may reference the ``jax.jit``, so neither would ever be freed.

    Attributes:
        module: bytecode of StableHLO and custom calls. ``@main`` takes ordering tokens, operands
            and the table, and returns tokens and results. Empty if `jaxpr` is set.
        tokens: number of ordering tokens.
        out_avals: types of the results.
        arguments: indices of the program's arguments that are operands. Other arguments are unused,
            or are read by regions directly.
        targets: requested device or sharding of each result, None for the host; empty if none is
            requested.
        handle_result_indices: indices of the results that are returned as handles of
            device-resident values.
        delegates: for programs on GPUs and TPUs, whose module only declares the functions of its
            callbacks: weak reference to the object that defines them by JAX's own callbacks when
            the module is merged. None on CPUs.
        runtime_calls: names of the runtime's custom calls in the module.
        delegates_calls: whether the module declares functions that `delegates` defines.
        takes_arguments: whether its regions read the caller's arguments directly.
        uses_older_generator: whether to use XLA's older code generator.
        simplifies_loops: whether XLA's pass that simplifies loops compiles the program correctly.
        jaxpr: for classical programs, the jaxpr to lower at the call (``classical``); a weak
            reference, since rules of ``jax.custom_jvp`` in it are Python functions. None for other
            programs.
    """

    module: bytes
    tokens: int
    out_avals: tuple[Any, ...]
    arguments: tuple[int, ...]
    targets: tuple[Target | None, ...] = ()
    handle_result_indices: tuple[int, ...] = ()
    delegates: "weakref.ref[DelegatedCallbacks] | None" = None
    runtime_calls: frozenset[str] = frozenset()
    delegates_calls: bool = False
    takes_arguments: bool = False
    uses_older_generator: bool = False
    simplifies_loops: bool = True
    jaxpr: "weakref.ref[ClosedJaxpr] | None" = None

    @property
    def compiler_options(self) -> dict[str, bool | str] | None:
        """XLA's options for the ``jax.jit`` that contains the program; None for defaults."""
        options: dict[str, bool | str] = {}
        if self.uses_older_generator:
            options |= OLDER_GENERATOR
        if not self.simplifies_loops:
            options |= WITHOUT_SIMPLIFICATION
        return options or None

    @property
    def calls_runtime(self) -> bool:
        """Whether the program has custom calls of Bellhop's runtime, which read the table."""
        return bool(self.runtime_calls)

    @property
    def calls_python(self) -> bool:
        """Whether the program calls Python functions, apart from calls inside of its regions."""
        return self.delegates_calls or not self.runtime_calls.isdisjoint(_CALLBACKS)

    @property
    def may_wait(self) -> bool:
        """Whether an execution may wait for another program, which a callback or a region runs."""
        return self.calls_python or not self.runtime_calls.isdisjoint(_REGIONS)

    @property
    def needs_call_handle(self) -> bool:
        """Whether each call needs a handle for its arguments and device-resident results.

        True if regions read the caller's arguments, or if results stay on a region's device.
        """
        return self.takes_arguments or bool(self.handle_result_indices)

    @functools.cached_property
    def result_types(self) -> tuple[Any, ...]:
        """Types of the values that the program's main function returns after its tokens.

        A result that stays on a region's device is returned as a handle, uint32[2].
        """
        return tuple(
            _HANDLE if index in self.handle_result_indices else aval
            for index, aval in enumerate(self.out_avals)
        )

    def select_operands(self, arguments: Sequence[Any]) -> list[Any]:
        """Select the arguments that the main function takes; leave out all other arguments."""
        return [arguments[index] for index in self.arguments]


hold_weakly_in_caches(Code)


@dataclass(frozen=True, eq=False)
class Program:
    """A traced and optimised program and its compilation stages.

    `compile_program` makes it, and `LoadedFunction` for a program from a file. XLA compiles its
    code later, as a part of a ``jax.jit``.

    Attributes:
        code: the part that is embedded into a ``jax.jit``.
        jaxpr: closed jaxpr of the function; None for a program from a file.
        lowered: text of the module before the passes.
        optimized: text of the module after the optimising passes.
        stages: text of the module by stage: after lowering and after each pass; empty unless
            requested.
        targets: its callbacks, by the index in their declarations.
        delegates: the object to which ``code.delegates`` refers, kept alive here; None on CPUs.
        concurrent: largest number of pure callbacks that run at once.
        circuits: circuits that XLA runs inside of the program, each as three strings: name, device,
            and where and why it is simulated.
    """

    code: Code
    jaxpr: Any
    lowered: Snapshot | LazyText
    optimized: LazyText | WrittenText
    stages: dict[str, str]
    targets: tuple["CallbackTarget", ...]
    delegates: DelegatedCallbacks | None = None
    concurrent: int = 1
    circuits: tuple[tuple[str, ...], ...] = ()

    @property
    def mlir(self) -> str:
        """MLIR text before the passes."""
        return self.lowered.text

    @property
    def mlir_opt(self) -> str:
        """MLIR text after the optimising passes."""
        return self.optimized.text

    @property
    def prints(self) -> bool:
        """Whether a callback of the program is one of Bellhop's printing functions."""
        return any(target.prints for target in self.targets)

    @property
    def prints_later(self) -> bool:
        """Whether the program prints asynchronously, on another thread."""
        return any(target.prints and target.asynchronous for target in self.targets)

    @property
    def has_effects(self) -> bool:
        """Whether a second execution would repeat side effects, such as printing.

        Drawing random outcomes does not count. False for a program from a file, whose jaxpr is
        unknown.
        """
        effects = () if self.jaxpr is None else self.jaxpr.effects
        return not all(getattr(effect, "is_repeatable", False) for effect in effects)

    @property
    def shows_progress(self) -> bool:
        """Whether loops of the program have progress bars."""
        return any(target.bars is not None for target in self.targets)


def merge_program(ctx: mlir.LoweringRuleContext, code: Code) -> str:
    """Copy the functions of a program into the module that JAX is lowering.

    The program must have a module; classical programs have a jaxpr in its place.

    Returns:
        the symbol of the program's main function in JAX's module.
    """
    context = ctx.module_context
    module = ir.Module.parse(code.module, context.context)
    if code.delegates is not None:
        delegates = code.delegates()
        assert delegates is not None, "a region keeps its functions alive"
        delegates.define(ctx, module)
    _merge_meshes(context, module)
    return mlir.merge_mlir_modules(
        context.module, "bellhop_main", module, dst_symtab=context.symbol_table
    )


def _merge_meshes(context: mlir.ModuleContext, module: ir.Module) -> None:
    """Move a program's meshes into the module that JAX is lowering.

    ``merge_mlir_modules`` does not move them. A mesh whose name is taken there is renamed, together
    with its uses.

    Args:
        context: JAX's context of the module that is being lowered.
        module: the program's module.
    """
    for mesh in find_meshes(module):
        name = string_attribute(mesh, "sym_name")
        new, suffix = name, 0
        while new in context.symbol_table or new in ir.SymbolTable(module.operation):
            new, suffix = f"{name}_{suffix}", suffix + 1
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
    """Emit a call of a program that `merge_program` has copied into JAX's module.

    Args:
        ctx: context of the lowering rule.
        symbol: symbol of the program's main function.
        code: the program.
        operands: the arguments that ``Code.select_operands`` selects.
        table: address of the table of the program's Python functions, ``tensor<2xui32>``.
        tokens: ordering tokens; their number is ``code.tokens``.

    Returns:
        the tokens after the call, then the results.
    """
    results = [token.type for token in tokens]
    results += [ir_type(ctx, aval) for aval in code.result_types]
    return list(func.CallOp(results, symbol, [*tokens, *operands, table]).results)


def table_handle(table: CallbackTable | CallWithArguments) -> np.ndarray:
    """Return the address of a callback table, or of one call's data, as uint32[2].

    A program takes it as its last argument, by which its custom calls find the Python functions.
    """
    return np.array([table.address], np.uint64).view(np.uint32)


# Operands: the program's arguments and the handle of its table. `is_region`: whether it runs on the
# devices of a region, not on a CPU device.
program_p = Primitive("bellhop_program")
program_p.multiple_results = True


@program_p.def_abstract_eval
def _abstract_eval(*avals: Aval, code: Code, is_region: bool) -> Any:
    """Return the types of the results of ``program_p``, or of the handle if there are none."""
    del is_region
    # JAX removes equations without results, so a program without results returns the handle.
    return code.result_types or avals[-1:]


def _lower(
    ctx: mlir.LoweringRuleContext, *operands: ir.Value, code: Code, is_region: bool
) -> list[ir.Value]:
    """Lower a call of a program: merge its module, or lower its jaxpr.

    Args:
        ctx: context of the lowering rule.
        *operands: the program's operands, then the address of its callback table, uint32[2].
        code: the program.
        is_region: whether the program runs on a region's devices, not on a CPU device.

    Returns:
        the results, device-resident results as handles; for a program without results, the handle
        of the table.

    Raises:
        NotOnHostError: if JAX lowers a program for the host for another platform or for several
            devices.
    """
    if not is_region:
        check_lowering_on_host(ctx.module_context)
    *arguments, table = operands
    if code.jaxpr is not None:
        return _lower_jaxpr(ctx, code, arguments) or [table]
    # The program orders its effects from beginning to end, and the call waits for them.
    tokens = [stablehlo.create_token() for _ in range(code.tokens)]
    results = call_program(ctx, merge_program(ctx, code), code, arguments, table, tokens)
    return results[code.tokens :] or [table]


def _lower_jaxpr(
    ctx: mlir.LoweringRuleContext, code: Code, arguments: Sequence[ir.Value]
) -> list[ir.Value]:
    """Emit the operations of a classical program into the function that JAX is lowering.

    A classical program is stored as a jaxpr of JAX operations, ``code.jaxpr``.

    Args:
        ctx: context of the lowering rule.
        code: the program.
        arguments: the program's operands.

    Returns:
        the list of the results.
    """
    assert code.jaxpr is not None
    closed = code.jaxpr()
    assert closed is not None, "a runner keeps the jaxprs of its programs"
    closed = lower_high_primitives(closed)
    used = [closed.jaxpr.invars[index] for index in code.arguments]
    constants = [
        mlir.ir_constant(value, aval=var.aval)
        for value, var in zip(closed.consts, closed.jaxpr.constvars, strict=True)
    ]
    results, _ = mlir.jaxpr_subcomp(
        ctx.module_context,
        closed.jaxpr.replace(invars=used),
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
