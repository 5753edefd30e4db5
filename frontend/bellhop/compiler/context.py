"""What is gathered while JAX lowers a program of ours."""

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax.private import ir_type
from bellhop_mlir.dialects import callback as dialect

if TYPE_CHECKING:
    from bellhop.compiler.target import CallbackTarget


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


@dataclass(frozen=True)
class LoweringState:
    """What holds for all that is lowered here: in this thread, inside of these ``with`` blocks.

    Attributes:
        program: gathers what is lowered for a program of ours; None where it is one of JAX's own.
        delegates: whether callbacks are JAX's on the CPU too, as they are on other platforms.
        records: whether the device of the circuit that is lowered records its gates.
    """

    program: Lowering | None = None
    delegates: bool = False
    records: bool = True


# Where nothing is lowered.
_NOTHING = LoweringState()

_current: contextvars.ContextVar[LoweringState] = contextvars.ContextVar(
    "bellhop_lowering_state", default=_NOTHING
)


def lowering_state() -> LoweringState:
    """Return the state of lowering here."""
    return _current.get()


@contextlib.contextmanager
def lowering_with(**changes: Any) -> Iterator[None]:
    """Change attributes of the state for what is lowered inside."""
    token = _current.set(replace(_current.get(), **changes))
    try:
        yield
    finally:
        _current.reset(token)


def lowering_in_progress() -> Lowering | None:
    """Return the lowering under way, or None where JAX lowers a program of its own."""
    return _current.get().program


@contextlib.contextmanager
def lowering() -> Iterator[Lowering]:
    """Gather what is lowered inside for one program."""
    gathered = Lowering()
    with lowering_with(program=gathered):
        yield gathered


def allow_our_dialects(ctx: mlir.LoweringRuleContext) -> None:
    """Let operations of our dialects into the module that JAX is making for us."""
    ctx.module_context.context.allow_unregistered_dialects = True
