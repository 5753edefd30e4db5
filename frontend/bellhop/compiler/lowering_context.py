"""The state of lowering: what is gathered while JAX lowers a program of ours.

The lowering rule of a callback on ``x:f64[]`` calls ``current_lowering().declare(ctx,
target, avals)``.  That adds the target to ``targets``, and returns a symbol for its calls;
``finish`` then puts the declaration into the module::

    "callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, id = 0,
                       python = "module.f", site = "file.py:3"}

where ``id`` is the index in ``targets``.  Where ``current_lowering()`` is None, JAX lowers a
program of its own, such as a plain ``jax.jit``.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jax.extend.mlir.dialects import func
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax.private import ir_type
from bellhop.base.scoped_state import ScopedState
from bellhop_mlir.dialects import callback as dialect

if TYPE_CHECKING:
    from bellhop.compiler.callback_target import CallbackTarget


# The attribute of a module that names them.
_CIRCUITS = "bellhop.circuits"


@dataclass
class Lowering:
    """The callbacks of the program that is being lowered, by number, and its counters."""

    targets: list["CallbackTarget"] = field(default_factory=list)
    # By target and argument types: a function called with two shapes has two declarations.
    symbols: dict[Any, str] = field(default_factory=dict)
    placeholders: list[tuple[ir.Operation, str, list[Any], list[Any]]] = field(default_factory=list)
    # Caches of what was lowered for other platforms than the program's own.
    platform_caches: dict[str, Any] = field(default_factory=dict)
    random_circuits: int = 0

    def next_random_circuit_index(self) -> int:
        """Return the next number of a circuit that draws random numbers."""
        self.random_circuits += 1
        return self.random_circuits - 1

    def declare(
        self, ctx: mlir.LoweringRuleContext, target: "CallbackTarget", arguments: Sequence[Any]
    ) -> str:
        """Return the symbol of a callback in the module, declaring it if it is new.

        While JAX lowers, a ``func.func`` without a body reserves the symbol, since other callbacks
        and JAX's functions may have the same name.  From jax 0.11 on the symbol table refuses
        operations of unregistered dialects.
        """
        key = target, tuple((aval.shape, aval.dtype) for aval in arguments)
        symbol = self.symbols.get(key)
        if symbol is None:
            allow_bellhop_dialects(ctx)
            inputs = [ir_type(ctx, aval) for aval in arguments]
            results = [ir_type(ctx, aval) for aval in ctx.avals_out]
            name = "".join(c if c.isalnum() else "_" for c in target.name)
            with ir.InsertionPoint.at_block_begin(ctx.module_context.module.body):
                placeholder = func.FuncOp(name, ([], []), visibility="private")
            symbol = ir.StringAttr(ctx.module_context.symbol_table.insert(placeholder)).value
            self.symbols[key] = symbol
            self.targets.append(target)
            self.placeholders.append((placeholder, symbol, inputs, results))
        return symbol

    def emit_call(
        self,
        ctx: mlir.LoweringRuleContext,
        target: "CallbackTarget",
        kind: str,
        operands: Sequence[Any],
        token: ir.Value | None,
        *,
        n_arguments: int | None = None,
    ) -> tuple[list[Any], Any]:
        """Emit a call of a callback.

        Args:
            ctx: that of a rule.
            target: what is called.
            kind: that of the call.
            operands: those of the rule; the first ``n_arguments``, or all, are arguments.
            token: that before the call, or None.

        Returns:
            the results, and the token after the call where there is one.
        """
        symbol = self.declare(ctx, target, ctx.avals_in[:n_arguments])
        types = [ir_type(ctx, aval) for aval in ctx.avals_out]
        if token is None:
            call = dialect.build_call(symbol, kind, list(operands), types, target.aliases)
            return list(call.results), None
        call = dialect.build_call(
            symbol, kind, [token, *operands], [token.type, *types], target.aliases
        )
        token, *results = call.results
        return results, token

    def finish(self) -> None:
        """Replace the empty functions by the declarations of the callbacks."""
        for number, (placeholder, symbol, inputs, results) in enumerate(self.placeholders):
            target = self.targets[number]
            with ir.InsertionPoint(placeholder), ir.Location.unknown(placeholder.context):
                dialect.build_func(
                    symbol,
                    inputs,
                    results,
                    python=target.qualified_name,
                    site=target.site,
                    id=number,
                )
            placeholder.erase()
        self.placeholders.clear()


@dataclass(frozen=True)
class LoweringState:
    """What lowering rules read, in this thread and inside of these ``with`` blocks.

    Attributes:
        program: the program of ours that is being lowered; None for one of JAX's own.
        delegates: whether callbacks are JAX's on the CPU too, as they are on other platforms.
        records: whether the device of the circuit that is lowered records its gates.
    """

    program: Lowering | None = None
    delegates: bool = False
    records: bool = True


_state = ScopedState("bellhop_lowering_state", LoweringState())
lowering_state = _state.now
override_lowering_state = _state.override


def current_lowering() -> Lowering | None:
    """Return the program of ours that is being lowered, or None for one of JAX's own."""
    return lowering_state().program


@contextlib.contextmanager
def begin_lowering() -> Iterator[Lowering]:
    """Begin a program: gather what is lowered inside of the ``with`` block."""
    gathered = Lowering()
    with override_lowering_state(program=gathered):
        yield gathered


def allow_bellhop_dialects(ctx: mlir.LoweringRuleContext) -> None:
    """Allow operations of our unregistered dialects in the module that JAX is lowering."""
    # XLA ends the process where it finds one in a module of JAX's own.
    assert current_lowering() is not None, "an operation of a program is outside of it"
    ctx.module_context.context.allow_unregistered_dialects = True


def stamp_circuit(module: ir.Module, circuit: Sequence[str]) -> None:
    """Let a module say that it holds a circuit, none of whose operations stand in it.

    Args:
        module: that of the program.
        circuit: its name, its device, and who runs it and why.
    """
    with module.context:
        new = ir.ArrayAttr.get([ir.StringAttr.get(text) for text in circuit])
        known = [
            ir.ArrayAttr.get(list(map(ir.StringAttr.get, each))) for each in find_stamps(module)
        ]
        every = list(dict.fromkeys([*known, new]))
        module.operation.attributes[_CIRCUITS] = ir.ArrayAttr.get(every)


def find_stamps(module: ir.Module) -> tuple[tuple[str, ...], ...]:
    """Return what ``stamp_circuit`` was told of a module."""
    circuits = module.operation.attributes.get(_CIRCUITS, ())
    return tuple(tuple(text.value for text in circuit) for circuit in circuits)
