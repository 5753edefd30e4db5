"""The primitive that stands for a compiled program inside a ``jax.jit``."""

from typing import Any

from jax.extend.core import Primitive
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax.private import hold_weakly_in_caches
from bellhop.base.types import Aval
from bellhop.compiler.code import Code, call, merge
from bellhop.compiler.placement import refuse_lowering_elsewhere

hold_weakly_in_caches(Code)

# Operands: the arguments of the program, then the handle of its table.  A region runs on the
# devices that it is compiled for; other programs on one of the host.
program_p = Primitive("bellhop_program")
program_p.multiple_results = True


@program_p.def_abstract_eval
def _abstract_eval(*avals: Aval, code: Code, is_region: bool) -> Any:
    del is_region
    # JAX drops what has no result; where a program has none, it returns the handle.
    return code.returned or avals[-1:]


def _lower(
    ctx: mlir.LoweringRuleContext, *operands: ir.Value, code: Code, is_region: bool
) -> list[ir.Value]:
    if not is_region:
        refuse_lowering_elsewhere(ctx.module_context)
    *arguments, table = operands
    # The program orders its own effects from beginning to end, and the call waits for them.
    tokens = [stablehlo.create_token() for _ in range(code.tokens)]
    results = call(ctx, merge(ctx, code), code, arguments, table, tokens)
    return results[code.tokens :] or [table]


mlir.register_lowering(program_p, _lower, cacheable=False)
