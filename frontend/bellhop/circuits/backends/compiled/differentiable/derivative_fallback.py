"""Functions in two forms: one runs, and the other is differentiated where the first cannot be.

Here ``runs`` is a circuit of the runtime's, and ``differentiated`` the same in the program::

    y = quantum_two_forms[call_jaxpr={ lambda ; x. let y = quantum_circuit x in (y,) } forms=...] x

Its derivative has two forms as well, those of each::

    y = quantum_two_forms[...] x
    y_dot = bellhop_linear_map x x_dot

whose transpose is ``quantum_two_forms[...] x y_bar`` of both VJPs, and so on; where the first form
has no derivative of the order that is asked for, the second one's is all there is, which is JAX's.
A ``jax.custom_jvp`` would do but for reverse mode, which drops its rule with the first derivative.
"""

import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import ad, batching, mlir

from bellhop._jax.jaxprs import dce
from bellhop._jax.private import hold_weakly_in_caches
from bellhop.base.types import Operand
from bellhop.callbacks.linear_map import LinearMap
from bellhop.circuits.ir.tangents import tangents_of

Form = Callable[..., list[Any]]


@dataclass(frozen=True, eq=False)
class TwoForms:
    """A function of arrays that returns a list of arrays, in two forms.

    Attributes:
        runs: the form that is evaluated.
        differentiated: has the same results, and derivatives of any order.
        has: tells whether the first has a derivative, given which of the operands move and the
            order.
        moved: which of the operands did so far; those that come with derivatives are not counted.
        order: how often these forms are differentiated.
    """

    runs: Form
    differentiated: Form
    has: Callable[[Sequence[bool], int], bool]
    moved: Sequence[bool]
    order: int = 0

    def __call__(self, *operands: Operand) -> list[Any]:
        """Return the results, of what may be differentiated."""
        if not self.has(self.moved, self.order):
            return self.differentiated(*operands)
        closed = jax.make_jaxpr(self.runs)(*operands)
        # In reverse mode the values are a circuit that nobody reads.
        closed, _ = dce(closed, [True] * len(closed.out_avals), [True] * len(operands))
        return two_forms_p.bind(*operands, call_jaxpr=closed, forms=self)

    def changed(self, change: Callable[[Form], Form]) -> "TwoForms":
        """Return what is made of both."""
        changed = change(self.runs), change(self.differentiated)
        return TwoForms(*changed, self.has, self.moved, self.order)

    def differentiate(self, given: Sequence[bool]) -> "TwoForms":
        """Return the same, whose operands with tangents move."""
        own = given[: len(self.moved)]
        moved = list(map(operator.or_, self.moved, own))
        return replace(self, moved=moved, order=self.order + any(own))


hold_weakly_in_caches(TwoForms)

two_forms_p = Primitive("quantum_two_forms")
two_forms_p.multiple_results = True


@two_forms_p.def_impl
def _evaluate(*operands: Operand, call_jaxpr: ClosedJaxpr, forms: TwoForms) -> list[Any]:
    return eval_jaxpr(call_jaxpr.jaxpr, call_jaxpr.consts, *operands)


@two_forms_p.def_abstract_eval
def _avals(*_: Any, call_jaxpr: ClosedJaxpr, forms: TwoForms) -> Sequence[Any]:
    return call_jaxpr.out_avals


def _jvp(
    primals: Sequence[Operand],
    tangents: Sequence[Any],
    *,
    call_jaxpr: ClosedJaxpr,
    forms: TwoForms,
) -> tuple[list[Any], list[Any]]:
    results = two_forms_p.bind(*primals, call_jaxpr=call_jaxpr, forms=forms)
    given = [type(tangent) is not ad.Zero for tangent in tangents]
    moved = [jnp.issubdtype(result.dtype, jnp.inexact) for result in results]
    n = len(primals)

    def at(form: Form, primals: Sequence[Operand]) -> tuple[Form, list[Operand]]:
        """Return what depends on the moving inputs alone, and these."""

        def of_moving(*moving: Operand) -> list[Any]:
            rest = iter(moving)
            every = [next(rest) if yes else x for x, yes in zip(primals, given, strict=True)]
            return list(itertools.compress(form(*every), moved))

        return of_moving, list(itertools.compress(primals, given))

    def push(form: Form) -> Form:
        def pushed(*operands: Operand) -> list[Any]:
            return jax.jvp(*at(form, operands[:n]), list(operands[n:]))[1]

        return pushed

    def pull(form: Form) -> Form:
        def pulled(*operands: Operand) -> list[Any]:
            of_moving, moving = at(form, operands[:n])
            return list(jax.vjp(of_moving, *moving)[1](list(operands[n:])))

        return pulled

    derived = forms.differentiate(given)
    pushes, pulls = derived.changed(push), derived.changed(pull)
    linear = LinearMap(
        lambda saved, bars: pulls(*saved, *bars),
        lambda saved, dots: pushes(*saved, *dots),
        n,
        tuple(jax.typeof(x).to_tangent_aval() for x in itertools.compress(results, moved)),
    )
    dots = linear(primals, list(itertools.compress(tangents, given)))
    return results, tangents_of(results, dots, moved)


def _batch(
    axis: Any,
    operands: Sequence[Operand],
    dims: Sequence[Any],
    *,
    call_jaxpr: ClosedJaxpr,
    forms: TwoForms,
) -> tuple[list[Any], list[int | None]]:
    if all(dim is None for dim in dims):
        results = two_forms_p.bind(*operands, call_jaxpr=call_jaxpr, forms=forms)
        return results, [None] * len(results)
    of_axis = {"axis_size": axis.size, "axis_name": axis.name, "spmd_axis_name": axis.spmd_name}
    results = forms.changed(lambda form: jax.vmap(form, tuple(dims), **of_axis))(*operands)
    return results, [0] * len(results)


ad.primitive_jvps[two_forms_p] = _jvp
batching.fancy_primitive_batchers[two_forms_p] = _batch
mlir.register_lowering(
    two_forms_p, mlir.lower_fun(_evaluate, multiple_results=True), cacheable=False
)
