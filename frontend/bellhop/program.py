"""The primitive that stands for a compiled program inside a ``jax.jit``."""

from typing import Any

from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax_compat import hold_weakly_in_caches
from bellhop.lowering import Program, embed

hold_weakly_in_caches(Program)

# Operands: the arguments of the program, then the handle of its table.
program_p = Primitive("bellhop_program")
program_p.multiple_results = True


@program_p.def_abstract_eval
def _abstract_eval(*_: Any, program: Program, out_avals: tuple[Any, ...]) -> tuple[Any, ...]:
    return out_avals


def _lower(
    ctx: mlir.LoweringRuleContext, *operands: ir.Value, program: Program, out_avals: Any
) -> list[ir.Value]:
    *arguments, table = operands
    # The program orders its own effects from beginning to end, and the call waits for them.
    tokens = [
        ir.Operation.create("stablehlo.create_token", results=[mlir.token_type()]).result
        for _ in range(program.tokens)
    ]
    return embed(ctx, program, arguments, table, tokens)[program.tokens :]


mlir.register_lowering(program_p, _lower, cacheable=False)
