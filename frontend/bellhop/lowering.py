"""From a traced function to a program: MLIR, passes, and the table of its callbacks."""

import contextlib
import contextvars
import hashlib
import math
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax_compat import forget_lowering, ir_type, without_mesh
from bellhop.delegation import Delegates
from bellhop.devices import device_name
from bellhop.errors import CompileError
from bellhop.instruments import Stopwatch
from bellhop.module_text import ModuleText, Snapshot
from bellhop_mlir.dialects import callback as dialect
from bellhop_mlir.errors import PassError
from bellhop_mlir.pipelines import OPTIMIZATION, run_pipeline
from bellhop_mlir.transforms import Pass
from bellhop_mlir.transforms.convert_accelerate_to_runtime import ConvertAccelerateToRuntime
from bellhop_mlir.transforms.convert_callback_to_runtime import ConvertCallbackToRuntime
from bellhop_mlir.transforms.convert_quantum_to_runtime import ConvertQuantumToRuntime
from bellhop_mlir.transforms.delegate_callbacks import DelegateCallbacks
from bellhop_mlir.transforms.inline_accelerate import InlineAccelerate
from bellhop_mlir.transforms.outline_scalars import OutlineScalars
from bellhop_mlir.transforms.overlap_regions import OverlapRegions
from bellhop_mlir.transforms.split_long_blocks import SplitLongBlocks
from bellhop_mlir.transforms.transform_circuits import TransformCircuits, circuits_with_passes
from bellhop_runtime import CallbackTable

if TYPE_CHECKING:
    from bellhop.callbacks.target import CallbackTarget


# The name of the stage before the first pass.
LOWERED = "lowered"


@dataclass
class Lowering:
    """What is gathered while one program is lowered: its callbacks, by number."""

    targets: list["CallbackTarget"] = field(default_factory=list)
    # A function that is called at two shapes has two declarations.
    symbols: dict[Any, str] = field(default_factory=dict)
    placeholders: list[tuple[ir.Operation, str, list[Any], list[Any]]] = field(default_factory=list)
    # What was lowered for platforms other than the program's own.
    platform_caches: dict[str, Any] = field(default_factory=dict)
    random_circuits: int = 0

    def number_random_circuit(self) -> int:
        """Return the number of a circuit whose outcomes are drawn."""
        self.random_circuits += 1
        return self.random_circuits - 1

    def declare(self, ctx: mlir.LoweringRuleContext, target: "CallbackTarget") -> str:
        """Return the symbol of a callback in the module, declaring it if it is new.

        While JAX lowers, an empty function holds the symbol: other callbacks, and functions of
        JAX's, may have the same name, and from jax 0.11 on the symbol table takes no
        operations of dialects that it does not know.
        """
        key = target, tuple((aval.shape, aval.dtype) for aval in ctx.avals_in)
        if key not in self.symbols:
            allow_our_dialects(ctx)
            inputs = [ir_type(ctx, aval) for aval in ctx.avals_in]
            results = [ir_type(ctx, aval) for aval in ctx.avals_out]
            name = "".join(c if c.isalnum() else "_" for c in target.name)
            with ir.InsertionPoint.at_block_begin(ctx.module_context.module.body):
                placeholder = _empty_function(name)
            symbol = ir.StringAttr(ctx.module_context.symbol_table.insert(placeholder)).value
            self.symbols[key] = symbol
            self.targets.append(target)
            self.placeholders.append((placeholder, symbol, inputs, results))
        return self.symbols[key]

    def finish(self) -> None:
        """Put the declarations of the callbacks where their symbols were held."""
        for number, (placeholder, symbol, inputs, results) in enumerate(self.placeholders):
            target = self.targets[number]
            with ir.InsertionPoint(placeholder), ir.Location.unknown(placeholder.context):
                dialect.func(
                    symbol, inputs, results, python=target.python, site=target.site, id=number
                )
            placeholder.erase()
        self.placeholders.clear()


def _empty_function(name: str) -> ir.Operation:
    with ir.Location.unknown():
        function = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get(name),
                "sym_visibility": ir.StringAttr.get("private"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [])),
            },
            regions=1,
        )
        with ir.InsertionPoint(function.regions[0].blocks.append()):
            ir.Operation.create("func.return")
    return function


_current: contextvars.ContextVar[Lowering | None] = contextvars.ContextVar(
    "bellhop_lowering", default=None
)


def lowering_in_progress() -> Lowering | None:
    """Return the lowering under way, or None where JAX lowers a program of its own."""
    return _current.get()


def allow_our_dialects(ctx: mlir.LoweringRuleContext) -> None:
    """Let operations of our dialects into the module that JAX is making for us."""
    ctx.module_context.context.allow_unregistered_dialects = True


