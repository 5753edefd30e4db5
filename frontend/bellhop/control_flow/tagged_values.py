"""Identity primitive with customisable transformation rules.

    y = quantum_marked[tag=Undifferentiable(...)] x

The parameter ``tag`` (a `ValueTag`) defines the JVP, batching and lowering of the equation.
"""

from collections.abc import Sequence
from typing import Any

from jax.extend.core import JaxprEqn, Primitive
from jax.interpreters import ad, batching, mlir

from bellhop.base.types import Operand
from bellhop.compiler.lowering_context import current_lowering, record_circuit

# Operands: the value, and further operands for its rules. Result: the value.
tagged_p = Primitive("quantum_marked")
tagged_p.def_impl(lambda value, *_, **__: value)
tagged_p.def_abstract_eval(lambda value, *_, **__: value)


class ValueTag:
    """Base class of tags, which give a value JVP, batching and lowering rules.

    A tag is the parameter ``tag`` of an equation of the identity primitive ``tagged_p``. The first
    operand of the equation is the value that it returns; further operands are for the rules only.
    Hashable subclasses override the rules.

    Attributes:
        box: lines that describe a circuit whose state is tagged, for drawings and for the module's
            list of circuits; empty for all other values.
    """

    box: tuple[str, ...] = ()

    def tag(self, value: Any, *operands: Any) -> Any:
        """Bind the identity primitive with this tag to a value.

        Args:
            value: array or tracer.
            *operands: further operands for the rules.

        Returns:
            the value; if it is traced, a new tracer, which has the rules of this tag.
        """
        return tagged_p.bind(value, *operands, tag=self)

    @classmethod
    def is_tagging(cls, eqn: JaxprEqn) -> bool:
        """Return whether an equation tags a value with a tag of this class."""
        return eqn.primitive is tagged_p and isinstance(eqn.params["tag"], cls)

    def compute_tangent(self, operands: Sequence[Operand], tangents: Sequence[Any]) -> Any:
        """Compute the tangent of the tagged value; by default, the value's tangent.

        Args:
            operands: the value and further operands.
            tangents: the tangents of the operands, some of them symbolic zeros.
        """
        return tangents[0]

    def batch(self, operands: Sequence[Operand], dims: Sequence[int | None]) -> Operand:
        """Apply this tag to a batched value; the result has the value's batch axis.

        Args:
            operands: the value and further operands.
            dims: batch axis of each operand; None for operands that are not batched.
        """
        return self.tag(*operands)


def _jvp(primals: Sequence[Operand], tangents: Sequence[Any], *, tag: ValueTag) -> tuple[Any, Any]:
    """JVP rule of ``tagged_p``, which uses the tag's `compute_tangent`."""
    return tag.tag(*primals), tag.compute_tangent(primals, tangents)


def _lower(ctx: mlir.LoweringRuleContext, value: Any, *_: Any, tag: ValueTag) -> list[Any]:
    """Lower ``tagged_p`` to its first operand; record a tagged circuit in the module."""
    if tag.box and current_lowering() is not None:
        record_circuit(ctx.module_context.module, tag.box)
    return [value]


mlir.register_lowering(tagged_p, _lower)
ad.primitive_jvps[tagged_p] = _jvp
batching.primitive_batchers[tagged_p] = lambda args, dims, *, tag: (
    tag.batch(args, dims),
    dims[0],
)
