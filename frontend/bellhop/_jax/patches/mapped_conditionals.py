"""Reverse mode of linear conditionals that ``vmap`` has made selections of.

``jax.vmap`` of a ``cond`` whose predicate is mapped is ::

    select(predicate, one(select(predicate, t, stop_gradient(t))), other(...))

so that derivatives of the branch that is not taken do no harm.  Where ``t`` is a tangent already,
the conditional is linear in it, and JAX cannot transpose ``stop_gradient``.  The linear equations
of a batch of circuits have such conditionals::

    jax.jacobian(jax.vmap(circuit))     where circuit has cond(x > 0, lambda: qml.RX(x, 0))()

Replaced: the transpose rule of ``stop_gradient_p``, which JAX has not.  It is the identity, since
in linear equations nothing is left to stop.
Versions: 0.10 and 0.11.
Upstream: a rule of JAX's own, or a batching rule of ``cond`` that tells linear conditionals.
Installed: by the first derivative of a batch of circuits.
Test: ``test_batch_derivatives.py``.
"""

from jax.extend.core.primitives import stop_gradient_p
from jax.interpreters import ad

from bellhop._patching import patch


@patch("the missing transposition rule of stop_gradient", "linear conditionals can be mapped")
def transpose_mapped_conditionals() -> None:
    """Let the cotangent of a ``stop_gradient`` in linear equations be that of its operand."""
    ad.primitive_transposes.setdefault(stop_gradient_p, lambda cotangent, _: [cotangent])