@contextlib.contextmanager
def _lowering() -> Iterator[Lowering]:
    lowering = Lowering()
    token = _current.set(lowering)
    try:
        yield lowering
    finally:
        _current.reset(token)


@dataclass(frozen=True, eq=False)
class Code:
    """What of a program is embedded into a ``jax.jit``.

    It refers to no function: JAX's caches hold it for as long as they hold the ``jax.jit``,
    which a callback may in turn refer to.

    Attributes:
        module: bytecode of StableHLO and custom calls.  ``@main`` takes the ordering
            tokens, the arguments and the table, and returns the tokens and the results.
        tokens: how many ordering tokens there are.
        out_avals: the results.
        delegates: what its undefined functions stand for, where it is not for the CPU.
    """

    module: bytes
    tokens: int
    out_avals: tuple[Any, ...]
    delegates: "weakref.ref[Delegates] | None" = None


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled program, and how it came about.

    Attributes:
        code: what runs.
        jaxpr: the traced function.
        lowered: the module before the passes.
        mlir_opt: the module after the optimising passes.
        stages: the module as lowered and after each pass, where asked for.
        targets: its callbacks, as its declarations number them.
        delegates: the functions that its code needs, where it is not for the CPU.
    """

    code: Code
    jaxpr: Any
    lowered: Snapshot
    mlir_opt: str
    stages: dict[str, str]
    targets: tuple["CallbackTarget", ...]
    delegates: Delegates | None = None

    @property
    def mlir(self) -> str:
        """The text of the module before the passes."""
        return self.lowered.text

    @property
    def prints(self) -> bool:
        """Whether it prints."""
        return any(target.flavour == "print" for target in self.targets)

    @property
    def prints_later(self) -> bool:
        """Whether it leaves printing to another thread."""
        return any(target.flavour == "print" and target.asynchronous for target in self.targets)

    @property
    def shows_progress(self) -> bool:
        """Whether loops in it have bars."""
        return any(target.flavour == "progress" for target in self.targets)


def host_device() -> jax.Device:
    """Return the device that programs themselves run on, whatever JAX's default is."""
    return jax.local_devices(backend="cpu")[0]


def compile_program(
    function: Callable[..., Any],
    args: Sequence[Any],
    table: CallbackTable,
    *,
    keep_stages: bool = False,
) -> Program:
    """Trace, lower and optimise a function of array leaves.

    Args:
        function: takes and returns pytrees of arrays; it is traced once.
        args: abstract values, or values, of the arguments.
        table: gets the callbacks of the program, and must live as long as it runs.
        keep_stages: whether to keep the text of the module after every pass.
    """
    # What it changes of JAX is changed by the first program.
    from bellhop.callbacks.of_jax import lower_for_us

    stopwatch = Stopwatch()
    # A program runs on one device, whatever mesh the user has set.
    with without_mesh():
        traced = jax.jit(function, keep_unused=True).trace(*args)
    if len(traced.jaxpr.in_avals) != len(jax.tree.leaves(args)):
        # JAX hands what is traced elsewhere over like a constant, as one more argument.
        raise jax.errors.UnexpectedTracerError(
            f"'{function.__name__}' uses a value of another traced function, which kept it outside "
            "of itself: in a list, an attribute or a global. Return the value from there, and pass "
            "it as an argument."
        )
    for value in traced.jaxpr.consts:
        if not isinstance(jax.typeof(value), jax.core.ShapedArray):
            raise CompileError(
                f"'{function.__name__}' uses a {jax.typeof(value)} from outside of it, as "
                "jax.new_ref makes, which a qjit program cannot change in place. Pass its value, "
                "ref[...], as an argument and return the new one, or make it inside."
            )
    stopwatch.lap("tracing")
    with _lowering() as lowering, without_mesh():
        module = lower_for_us(traced)
        lowering.finish()
    forget_lowering(traced.jaxpr)
    stopwatch.lap("lowering", module)
    _check_devices(module)
    out_avals = tuple(traced.jaxpr.out_avals)
    try:
        return optimize(
            module,
            device_name(host_device()),
            lowering.targets,
            table,
            # A copy: JAX's caches hold what they know of the original while it lives, and that
            # may refer to us.
            jaxpr=ClosedJaxpr(traced.jaxpr.jaxpr, traced.jaxpr.consts),
            out_avals=out_avals,
            keep_stages=keep_stages,
        )
    except PassError as error:
        raise CompileError(str(error)) from error


