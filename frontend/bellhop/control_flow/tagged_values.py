"""Values with marks: the same values, with rules of their own for what JAX does to them.

    y = quantum_marked[mark=Undifferentiable(...)] x

One primitive has all marks, and asks them for its rules.
"""

from collections.abc import Sequence
from typing import Any

from jax.extend.core import JaxprEqn, Primitive
from jax.interpreters import ad, batching, mlir

from bellhop.base.types import Operand
from bellhop.compiler.lowering_context import current_lowering, record_circuit

# marked: x, and what its rules need beside it... -> x
tagged_p = Primitive("quantum_marked")
tagged_p.def_impl(lambda value, *_, **__: value)
tagged_p.def_abstract_eval(lambda value, *_, **__: value)


class ValueTag:
    """The rules of a value.  A subclass is hashable, and changes what differs.

    Attributes:
        box: the lines of a circuit whose state it marks, for pictures and the module.
    """

    box: tuple[str, ...] = ()

    def compute_tangent(self, operands: Sequence[Operand], tangents: Sequence[Any]) -> Any:
        """Return the tangent of the value, of operands and their tangents."""
        return tangents[0]

    def batch(self, operands: Sequence[Operand], dims: Sequence[int | None]) -> Operand:
        """Return the value for all elements of a mapped axis."""
        return tag_value(*operands, mark=self)


def tag_value(*operands: Any, mark: ValueTag) -> Any:
    """Return the first of some operands with a mark."""
    return tagged_p.bind(*operands, mark=mark)


def has_tag(eqn: JaxprEqn, kind: type[ValueTag]) -> bool:
    """Tell whether an equation gives a value a mark of some kind."""
    return eqn.primitive is tagged_p and isinstance(eqn.params["mark"], kind)


def _jvp(primals: Sequence[Operand], tangents: Sequence[Any], *, mark: ValueTag) -> tuple[Any, Any]:
    return tag_value(*primals, mark=mark), mark.compute_tangent(primals, tangents)


def _lower(ctx: mlir.LoweringRuleContext, value: Any, *_: Any, mark: ValueTag) -> list[Any]:
    if mark.box and current_lowering() is not None:
        record_circuit(ctx.module_context.module, mark.box)
    return [value]


mlir.register_lowering(tagged_p, _lower)
ad.primitive_jvps[tagged_p] = _jvp
batching.primitive_batchers[tagged_p] = lambda args, dims, *, mark: (
    mark.batch(args, dims),
    dims[0],
)
