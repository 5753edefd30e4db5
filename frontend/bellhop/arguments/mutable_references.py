"""Errors for mutable references (``jax.new_ref``) where arrays are expected."""

from collections.abc import Callable

import jax

from bellhop.base.types import Args, Kwargs
from bellhop.base.value_checks import check_dictionary_keys, flatten_sortable


def check_no_references(describe: Callable[[], str], args: Args, kwargs: Kwargs) -> None:
    """Raise an error if an argument of a call contains a mutable reference.

    JAX's own error is raised after tracing, and names neither the line nor the argument. Also
    raises an error for a dictionary whose keys cannot be sorted, since JAX cannot flatten it.

    Args:
        describe: returns the name and line of the call, for the error.
        args: positional arguments, pytrees.
        kwargs: keyword arguments, pytrees.

    Raises:
        TypeError: names the first reference, or the dictionary.
    """
    try:
        leaves = jax.tree.leaves((args, kwargs))
    except Exception:
        check_dictionary_keys(describe(), (), args, kwargs)
        raise
    if not any(isinstance(leaf, jax.Ref) for leaf in leaves):
        return
    for path, leaf in jax.tree_util.tree_leaves_with_path((args, kwargs)):
        if isinstance(leaf, jax.Ref):
            name = ("args" if path[0].idx == 0 else "kwargs") + jax.tree_util.keystr(path[1:])
            raise TypeError(
                f"{describe()}: {name} is a {jax.typeof(leaf)}, a mutable reference, expected an "
                "array or a number. Pass its value, ref[...]."
            )


def check_no_carried_references(loop: str, carried: Args) -> None:
    """Raise an error if an initial value of a loop contains a mutable reference.

    Args:
        loop: name of the loop and its body, with the body's line, for the error.
        carried: initial carried values, pytrees.

    Raises:
        TypeError: names the first reference, or a dictionary whose keys cannot be sorted.
    """
    leaves, _ = flatten_sortable(f"{loop}: the initial value init", carried)
    if not any(isinstance(leaf, jax.Ref) for leaf in leaves):
        return
    for path, leaf in jax.tree_util.tree_leaves_with_path(carried):
        if isinstance(leaf, jax.Ref):
            raise TypeError(
                f"{loop}: the initial value init{jax.tree_util.keystr(path)} is a "
                f"{jax.typeof(leaf)}, a mutable reference, expected an array or a number. Carry "
                "its value, ref[...], or use the reference in the body without carrying it."
            )