def _check_devices(module: ir.Module) -> None:
    """Refuse a program that is to be spread over devices."""
    for op in module.body.operations:
        if op.operation.name != "sdy.mesh":
            continue
        sizes = [int(size) for size in re.findall(r'"=(\d+)', str(op.operation))]
        if math.prod(sizes) > 1:
            raise CompileError(
                f"a qjit program runs on one host device, and this one holds a jax.shard_map or a "
                f"sharding over {math.prod(sizes)}. Spread it from outside: jax.jit in place of "
                "qjit, around jax.shard_map of a function of QNodes and callbacks."
            )


def optimize(
    module: ir.Module,
    device: str,
    targets: Sequence["CallbackTarget"],
    table: CallbackTable,
    *,
    jaxpr: Any,
    out_avals: tuple[Any, ...],
    keep_stages: bool = False,
    delegates: bool = False,
    elides: bool = False,
    after: str = LOWERED,
) -> Program:
    """Run the passes over a module and give its callbacks and regions a table.

    Args:
        module: the program as lowered; it is changed in place.
        device: where the program itself runs.
        targets: what its declarations number.
        table: gets the callbacks and the executables of the regions.
        jaxpr: what it was lowered from.
        out_avals: the results.
        keep_stages: whether to keep the text of the module after every pass.
        delegates: whether JAX makes the callbacks, instead of the runtime.
        elides: whether to leave large constants out of the text after the passes, whose writing
            takes longer than all else where there are many megabytes of them.
        after: the stage that the module is, where it is not the first.
    """
    from bellhop.regions import take_regions

    stages: dict[str, str] = {}
    stopwatch = Stopwatch()

    def observe(name: str, module: ir.Module) -> None:
        stopwatch.lap(name, module)
        if keep_stages:
            stages[name] = ModuleText(module)

    with module.context, ir.Location.unknown():
        module.context.allow_unregistered_dialects = True
        lowered = Snapshot(module)
        if keep_stages:
            stages[after] = lowered.text
        passes: list[Pass] = [
            pass_(device=device) if pass_ is InlineAccelerate else pass_() for pass_ in OPTIMIZATION
        ]
        if after != LOWERED:
            passes = passes[[pass_.name for pass_ in passes].index(after) + 1 :]
        elif circuits_with_passes(module):
            passes.insert(0, TransformCircuits())
        run_pipeline(module, passes, observe)
        optimized = _text(module, elides)
        digest = hashlib.blake2b(optimized.encode(), digest_size=7).digest()
        # Programs with the same text may still call different functions.
        key = table.reserve(int.from_bytes(digest, "big"))
        # Callbacks that the passes dropped still stand in the table.
        to_runtime = ConvertAccelerateToRuntime(first_id=len(targets))
        run_pipeline(module, [to_runtime, OverlapRegions()], observe, verified=True)
        callbacks = [target.bind() for target in targets] + take_regions(module, targets)
        conversion: list[Pass] = [ConvertCallbackToRuntime(program=key), ConvertQuantumToRuntime()]
        if delegates:
            conversion.insert(0, DelegateCallbacks())
        else:
            conversion += [OutlineScalars(), SplitLongBlocks()]
            table.set_program(key, callbacks)
        run_pipeline(module, conversion, observe, verified=True)
        kept = Delegates(targets, callbacks) if delegates else None
        code = Code(
            mlir.module_to_bytecode(module),
            _count_tokens(module),
            out_avals,
            delegates=None if kept is None else weakref.ref(kept),
        )
        return Program(code, jaxpr, lowered, optimized, stages, tuple(targets), kept)


def _text(module: ir.Module, elides: bool) -> ModuleText:
    return ModuleText(module.operation.get_asm(large_elements_limit=16) if elides else module)


def _count_tokens(module: ir.Module) -> int:
    for op in module.body.operations:
        if op.operation.name == "func.func" and op.sym_name.value == "main":
            return sum(dialect.is_token(type_) for type_ in op.type.inputs)
    raise AssertionError("a lowered module has a @main")


def merge(ctx: mlir.LoweringRuleContext, code: Code) -> str:
    """Merge a program into the module that JAX is lowering and return its symbol there."""
    context = ctx.module_context
    module = ir.Module.parse(code.module, context.context)
    if code.delegates is not None:
        delegates = code.delegates()
        assert delegates is not None, "a region keeps the functions that it calls"
        delegates.define(ctx, module)
    return mlir.merge_mlir_modules(
        context.module, "bellhop_main", module, dst_symtab=context.symbol_table
    )


def call(
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
    results += [ir_type(ctx, aval) for aval in code.out_avals]
    operation = ir.Operation.create(
        "func.call",
        results=results,
        operands=[*tokens, *operands, table],
        attributes={"callee": ir.FlatSymbolRefAttr.get(symbol)},
    )
    return list(operation.results)


def table_handle(table: CallbackTable) -> np.ndarray:
    """Return the address of a table as programs take it: two 32-bit words."""
    return np.array([table.address], np.uint64).view(np.uint32)
