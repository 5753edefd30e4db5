"""Errors for donated arguments, of calls that failed since an array was deleted or passed twice."""

from collections.abc import Sequence
from typing import Any

import jax

from bellhop.arguments.signature import leaf_name
from bellhop.arguments.static_arguments import Donated
from bellhop.base.types import Args, Kwargs


def check_not_deleted(
    where: str, names: Sequence[str], args: Args, kwargs: Kwargs, failed: Exception
) -> None:
    """Raise a clear error if an execution failed because an argument was deleted.

    Called after a failed execution, whose error does not name the argument. Returns if no argument
    was deleted.

    Args:
        where: the compiled function and its line, for the error.
        names: names of the positional parameters; further arguments are named ``args[2]``.
        args: positional arguments, pytrees.
        kwargs: keyword arguments, pytrees.
        failed: exception of the execution, which becomes the cause of the raised error.

    Raises:
        RuntimeError: names the first deleted argument and leaf.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path((args, kwargs)):
        if _is_deleted(leaf):
            raise RuntimeError(
                f"{where}: the argument {leaf_name(names, path)} is an array that was deleted, or "
                "donated to a call (donate_argnums, donate_argnames). Pass another array, such as "
                "the result of that call, or donate a copy, x.copy(), to it."
            ) from failed


def check_not_passed_twice(
    where: str,
    names: Sequence[str],
    donated: Donated,
    args: Args,
    kwargs: Kwargs,
    failed: Exception,
) -> None:
    """Raise a clear error if a call failed because a donated array was passed twice.

    Called after a failed execution, whose error has an index in place of the argument's name. An
    array may be passed twice if the program cannot reuse its memory. Returns if no donated array
    was passed twice.

    Args:
        where: the compiled function and its line, for the error.
        names: names of the positional parameters; further arguments are named ``args[2]``.
        donated: the donated arguments.
        args: positional arguments, pytrees.
        kwargs: keyword arguments, pytrees.
        failed: exception of the execution, which becomes the cause of the raised error.

    Raises:
        ValueError: names the donated leaf, and the first other leaf that is the same array or
            shares its memory.
    """
    # Path of each leaf and whether it is donated, by the address of its memory.
    found: dict[int, list[tuple[Any, bool]]] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path((args, kwargs)):
        if isinstance(leaf, jax.Array) and not _is_deleted(leaf) and leaf.is_fully_addressable:
            key = getattr(path[1], "idx" if path[0].idx == 0 else "key")
            address = leaf.addressable_data(0).unsafe_buffer_pointer()
            found.setdefault(address, []).append((path, key in donated))
    for leaves in found.values():
        # The donated leaf comes first.
        (path, is_donated), *others = sorted(leaves, key=lambda leaf: not leaf[1])
        if is_donated and others:
            raise ValueError(
                f"{where}: the argument {leaf_name(names, path)} is donated (donate_argnums, "
                f"donate_argnames), and the argument {leaf_name(names, others[0][0])} is the same "
                "array or shares its memory. Pass a copy, x.copy(), as either of them."
            ) from failed


def _is_deleted(leaf: object) -> bool:
    """Return whether a value is a JAX array, not a tracer, whose memory was deleted."""
    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
        return False
    return bool(leaf.is_deleted())
