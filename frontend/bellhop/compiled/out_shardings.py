"""Where the results of a function are asked for: ``qjit(out_shardings=...)``."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from bellhop.arguments.flat_tree import describe_structure
from bellhop.base.source import describe_derived_function
from bellhop.devices.devices import Target, resolve_target


def resolve_out_shardings(
    function: Callable[..., Any],
    shardings: Any,
    leaves: Sequence[Any],
    tree: jax.tree_util.PyTreeDef,
) -> tuple[Target | None, ...]:
    """Return where each leaf of a result is asked for; nothing where none is.

    Args:
        function: the user's, for errors.
        shardings: what ``out_shardings`` is.
        leaves: of the result, or their types.
        tree: the structure of it.

    Raises:
        ValueError: where what is asked for does not fit the result.
    """
    if shardings is None:
        return ()
    where = f"{describe_derived_function('qjit', function)}: out_shardings"
    is_none = lambda dev: dev is None
    # False for the host: None may be a part of the result.
    targets = jax.tree.map(
        lambda dev: dev is not None and resolve_target(dev, where, "a pytree of them"),
        shardings,
        is_leaf=is_none,
    )
    try:
        of_each = jax.tree.leaves(jax.tree.broadcast(targets, jax.tree.unflatten(tree, leaves)))
    except ValueError as error:
        raise ValueError(
            f"{where} has the structure {describe_structure(jax.tree.structure(targets))}, and the "
            f"result {describe_structure(tree)}. Give a device for all of it, or a tree as the "
            "result's, or the upper part of one, with None for what stays on the host."
        ) from error
    for target, leaf in zip(of_each, leaves, strict=True):
        if isinstance(target, jax.sharding.Sharding):
            shape = jax.numpy.shape(leaf)
            try:
                target.shard_shape(shape)
            except (ValueError, IndexError) as error:
                raise ValueError(
                    f"{where}: {target} does not fit a result of shape {shape}. Give one whose "
                    "axes the result has, of sizes that its parts divide."
                ) from error
    return tuple(target or None for target in of_each)
