"""Values with marks: the same values, with rules of their own for what JAX does to them.

    y = quantum_marked[mark=Undifferentiable(...)] x

One primitive has all marks, and asks them for its rules.
"""

from collections.abc import Sequence
from typing import Any

from jax.extend.core import JaxprEqn, Primitive
from jax.interpreters import ad, batching, mlir

from bellhop.base.types import Operand
from bellhop.compiler.context import lowering_in_progress, stamp

# marked: x, and what its rules need beside it... -> x
marked_p = Primitive("quantum_marked")
marked_p.def_impl(lambda value, *_, **__: value)
marked_p.def_abstract_eval(lambda value, *_, **__: value)


class Mark:
    """The rules of a value.  A subclass is hashable, and changes what differs.

    Attributes:
        box: the lines of a circuit whose state it marks, for pictures and the module.
    """

    box: tuple[str, ...] = ()

    def tangent(self, operands: Sequence[Operand], tangents: Sequence[Any]) -> Any:
        """Return the tangent of the value, of operands and their tangents."""
        return tangents[0]

    def batched(self, operands: Sequence[Operand], dims: Sequence[int | None]) -> Operand:
        """Return the value for all elements of a mapped axis."""
        return marked(*operands, mark=self)


def marked(*operands: Any, mark: Mark) -> Any:
    """Return the first of some operands with a mark."""
    return marked_p.bind(*operands, mark=mark)


def has_mark(eqn: JaxprEqn, kind: type[Mark]) -> bool:
    """Tell whether an equation gives a value a mark of some kind."""
    return eqn.primitive is marked_p and isinstance(eqn.params["mark"], kind)


def _jvp(primals: Sequence[Operand], tangents: Sequence[Any], *, mark: Mark) -> tuple[Any, Any]:
    return marked(*primals, mark=mark), mark.tangent(primals, tangents)


def _lower(ctx: mlir.LoweringRuleContext, value: Any, *_: Any, mark: Mark) -> list[Any]:
    if mark.box and lowering_in_progress() is not None:
        stamp(ctx.module_context.module, mark.box)
    return [value]


mlir.register_lowering(marked_p, _lower)
ad.primitive_jvps[marked_p] = _jvp
batching.primitive_batchers[marked_p] = lambda args, dims, *, mark: (
    mark.batched(args, dims),
    dims[0],
)
