"""Reverse mode through a region whose circuits have partitioned states.

JAX splits a differentiated region in two, and residuals go from the first region to the second.  A
state that is partitioned over many devices cannot be copied between the regions.  Therefore the
second region runs the circuits again, and the arguments are the only residuals.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.core import eval_jaxpr
from jax.extend.core import Jaxpr

from bellhop.arguments.flat_tree import split_leaves
from bellhop.jaxprs.equations import iterate_equations
from bellhop.mesh.wire_axes import is_wire_axis


def recompute_partitioned_states(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function in ``jax.checkpoint`` if its circuits have partitioned states.

    A state is partitioned if each device has a part of the state vector. Reverse mode then runs
    the function again, and its arguments are the only residuals. Functions without such circuits
    are differentiated as usual.

    Args:
        function: takes pytrees of tracers and static values, returns a pytree.

    Returns:
        a function with the same arguments and result.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        """Call the function, by ``jax.checkpoint`` if it has partitioned states."""
        is_traced = lambda leaf: isinstance(leaf, jax.core.Tracer)
        _, tracers, filled = split_leaves((args, kwargs), is_traced)

        def call_with_tracers(*tracers: Any) -> Any:
            """Call the function with these tracers, and the call's static values."""
            args, kwargs = filled(tracers)
            return function(*args, **kwargs)

        closed, result = jax.make_jaxpr(call_with_tracers, return_shape=True)(*tracers)
        run: Callable[..., Any] = lambda *args: eval_jaxpr(closed.jaxpr, closed.consts, *args)
        found = jax.checkpoint(run)(*tracers) if _has_sharded_state(closed.jaxpr) else run(*tracers)
        return jax.tree.unflatten(jax.tree.structure(result), found)

    return call


def _has_sharded_state(jaxpr: Jaxpr) -> bool:
    """Return whether a jaxpr has a circuit whose state vector is split over devices."""
    return any(
        is_wire_axis(axis)
        for eqn in iterate_equations(jaxpr)
        for axis in getattr(eqn.params.get("mesh"), "axis_names", ())
    )
