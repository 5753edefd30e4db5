"""Order all calls with effects of a program as in its source, after tracing.

``bellhop.io_callback`` has an unordered effect, like JAX's ``io_callback``, so that ``vmap``,
``jax.checkpoint`` and a plain ``jax.jit`` treat both alike::

    { lambda ; a. let
        callback[print 1] a
        b = bellhop_io_callback[read 2] a          InputOutput
        callback[print 3] b
      in (b,) }

XLA may execute this call before the first or after the last.  In a ``qjit`` program calls keep
their order: after all transformations, ``order_effects`` replaces the primitive by a primitive with
an additional ordered effect, for which JAX's lowering creates a token::

    { lambda ; a. let
        callback[print 1] a
        b = bellhop_io_callback_in_order[read 2] a          InputOutput, Callback
        callback[print 3] b
      in (b,) }

Loops, conditionals and functions that contain the call get the effect as well.  A program with a
single such call, even in a loop, is not changed: a token would cost 15 ns of the call's 290 ns.
"""

from typing import Any, Protocol, runtime_checkable

from jax.extend.core import ClosedJaxpr, Effect, Jaxpr, JaxprEqn, Primitive

from bellhop.jaxprs.equations import inner_jaxprs

# Ordered primitive and its effects, by unordered primitive.
_ordered_forms: dict[Primitive, tuple[Primitive, frozenset[Effect]]] = {}


def register_ordered_form(
    primitive: Primitive, ordered: Primitive, effects: frozenset[Effect]
) -> None:
    """Register the ordered form of a callback primitive, for qjit programs.

    `order_effects` replaces the primitive by the ordered form, so that calls with effects run in
    program order.

    Args:
        primitive: primitive of a callback with unordered effects.
        ordered: primitive with the same operands, parameters and results, but ordered effects.
        effects: effects of equations of ``ordered``.
    """
    _ordered_forms[primitive] = ordered, effects


@runtime_checkable
class HoldsJaxpr(Protocol):
    """Protocol of an equation parameter that is not a jaxpr but contains one.

    Circuits have such parameters; `order_effects` rewrites the jaxpr in them.

    Attributes:
        closed: the jaxpr that the equation runs.
    """

    closed: ClosedJaxpr

    def replace_jaxpr(self, closed: ClosedJaxpr) -> Any:
        """Return a copy of the parameter with another jaxpr of the same types."""


def order_effects(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Replace unordered callback primitives by ordered forms, at any depth of a jaxpr.

    The program then executes its calls with effects in order. `register_ordered_form` registers
    the ordered forms.

    Args:
        closed: jaxpr of a program, after all transformations.

    Returns:
        the new jaxpr; ``closed`` itself if it has at most one call with effects, which needs no
        order.
    """
    return _Rewriting().closed(closed) if _count_effects(closed.jaxpr) > 1 else closed


def _count_effects(jaxpr: Jaxpr) -> int:
    """Count the calls with effects to which a jaxpr is lowered, up to 2 or more.

    Only 0, 1 and "more than 1" are distinguished: from two calls on, the program needs an order.
    """
    return sum(_count_in_equation(eqn) for eqn in jaxpr.eqns if eqn.effects)


def _count_in_equation(eqn: JaxprEqn) -> int:
    """Count the calls with effects to which an equation is lowered, up to 2 or more.

    Only 0, 1 and "more than 1" are distinguished. A call of a primitive from
    `register_ordered_form`, without batch axes, counts as 1. Any other equation without inner
    jaxprs counts as 2, since a circuit, for example, may become several calls. An equation with
    inner jaxprs, such as a loop, has the sum of their counts, doubled if it is unrolled.
    """
    inner = list(inner_jaxprs(eqn))
    if len(inner) == 0:
        # Circuits and batched calls may be lowered to several calls.
        is_single = eqn.primitive in _ordered_forms and not eqn.params["target"].loops
        return 1 if is_single else 2
    return sum(map(_count_effects, inner)) * (1 + (eqn.params.get("unroll", 1) != 1))


class _Rewriting:
    """Replaces primitives by their ordered forms in a jaxpr and all jaxprs inside.

    Made by `order_effects` for one program. Each jaxpr is rewritten once, so that equations which
    share a jaxpr still share it.
    """

    def __init__(self) -> None:
        # Original and new object, by the id of the original.
        self._done: dict[int, tuple[Any, Any]] = {}

    def closed(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Replace callback primitives by their ordered forms in a closed jaxpr, at any depth.

        `closed` itself is returned if nothing changes.
        """
        jaxpr = self._jaxpr(closed.jaxpr)
        if jaxpr is closed.jaxpr:
            return closed
        return self._once(closed, lambda: ClosedJaxpr(jaxpr, closed.consts))

    def _once(self, original: Any, rewrite: Any) -> Any:
        """Return the rewritten form of an object; rewrite it at the first call only.

        So equations that share a jaxpr still share it.

        Args:
            original: the object, identified by its ``id``.
            rewrite: function without arguments that returns the rewritten object.
        """
        if id(original) not in self._done:
            self._done[id(original)] = original, rewrite()
        return self._done[id(original)][1]

    def _jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        """Replace callback primitives by their ordered forms in a jaxpr, at any depth.

        A jaxpr without effects is returned unchanged.
        """
        # Most programs have no effects.
        return self._once(jaxpr, lambda: self._rewrite_jaxpr(jaxpr)) if jaxpr.effects else jaxpr

    def _rewrite_jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        """Replace callback primitives by their ordered forms in the equations of a jaxpr.

        The jaxpr's effects are updated. `jaxpr` itself is returned if nothing changes.
        """
        equations = [self._equation(eqn) if eqn.effects else eqn for eqn in jaxpr.eqns]
        changed = [new for new, old in zip(equations, jaxpr.eqns, strict=True) if new is not old]
        if not changed:
            return jaxpr
        effects = jaxpr.effects.union(*(eqn.effects for eqn in changed))
        return jaxpr.replace(eqns=equations, effects=effects)

    def _equation(self, eqn: JaxprEqn) -> JaxprEqn:
        """Replace an equation's primitive, or primitives inside, by ordered forms.

        The effects of the equation are updated.

        Args:
            eqn: an equation with effects.

        Returns:
            the new equation; `eqn` itself if nothing changes.
        """
        if eqn.primitive in _ordered_forms:
            ordered, effects = _ordered_forms[eqn.primitive]
            return eqn.replace(primitive=ordered, effects=effects)
        added: set[Effect] = set()
        params = {name: self._param(value, added) for name, value in eqn.params.items()}
        if all(params[name] is value for name, value in eqn.params.items()):
            return eqn
        return eqn.replace(params=params, effects=eqn.effects | added)

    def _param(self, value: Any, added: set[Effect]) -> Any:
        """Replace callback primitives by their ordered forms in an equation's parameter.

        Args:
            value: the parameter's value: a jaxpr, an object that holds jaxprs, or anything else.
            added: set that receives the effects which the new jaxprs have in addition.

        Returns:
            the new value; `value` itself if nothing changes.
        """
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
            return self._once(value, lambda: value.replace_jaxpr(closed))
        return value
