"""Intermediate results of a program's ``jax.jit``, which callers do not see."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from bellhop.base.types import PyTree, unwrap_key_data
from bellhop.compiler.program import Code
from bellhop.devices.devices import Target, find_sharding
from bellhop_runtime import CallWithArguments, take_held


class ResultForm(NamedTuple):
    """Structure and types of the values in `PendingResults`, and the call that owns them.

    Attributes:
        tree: ``PyTreeDef`` of the function's result.
        code: the program's code, which has the types and targets of the results.
        call: object that owns the device-resident results until `PendingResults.finish` takes them;
            None before the call returns, and without such results.
    """

    tree: PyTree
    code: Code
    call: CallWithArguments | None = None


class PendingResults:
    """Values that a program returned, to convert before the user gets them.

    A program returns them if some results stay on another device, and are returned as handles
    (uint32[2]); if results are to be copied to another device; or if it has no results: JAX removes
    a program without used results, so it returns its handle instead. They are a pytree, so that a
    ``jax.jit`` can return them.

    Args:
        form: description of the results.
        leaves: values that the program returned, in the order of the result's leaves.
    """

    def __init__(self, form: ResultForm, leaves: Sequence[Any]) -> None:
        self.form = form
        self.leaves = leaves

    def with_call(self, call: CallWithArguments) -> "PendingResults":
        """Return a copy that keeps `call`, the owner of device-resident results, alive."""
        return PendingResults(self.form._replace(call=call), self.leaves)

    def finish(self, arguments: PyTree) -> PyTree:
        """Convert these values to the result of the user's function.

        Handles become the arrays on their devices, and results with a target are copied to it. May
        be called once: each handle can be taken once.

        Args:
            arguments: pytree of the call's arguments; a device-resident result that is the same
                array as an argument or an earlier result is copied, so that each can be donated.

        Returns:
            the pytree of the result.
        """
        tree, code, _ = self.form
        leaves = list(self.leaves[: tree.num_leaves])
        # Take all handles before anything can fail.
        for index in code.handle_result_indices:
            leaves[index] = take_held(int(np.asarray(leaves[index]).view(np.uint64)[0]))
        # A result may be the same device array as an argument or another result.
        seen = (
            set(map(id, map(unwrap_key_data, jax.tree.leaves(arguments))))
            if code.handle_result_indices
            else set()
        )
        for index in code.handle_result_indices:
            if id(leaves[index]) in seen:
                leaves[index] = leaves[index].copy()
            seen.add(id(leaves[index]))
            dtype = code.out_avals[index].dtype
            if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
                leaves[index] = jax.random.wrap_key_data(leaves[index], impl=dtype._impl)
        return jax.tree.unflatten(tree, place_on_targets(leaves, code.targets))


jax.tree_util.register_pytree_node(
    PendingResults, lambda results: (results.leaves, results.form), PendingResults
)


def place_on_targets(leaves: Sequence[Any], targets: Sequence[Any]) -> Sequence[Any]:
    """Copy arrays to the devices of ``out_shardings``; return them in order.

    Args:
        leaves: arrays or tracers, the leaves of a result.
        targets: device or sharding of each leaf, None to leave it where it is; an empty sequence
            changes nothing.
    """
    if not targets:
        return leaves
    return [
        leaf if target is None else _place_leaf(leaf, target)
        for leaf, target in zip(leaves, targets, strict=True)
    ]


def _place_leaf(leaf: Any, target: Target) -> jax.Array:
    """Copy an array or tracer to a device or sharding.

    Args:
        leaf: the array; may be traced, also under ``jax.vmap``.
        target: device or sharding; under ``jax.vmap``, a sharding of one element, without the batch
            axis.
    """
    if isinstance(leaf, jax.core.Tracer) and isinstance(target, jax.sharding.Sharding):
        # Under jax.vmap, the sharding's axes refer to one element, but device_put's to the batch.
        there = jax.device_put(leaf, find_sharding(target, ()))
        return jax.jit(lambda value: value, out_shardings=target)(there)
    return jax.device_put(leaf, target)
