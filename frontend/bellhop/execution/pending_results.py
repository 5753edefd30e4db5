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
    """Static description of a call's results.

    Attributes:
        tree: structure of the function's result.
        code: the program.
        call: owner of device-resident results until they are taken, or None.
    """

    tree: PyTree
    code: Code
    call: CallWithArguments | None = None


class PendingResults:
    """Results of a program that need conversion: handles, targets, or no results.

    JAX removes a program without used results, so a program without results returns its handle.

    Args:
        form: description of the results.
        leaves: values that the program returned.
    """

    def __init__(self, form: ResultForm, leaves: Sequence[Any]) -> None:
        self.form = form
        self.leaves = leaves

    def with_call(self, call: CallWithArguments) -> "PendingResults":
        """Return the results with their owner, which then lives as long as they do."""
        return PendingResults(self.form._replace(call=call), self.leaves)

    def finish(self, arguments: PyTree) -> PyTree:
        """Convert the results: resolve handles, copy aliases, move to requested devices.

        Args:
            arguments: the program's arguments; a result that aliases an argument or another result
                is copied, so that each can be donated.
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
    """Put arrays on their targets; an empty `targets` changes nothing."""
    if not targets:
        return leaves
    return [
        leaf if target is None else _place_leaf(leaf, target)
        for leaf, target in zip(leaves, targets, strict=True)
    ]


def _place_leaf(leaf: Any, target: Target) -> jax.Array:
    """Move an array or tracer to a device or sharding."""
    if isinstance(leaf, jax.core.Tracer) and isinstance(target, jax.sharding.Sharding):
        # Under jax.vmap, the sharding's axes refer to one element, but device_put's to the batch.
        there = jax.device_put(leaf, find_sharding(target, ()))
        return jax.jit(lambda value: value, out_shardings=target)(there)
    return jax.device_put(leaf, target)
