"""Build circuits that compute products with the derivatives of another circuit.

The linear part of a derivative comes after a circuit's last operation.  So its transpose has
product equations (VJPs or Hessian-vector products, each an adjoint sweep) that take the handles of
states that have changed since::

    state1 f = quantum_measure[query=VALUES] state0 ...
    state2 = quantum_gates state1 ...
    state3 g = quantum_measure[query=VALUES] state2 ...
    _ x_bar = quantum_measure[query=VJP] state0 ... f_bar
    _ y_bar = quantum_measure[query=VJP] state2 ... g_bar

``build_product_circuit`` puts each product in the place of its measurement, or directly behind it
if the cotangents need the measured value::

    state1 x_bar = quantum_measure[query=VJP] state0 ... f_bar
    state2 = quantum_gates state1 ...
    state3 y_bar = quantum_measure[query=VJP] state2 ... g_bar
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import (
    is_derivative_product,
    measure_p,
)
from bellhop.tracing.dce import eliminate_dead_code


def build_product_circuit(product: ClosedJaxpr) -> ClosedJaxpr | None:
    """Reorder a jaxpr so that each derivative product is where its measurement was.

    A derivative product is a measurement equation that computes a VJP or Hessian-vector product by
    an adjoint sweep.

    Args:
        product: the jaxpr, from state handle, inputs and (co)tangents to state handle and results.

    Returns:
        a jaxpr with the same types, without measurements whose values are not used; None if
        ``product`` has no derivative product.
    """
    jaxpr = product.jaxpr
    sweeps = {eqn.invars[0]: eqn for eqn in jaxpr.eqns if is_derivative_product(eqn)}
    if not sweeps:
        return None
    measured = [
        eqn for eqn in jaxpr.eqns if eqn.primitive is measure_p and not is_derivative_product(eqn)
    ]

    def rebuild_jaxpr(kept: Sequence[JaxprEqn]) -> ClosedJaxpr:
        """Return the jaxpr with derivative products in the places of measurements.

        Args:
            kept: the measurements to keep in front of their products; all other measurements are
                dropped.
        """
        # Maps the handle after a measurement to the handle after its replacement.
        places: dict[Any, Any] = {}
        # Maps the handle after a product to the handle that the product takes in its new place.
        product_handles = {}
        for eqn in measured:
            before, after = eqn.invars[0], eqn.outvars[0]
            sweep = sweeps.get(before)
            is_kept = eqn in kept
            # Measurements of one state follow each other, so `before` may have been replaced.
            handle = after if is_kept else _resolve_variable(places, before)
            if sweep is not None:
                product_handles[sweep.outvars[0]] = handle
                places[after] = sweep.outvars[0]
            elif not is_kept:
                places[after] = handle
        eqns = [_rename_variables(eqn, places, product_handles) for eqn in jaxpr.eqns]
        outvars = [_resolve_variable(places, var) for var in jaxpr.outvars]
        closed = ClosedJaxpr(
            jaxpr.replace(eqns=_sort_equations(eqns), outvars=outvars), product.consts
        )
        return eliminate_dead_code(closed, [True] * len(outvars), [True] * len(closed.in_avals))[0]

    needed = {
        eqn.outvars[0] for eqn in rebuild_jaxpr(()).jaxpr.eqns if not is_derivative_product(eqn)
    }
    kept = [eqn for eqn in measured if eqn.outvars[0] in needed]
    return rebuild_jaxpr(kept)


def _rename_variables(
    eqn: JaxprEqn, substitutions: Mapping[Any, Any], product_handles: Mapping[Any, Any]
) -> JaxprEqn:
    """Return an equation with renamed operands.

    Args:
        eqn: the equation.
        substitutions: maps an old variable to its new variable; applied repeatedly, as the new
            variable may be replaced too.
        product_handles: for equations that compute a derivative product (VJP or Hessian-vector
            product): maps the handle that the equation returns to the handle that it shall take.
    """
    first = product_handles.get(eqn.outvars[0]) if is_derivative_product(eqn) else None
    invars = [_resolve_variable(substitutions, var) for var in eqn.invars]
    return eqn.replace(invars=invars if first is None else [first, *invars[1:]])


def _resolve_variable(substitutions: Mapping[Any, Any], var: Any) -> Any:
    """Follow a chain of substitutions from a variable to its end."""
    while not isinstance(var, Literal) and var in substitutions:
        var = substitutions[var]
    return var


def _sort_equations(eqns: Sequence[JaxprEqn]) -> list[JaxprEqn]:
    """Return equations sorted so that each one follows the producers of its operands.

    Apart from that, they keep their order.
    """
    producers = {var: eqn for eqn in eqns for var in eqn.outvars}
    ordered: dict[int, JaxprEqn] = {}
    waiting = list(reversed(eqns))
    while waiting:
        eqn = waiting[-1]
        needed = [producers.get(var) for var in eqn.invars if not isinstance(var, Literal)]
        missing = [each for each in needed if each is not None and id(each) not in ordered]
        if id(eqn) in ordered or not missing:
            ordered[id(eqn)] = waiting.pop()
        else:
            waiting.extend(missing)
    return list(ordered.values())
