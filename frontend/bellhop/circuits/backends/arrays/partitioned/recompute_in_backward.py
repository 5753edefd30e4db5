"""Derivatives from outside of a region whose circuits have states over several devices.

JAX makes two regions of one that is differentiated, and what the second needs of the first crosses
between them.  A state that only many devices hold cannot; so the second region runs the circuits
again, and nothing crosses but arguments.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.core import eval_jaxpr
from jax.extend.core import Jaxpr

from bellhop.base.equations import iterate_equations
from bellhop.base.flat_tree import split_leaves
from bellhop.circuits.backends.arrays.device_wires.device_wires import is_axis_of_wires


def without_states_as_residuals(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that keeps its arguments alone for its derivative, if it has such states.

    Args:
        function: of pytrees of tracers, and of static arguments.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        is_traced = lambda leaf: isinstance(leaf, jax.core.Tracer)
        _, tracers, filled = split_leaves((args, kwargs), is_traced)

        def of_tracers(*tracers: Any) -> Any:
            args, kwargs = filled(tracers)
            return function(*args, **kwargs)

        closed, result = jax.make_jaxpr(of_tracers, return_shape=True)(*tracers)
        run: Callable[..., Any] = lambda *args: eval_jaxpr(closed.jaxpr, closed.consts, *args)
        found = jax.checkpoint(run)(*tracers) if _has_states(closed.jaxpr) else run(*tracers)
        return jax.tree.unflatten(jax.tree.structure(result), found)

    return call


def _has_states(jaxpr: Jaxpr) -> bool:
    """Tell whether a jaxpr has a state that is partitioned over devices."""
    return any(
        is_axis_of_wires(axis)
        for eqn in iterate_equations(jaxpr)
        for axis in getattr(eqn.params.get("mesh"), "axis_names", ())
    )
