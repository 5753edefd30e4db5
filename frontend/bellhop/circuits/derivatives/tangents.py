"""Zero tangents, of values in circuits that have no derivative."""

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad


def is_given(tangent: Any) -> bool:
    """Tell whether a tangent is not a symbolic zero."""
    return type(tangent) is not ad.Zero and tangent.size > 0


def zero_tangent(value: Any) -> Any:
    """Return the symbolic zero tangent of a value."""
    return ad.Zero(jax.typeof(value).to_tangent_aval())


def without_tangents(primitive: Primitive) -> None:
    """Register a JVP rule with zero tangents, for primitives that gates' derivatives bypass."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **static: Any) -> Any:
        del tangents
        results = primitive.bind(*primals, **static)
        return results, jax.tree.map(zero_tangent, results)

    ad.primitive_jvps[primitive] = jvp
