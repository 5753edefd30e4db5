"""Give a function a fallback, which is differentiated if the function cannot be.

A function has two forms.  Here ``primary`` is a circuit in the runtime, and ``fallback`` the same
circuit as a part of the program::

    y = quantum_two_forms[call_jaxpr={ lambda ; x. let y = quantum_circuit x in (y,) } forms=...] x

The derivative has two forms as well, the derivatives of each form::

    y = quantum_two_forms[...] x
    y_dot = bellhop_linear_map x x_dot

Its transpose is ``quantum_two_forms[...] x y_bar`` of both VJPs, and so on.  If ``primary`` has no
derivative of the requested order, the derivative is JAX's derivative of ``fallback`` alone.
A ``jax.custom_jvp`` would suffice but for reverse mode, which drops the custom rule after the first
derivative.
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
from bellhop.circuits.ir.tangents import fill_zero_tangents

Form = Callable[..., list[Any]]


@dataclass(frozen=True, eq=False)
class FallbackFunction:
    """A function in two forms: one to evaluate, and one to differentiate if needed.

    An example is a circuit in the runtime (``primary``) and the same circuit as JAX operations
    (``fallback``). A form takes arrays and returns a list of arrays.

    Attributes:
        primary: the form that is evaluated.
        fallback: a form with the same results, and with derivatives of any order.
        supports_derivative: ``(is_perturbed, order) -> bool``, whether ``primary`` has this
            derivative.
        is_perturbed: for each original operand, whether the function has been differentiated by it.
            Operands that derivatives add, such as tangents, are not included.
        order: how many times the function has been differentiated.
    """

    primary: Form
    fallback: Form
    supports_derivative: Callable[[Sequence[bool], int], bool]
    is_perturbed: Sequence[bool]
    order: int = 0

    def __call__(self, *operands: Operand) -> list[Any]:
        """Evaluate the function by ``primary``, or by ``fallback``.

        ``fallback`` is evaluated if ``primary`` does not support the function's derivative of order
        `order` with respect to the operands in `is_perturbed`.
        """
        if not self.supports_derivative(self.is_perturbed, self.order):
            return self.fallback(*operands)
        closed = jax.make_jaxpr(self.primary)(*operands)
        # In reverse mode the values are unused, so dead code elimination removes a circuit.
        closed, _ = dce(closed, [True] * len(closed.out_avals), [True] * len(operands))
        return fallback_p.bind(*operands, call_jaxpr=closed, forms=self)

    def map_forms(self, change: Callable[[Form], Form]) -> "FallbackFunction":
        """Apply a transformation such as ``jax.vmap`` to both forms: ``change(form)``.

        The order of differentiation and the perturbed operands stay the same.
        """
        changed = change(self.primary), change(self.fallback)
        return FallbackFunction(*changed, self.supports_derivative, self.is_perturbed, self.order)

    def differentiate(self, has_tangent: Sequence[bool]) -> "FallbackFunction":
        """Return a copy marked as differentiated once more; its forms stay the same.

        Args:
            has_tangent: for each operand, whether it has a tangent. Operands that derivatives have
                added, which come last, do not count: if only they have tangents, the order stays.
        """
        own = has_tangent[: len(self.is_perturbed)]
        moved = list(map(operator.or_, self.is_perturbed, own))
        return replace(self, is_perturbed=moved, order=self.order + any(own))


hold_weakly_in_caches(FallbackFunction)

fallback_p = Primitive("quantum_two_forms")
fallback_p.multiple_results = True


@fallback_p.def_impl
def _evaluate_primary(
    *operands: Operand, call_jaxpr: ClosedJaxpr, forms: FallbackFunction
) -> list[Any]:
    """Evaluate ``call_jaxpr``, the jaxpr of the form ``primary``."""
    return eval_jaxpr(call_jaxpr.jaxpr, call_jaxpr.consts, *operands)


@fallback_p.def_abstract_eval
def _abstract_eval(*_: Any, call_jaxpr: ClosedJaxpr, forms: FallbackFunction) -> Sequence[Any]:
    return call_jaxpr.out_avals


def _jvp(
    primals: Sequence[Operand],
    tangents: Sequence[Any],
    *,
    call_jaxpr: ClosedJaxpr,
    forms: FallbackFunction,
) -> tuple[list[Any], list[Any]]:
    """JVP rule of ``quantum_two_forms``, which calls a `FallbackFunction`.

    Args:
        primals: the operands of the function.
        tangents: their tangents, some of them symbolic zeros.
        call_jaxpr: the jaxpr of the form ``primary``.
        forms: the function, with both forms.

    Returns:
        the results and their tangents. The tangents come from a ``LinearMap``, whose evaluation and
        transpose are again functions with two forms: the JVPs and the VJPs of both forms.
    """
    results = fallback_p.bind(*primals, call_jaxpr=call_jaxpr, forms=forms)
    has_tangent = [type(tangent) is not ad.Zero for tangent in tangents]
    is_inexact = [jnp.issubdtype(result.dtype, jnp.inexact) for result in results]
    n = len(primals)

    def restrict_to_perturbed(form: Form, primals: Sequence[Operand]) -> tuple[Form, list[Operand]]:
        """Return a form as a function of the perturbed operands alone.

        Operands without a tangent are fixed.

        Args:
            form: one of the function's two forms.
            primals: values of all operands.

        Returns:
            a function that takes the perturbed operands and returns the list of floating-point and
            complex results; and the values in `primals` of the perturbed operands, in order.
        """

        def call_perturbed(*perturbed: Operand) -> list[Any]:
            """Call the form with `perturbed` in place of the operands that have tangents."""
            rest = iter(perturbed)
            every = [next(rest) if yes else x for x, yes in zip(primals, has_tangent, strict=True)]
            return list(itertools.compress(form(*every), is_inexact))

        return call_perturbed, list(itertools.compress(primals, has_tangent))

    def push(form: Form) -> Form:
        """Return the JVP of a form: ``(*primals, *tangents) -> tangents``.

        The arguments are all operands, then the tangents of the perturbed operands alone. The
        results are the tangents of the floating-point and complex results.
        """

        def push_forward(*operands: Operand) -> list[Any]:
            """Evaluate the JVP; the arguments are operands, then tangents."""
            return jax.jvp(*restrict_to_perturbed(form, operands[:n]), list(operands[n:]))[1]

        return push_forward

    def pull(form: Form) -> Form:
        """Return the VJP of a form: ``(*primals, *cotangents) -> cotangents``.

        The arguments are all operands, then the cotangents of the floating-point and complex
        results. The results are the cotangents of the perturbed operands alone.
        """

        def pull_back(*operands: Operand) -> list[Any]:
            """Evaluate the VJP; the arguments are operands, then cotangents."""
            function, perturbed = restrict_to_perturbed(form, operands[:n])
            return list(jax.vjp(function, *perturbed)[1](list(operands[n:])))

        return pull_back

    derived = forms.differentiate(has_tangent)
    pushes, pulls = derived.map_forms(push), derived.map_forms(pull)
    linear = LinearMap(
        lambda saved, bars: pulls(*saved, *bars),
        lambda saved, tangents: pushes(*saved, *tangents),
        n,
        tuple(jax.typeof(x).to_tangent_aval() for x in itertools.compress(results, is_inexact)),
    )
    result_tangents = linear(primals, list(itertools.compress(tangents, has_tangent)))
    return results, fill_zero_tangents(results, result_tangents, is_inexact)


def _batch(
    axis: Any,
    operands: Sequence[Operand],
    dims: Sequence[Any],
    *,
    call_jaxpr: ClosedJaxpr,
    forms: FallbackFunction,
) -> tuple[list[Any], list[int | None]]:
    """Batching rule of ``quantum_two_forms``: map both forms of the function over the axis.

    Returns:
        the results and their mapped axes: 0, or None if no operand is mapped.
    """
    if all(dim is None for dim in dims):
        results = fallback_p.bind(*operands, call_jaxpr=call_jaxpr, forms=forms)
        return results, [None] * len(results)
    axis_options = {
        "axis_size": axis.size,
        "axis_name": axis.name,
        "spmd_axis_name": axis.spmd_name,
    }
    results = forms.map_forms(lambda form: jax.vmap(form, tuple(dims), **axis_options))(*operands)
    return results, [0] * len(results)


ad.primitive_jvps[fallback_p] = _jvp
batching.fancy_primitive_batchers[fallback_p] = _batch
mlir.register_lowering(
    fallback_p, mlir.lower_fun(_evaluate_primary, multiple_results=True), cacheable=False
)
