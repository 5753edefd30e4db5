"""Give all calls with effects of a program one order, after it is traced.

A call of ``bellhop.io_callback`` has an effect without an order, as JAX's own has, so that
``vmap``, ``jax.checkpoint`` and a plain ``jax.jit`` treat the two alike::

    { lambda ; a. let
        callback[print 1] a
        b = bellhop_io_callback[read 2] a          InputOutput
        callback[print 3] b
      in (b,) }

XLA may make this call before the first, or after the last.  In a ``qjit`` program calls keep the
order in which they stand: after all transformations, ``in_program_order`` replaces the primitive
of the call by a primitive with the ordered effect as well, for which JAX's lowering makes a token::

    { lambda ; a. let
        callback[print 1] a
        b = bellhop_io_callback_in_order[read 2] a          InputOutput, Callback
        callback[print 3] b
      in (b,) }

Loops, conditionals and functions around the call get the effect as well.  A program with one such
call, be it in a loop, is left as it is: the call has nothing to be before or after, and a token
costs it 15 ns of 290.
"""

from typing import Any, Protocol, runtime_checkable

from jax.extend.core import ClosedJaxpr, Effect, Jaxpr, JaxprEqn, Primitive

from bellhop.jaxprs.equations import inner_jaxprs

# By the primitive without an order: the primitive that replaces it, and the effects of that one.
_ordered_forms: dict[Primitive, tuple[Primitive, frozenset[Effect]]] = {}


def register_ordered_form(
    primitive: Primitive, ordered: Primitive, effects: frozenset[Effect]
) -> None:
    """Replace a primitive by another one where a program of ours is compiled.

    Args:
        primitive: of a callback whose calls have effects, and no order.
        ordered: takes the same operands and parameters, and has the same results.
        effects: of equations of ``ordered``.
    """
    _ordered_forms[primitive] = ordered, effects


@runtime_checkable
class HoldsJaxpr(Protocol):
    """A parameter of an equation that holds a jaxpr which the equation runs."""

    closed: ClosedJaxpr

    def with_jaxpr(self, closed: ClosedJaxpr) -> Any:
        """Return the same parameter with another jaxpr of the same types."""


def in_program_order(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Replace all primitives without an order by their ordered forms, at any depth.

    Args:
        closed: the jaxpr of a program, after all transformations.

    Returns:
        the new jaxpr; ``closed`` itself where it has no such primitive, or one equation with
        effects.
    """
    return _Rewriting().closed(closed) if _count_effects(closed.jaxpr) > 1 else closed


def _count_effects(jaxpr: Jaxpr) -> int:
    """Count the places of a lowered program that may have effects; what is above one may differ."""
    return sum(_count_of_equation(eqn) for eqn in jaxpr.eqns if eqn.effects)


def _count_of_equation(eqn: JaxprEqn) -> int:
    inner = list(inner_jaxprs(eqn))
    if len(inner) == 0:
        # A circuit, and a call that is mapped, may be lowered to several calls.
        is_single = eqn.primitive in _ordered_forms and not eqn.params["target"].loops
        return 1 if is_single else 2
    return sum(map(_count_effects, inner)) * (1 + (eqn.params.get("unroll", 1) != 1))


class _Rewriting:
    """The rewriting of one program, in which a jaxpr that is shared stays shared."""

    def __init__(self) -> None:
        # By identity; each entry keeps the original alive.
        self._done: dict[int, tuple[Any, Any]] = {}

    def closed(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Rewrite a closed jaxpr."""
        jaxpr = self._jaxpr(closed.jaxpr)
        if jaxpr is closed.jaxpr:
            return closed
        return self._once(closed, lambda: ClosedJaxpr(jaxpr, closed.consts))

    def _once(self, original: Any, rewrite: Any) -> Any:
        if id(original) not in self._done:
            self._done[id(original)] = original, rewrite()
        return self._done[id(original)][1]

    def _jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        # Most programs have no effects.
        return self._once(jaxpr, lambda: self._rewritten(jaxpr)) if jaxpr.effects else jaxpr

    def _rewritten(self, jaxpr: Jaxpr) -> Jaxpr:
        equations = [self._equation(eqn) if eqn.effects else eqn for eqn in jaxpr.eqns]
        changed = [new for new, old in zip(equations, jaxpr.eqns, strict=True) if new is not old]
        if not changed:
            return jaxpr
        effects = jaxpr.effects.union(*(eqn.effects for eqn in changed))
        return jaxpr.replace(eqns=equations, effects=effects)

    def _equation(self, eqn: JaxprEqn) -> JaxprEqn:
        if eqn.primitive in _ordered_forms:
            ordered, effects = _ordered_forms[eqn.primitive]
            return eqn.replace(primitive=ordered, effects=effects)
        added: set[Effect] = set()
        params = {name: self._param(value, added) for name, value in eqn.params.items()}
        if all(params[name] is value for name, value in eqn.params.items()):
            return eqn
        return eqn.replace(params=params, effects=eqn.effects | added)

    def _param(self, value: Any, added: set[Effect]) -> Any:
        """Rewrite the jaxprs in a parameter, and add the effects that they get to ``added``."""
        if isinstance(value, Jaxpr):
            new = self._jaxpr(value)
            added |= new.effects - value.effects
            return new
        if isinstance(value, ClosedJaxpr):
            closed = self.closed(value)
            added |= closed.effects - value.effects
            return closed
        if isinstance(value, tuple):
            parts = [self._param(each, added) for each in value]
            if all(new is old for new, old in zip(parts, value, strict=True)):
                return value
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, HoldsJaxpr):
            closed = self._param(value.closed, added)
            if closed is value.closed:
                return value
            return self._once(value, lambda: value.with_jaxpr(closed))
        return value
