"""The option ``qjit(out_shardings=...)``: devices of a function's results."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from bellhop.arguments.structure_difference import describe_structures
from bellhop.base.source import describe_derived_function
from bellhop.devices.devices import Target, resolve_target


def resolve_out_shardings(
    function: Callable[..., Any],
    shardings: Any,
    leaves: Sequence[Any],
    tree: jax.tree_util.PyTreeDef,
) -> tuple[Target | None, ...]:
    """Find the device or sharding of each result leaf from ``out_shardings``.

    Args:
        function: the user's function, for errors.
        shardings: value of the option: a device, device name or sharding, or a pytree of these that
            is a prefix of the result.
        leaves: leaves of the result, or their types.
        tree: structure of the result.

    Returns:
        a tuple with one device or sharding for each leaf, None for the host; an empty tuple if the
        option is None.

    Raises:
        ValueError: if the option's structure does not match the result, or a sharding does not fit
            a result's shape.
    """
    if shardings is None:
        return ()
    where = f"{describe_derived_function('qjit', function)}: out_shardings"
    is_none = lambda dev: dev is None
    # False means the host here, since None may be a part of the result.
    targets = jax.tree.map(
        lambda dev: (
            dev is not None and resolve_target(dev, where, "a pytree of these", "out_shardings")
        ),
        shardings,
        is_leaf=is_none,
    )
    try:
        by_leaf = jax.tree.leaves(jax.tree.broadcast(targets, jax.tree.unflatten(tree, leaves)))
    except ValueError as error:
        given, expected = describe_structures(jax.tree.structure(targets), tree)
        raise ValueError(
            f"{where} has the structure {given}, and the result has the structure {expected}. Pass "
            "one device, or a pytree that is a prefix of the result's structure, with None for the "
            "host."
        ) from error
    for index, (target, leaf) in enumerate(zip(by_leaf, leaves, strict=True)):
        if isinstance(target, jax.sharding.Sharding):
            shape = jax.numpy.shape(leaf)
            try:
                target.shard_shape(shape)
            except (ValueError, IndexError) as error:
                raise ValueError(
                    f"{where}: {target} does not fit result {index} of shape {shape}. Pass a "
                    "sharding whose spec has no more entries than the result has axes, and whose "
                    "numbers of shards divide the sizes of the axes."
                ) from error
    return tuple(target or None for target in by_leaf)
