"""What a program returns inside its ``jax.jit`` where that is not yet what its caller gets."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from bellhop.base.types import PyTree, unwrap_key_data
from bellhop.compiler.program import Code
from bellhop.devices.devices import Target, find_sharding
from bellhop_runtime import CallWithArguments, take_held


class ResultForm(NamedTuple):
    """What a call returns, but for the arrays.

    Attributes:
        tree: the structure of what the function returned.
        code: the program.
        call: what owns the results on devices until they are taken; None where there are none.
    """

    tree: PyTree
    code: Code
    call: CallWithArguments | None = None


class PendingResults:
    """The results of a program that has none, or whose caller asks for some on a device.

    JAX drops a program none of whose results is used, so one without results returns something.

    Args:
        form: what else there is.
        leaves: what the program returned.
    """

    def __init__(self, form: ResultForm, leaves: Sequence[Any]) -> None:
        self.form = form
        self.leaves = leaves

    def with_call(self, call: CallWithArguments) -> "PendingResults":
        """Return the results as those of a call, which lasts as long as they do."""
        return PendingResults(self.form._replace(call=call), self.leaves)

    def finish(self, arguments: PyTree) -> PyTree:
        """Return the results, where the caller asks for them, each to be donated as it likes.

        Args:
            arguments: what the program was called with.
        """
        tree, code, _ = self.form
        leaves = list(self.leaves[: tree.num_leaves])
        # All handles are let go of before anything can fail.
        for number in code.handle_result_indices:
            leaves[number] = take_held(int(np.asarray(leaves[number]).view(np.uint64)[0]))
        # What is an argument, or several results, is one value on the device.
        taken = (
            set(map(id, map(unwrap_key_data, jax.tree.leaves(arguments))))
            if code.handle_result_indices
            else set()
        )
        for number in code.handle_result_indices:
            if id(leaves[number]) in taken:
                leaves[number] = leaves[number].copy()
            taken.add(id(leaves[number]))
            dtype = code.out_avals[number].dtype
            if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
                leaves[number] = jax.random.wrap_key_data(leaves[number], impl=dtype._impl)
        return jax.tree.unflatten(tree, place_on_targets(leaves, code.targets))


jax.tree_util.register_pytree_node(
    PendingResults, lambda results: (results.leaves, results.form), PendingResults
)


def place_on_targets(leaves: Sequence[Any], targets: Sequence[Any]) -> Sequence[Any]:
    """Return arrays where they are asked for; there may be no targets at all."""
    if not targets:
        return leaves
    return [
        leaf if target is None else _place_leaf(leaf, target)
        for leaf, target in zip(leaves, targets, strict=True)
    ]


def _place_leaf(leaf: Any, target: Target) -> jax.Array:
    if isinstance(leaf, jax.core.Tracer) and isinstance(target, jax.sharding.Sharding):
        # Under jax.vmap, its axes are those of one result; device_put's are those of the batch.
        there = jax.device_put(leaf, find_sharding(target, ()))
        return jax.jit(lambda value: value, out_shardings=target)(there)
    return jax.device_put(leaf, target)
