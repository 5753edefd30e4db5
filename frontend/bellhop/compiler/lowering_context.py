"""State of lowering: callbacks and counters collected while JAX lowers a program.

The lowering rule of a callback on ``x:f64[]`` calls ``current_lowering().declare(ctx,
target, avals)``.  That adds the target to ``targets``, and returns a symbol for its calls;
``finish`` then puts the declaration into the module::

    "callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, id = 0,
                       python = "module.f", site = "file.py:3"}

where ``id`` is the index in ``targets``.  If ``current_lowering()`` is None, JAX lowers a
plain ``jax.jit``.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jax.extend.core import Jaxpr
from jax.extend.mlir.dialects import func
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax.private import ir_type
from bellhop.base.scoped_state import ScopedState
from bellhop_mlir.dialects import callback as dialect

if TYPE_CHECKING:
    from bellhop.compiler.callback_target import CallbackTarget


@dataclass
class Lowering:
    """The callbacks and counters collected while JAX lowers one program of a qjit function.

    `begin_lowering` creates it; lowering rules find it by `current_lowering`.

    Attributes:
        targets: the callbacks, by the index in their declarations.
        symbols: symbol of each callback in the module, by target and argument types.
        placeholders: empty functions that reserve the symbols, with symbol, argument and result
            types.
        platform_caches: JAX's caches of lowered functions in regions, by platform of the region.
        random_circuits: number of circuits that draw random numbers.
        jaxpr: jaxpr of the program, in which lines of the user's code are looked up; None if
            it is unknown.
    """

    targets: list["CallbackTarget"] = field(default_factory=list)
    # A function called with two shapes has two declarations.
    symbols: dict[Any, str] = field(default_factory=dict)
    placeholders: list[tuple[ir.Operation, str, list[Any], list[Any]]] = field(default_factory=list)
    platform_caches: dict[str, Any] = field(default_factory=dict)
    random_circuits: int = 0
    jaxpr: Jaxpr | None = None

    def next_random_circuit_index(self) -> int:
        """Return a new index, from 0, for a circuit of this program that draws random numbers."""
        self.random_circuits += 1
        return self.random_circuits - 1

    def declare(
        self, ctx: mlir.LoweringRuleContext, target: "CallbackTarget", arguments: Sequence[Any]
    ) -> str:
        """Return the MLIR symbol of a callback; declare the callback if it is new.

        An empty ``func.func`` reserves the symbol until `finish`.

        Args:
            ctx: context of the lowering rule, with the types of the callback's results.
            target: the callback; with other argument types it has another symbol.
            arguments: types of the callback's arguments.
        """
        # Other callbacks and JAX's functions may have the same name, and from jax 0.11 on, the
        # symbol table rejects operations of unregistered dialects.
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
        """Emit a ``callback.call`` in the program; declare the callback if needed.

        Args:
            ctx: context of the lowering rule, with the types of the operands and results.
            target: the callback.
            kind: kind of the callback, a key of ``KINDS`` such as ``"pure"``.
            operands: operands of the rule.
            token: token before the call, or None for an unordered call.
            n_arguments: number of leading operands that are arguments of the callback; None for
                all.

        Returns:
            the list of results, and the token after the call or None.
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
        """Replace the empty functions in the module by the declarations of the callbacks.

        Called once, when JAX has lowered the program.
        """
        for index, (placeholder, symbol, inputs, results) in enumerate(self.placeholders):
            target = self.targets[index]
            with ir.InsertionPoint(placeholder), ir.Location.unknown(placeholder.context):
                dialect.build_func(
                    symbol,
                    inputs,
                    results,
                    python=target.qualified_name,
                    site=target.site,
                    id=index,
                )
            placeholder.erase()
        self.placeholders.clear()


@dataclass(frozen=True)
class LoweringState:
    """State that lowering rules read, which ``with`` blocks override for this thread.

    Attributes:
        program: the Bellhop program that is being lowered; None for a plain ``jax.jit``.
        delegates: whether callbacks are lowered to JAX's own callbacks on the CPU too, for tests.
        records: whether gates that are lowered now have indices of their parameters, by which the
            runtime computes derivatives; False in circuits that are not differentiated.
    """

    program: Lowering | None = None
    delegates: bool = False
    records: bool = True


_state = ScopedState("bellhop_lowering_state", LoweringState())
lowering_state = _state.now
override_lowering_state = _state.override


def current_lowering() -> Lowering | None:
    """Return the Bellhop program that is being lowered; None for a plain ``jax.jit``."""
    return lowering_state().program


@contextlib.contextmanager
def begin_lowering() -> Iterator[Lowering]:
    """Collect the callbacks of one program while JAX lowers it in a ``with`` block.

    Yields:
        the new `Lowering`, which `current_lowering` returns inside of the block.
    """
    lowering = Lowering()
    with override_lowering_state(program=lowering):
        yield lowering


def allow_bellhop_dialects(ctx: mlir.LoweringRuleContext) -> None:
    """Allow operations of Bellhop's unregistered dialects in the current module."""
    # XLA aborts the process if a plain ``jax.jit`` module contains such operations.
    assert current_lowering() is not None, (
        "internal error: an operation of a qjit program is lowered outside of a program"
    )
    ctx.module_context.context.allow_unregistered_dialects = True


def record_circuit(module: ir.Module, circuit: Sequence[str]) -> None:
    """Add a circuit to the list in an attribute of a module, for profiles.

    This is for circuits that are simulated by StableHLO operations, which the runtime does not see.
    Equal circuits are recorded once.

    Args:
        module: the module of the program, to which the attribute is added.
        circuit: three strings: name of the QNode; its device and wires; and where and why it is
            simulated, such as ``in the program: ...``.
    """
    with module.context:
        new = ir.ArrayAttr.get([ir.StringAttr.get(text) for text in circuit])
        recorded = [
            ir.ArrayAttr.get(list(map(ir.StringAttr.get, each)))
            for each in find_recorded_circuits(module)
        ]
        circuits = list(dict.fromkeys([*recorded, new]))
        module.operation.attributes[dialect.CIRCUITS] = ir.ArrayAttr.get(circuits)


def find_recorded_circuits(module: ir.Module) -> tuple[tuple[str, ...], ...]:
    """Read the circuits that `record_circuit` added to a module, each as three strings."""
    circuits = module.operation.attributes.get(dialect.CIRCUITS, ())
    return tuple(tuple(text.value for text in circuit) for circuit in circuits)
