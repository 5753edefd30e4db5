"""Flattened pytrees, which rebuild user classes from arrays and tracers only.

The constructor of a registered class may accept arrays only: it may convert its arguments, or
compute with them. So leaves that are not arrays (types, symbolic zeros) stay in a `FlatTree`: a
sequence of leaves with a structure.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from bellhop.base.source import user_site
from bellhop.base.types import PyTree
from bellhop.base.value_checks import check_keys


@dataclass(frozen=True)
class _Structure:
    """Structure of a `FlatTree`: a `PyTreeDef`, and key paths for errors.

    Attributes:
        tree: the `PyTreeDef`. Structures are equal if their trees are: paths do not count.
        paths: JAX's key path of each leaf, from the root of the pytree.
    """

    tree: Any
    paths: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Structure) and self.tree == other.tree

    def __hash__(self) -> int:
        return hash(self.tree)


class _Path:
    """The whole key path of a leaf, as a single key in the path of a `FlatTree`.

    JAX has one key for each child of a node, and the leaves are the children of a `FlatTree`. As
    text, the key is the whole path, such as ``['a'][0]``.

    Args:
        path: JAX's keys from the root of the pytree to the leaf.
    """

    def __init__(self, path: tuple[Any, ...]) -> None:
        self._path = path

    def __str__(self) -> str:
        return jax.tree_util.keystr(self._path)


class FlatTree:
    """A pytree as a sequence of leaves and a structure, without its containers.

    It is itself a pytree with these leaves. Unlike the pytree, it can hold any objects as leaves,
    such as types, since it does not call the constructors of user classes.

    Args:
        structure: the `PyTreeDef` with each leaf's key path, which `flatten` and
            `from_structure` make.
        leaves: one object in place of each leaf, not necessarily an array.

    Attributes:
        leaves: as the argument, a tuple.
    """

    def __init__(self, structure: _Structure, leaves: Sequence[Any]) -> None:
        self.leaves = tuple(leaves)
        self._structure = structure

    @classmethod
    def flatten(cls, tree: PyTree) -> "FlatTree":
        """Convert a pytree to a `FlatTree` with the same leaves and their key paths.

        Raises:
            TypeError: if the pytree contains a dictionary whose keys cannot be sorted.
        """
        try:
            found, structure = jax.tree_util.tree_flatten_with_path(tree)
        except Exception:
            check_keys(f"at {user_site()}: a value", tree)
            raise
        paths = tuple(path for path, _ in found)
        return cls(_Structure(structure, paths), [leaf for _, leaf in found])

    def replace_leaves(self, leaves: Sequence[Any]) -> "FlatTree":
        """Return a `FlatTree` with the same structure and new leaves."""
        return FlatTree(self._structure, leaves)

    @classmethod
    def from_structure(cls, tree: PyTree, leaves: Sequence[Any]) -> "FlatTree":
        """Make a `FlatTree` from a ``PyTreeDef`` and leaves, with empty key paths.

        Args:
            tree: the ``PyTreeDef``.
            leaves: one object for each leaf, in order.
        """
        return cls(_Structure(tree, ((),) * tree.num_leaves), leaves)

    @property
    def tree(self) -> Any:
        """The structure as `PyTreeDef`."""
        return self._structure.tree

    @property
    def paths(self) -> tuple[Any, ...]:
        """Key path of each leaf."""
        return self._structure.paths

    def unflatten(self) -> Any:
        """Rebuild the pytree; the leaves must be arrays or tracers."""
        return jax.tree.unflatten(self.tree, self.leaves)

    def _with_keys(self) -> tuple[Any, _Structure]:
        """Return the leaves with their keys, and the structure, for JAX's flattening with paths."""
        keys = map(_Path, self._structure.paths)
        return tuple(zip(keys, self.leaves, strict=True)), self._structure


jax.tree_util.register_pytree_with_keys(
    FlatTree, FlatTree._with_keys, FlatTree, lambda flat: (flat.leaves, flat._structure)
)


def describe_structure(tree: Any, children: Sequence[str] | None = None) -> str:
    """Describe a pytree structure in Python syntax, as in ``(array, {'a': array})``.

    Args:
        tree: ``PyTreeDef``; a nested ``FlatTree`` is described as the pytree that it holds.
        children: descriptions of the root's children; None to make them.

    Returns:
        the description; a node of a registered class is ``Class(array, array)``.
    """
    data = tree.node_data()
    if data is None:
        return "array"
    kind, metadata = data
    if kind is type(None):
        return "None"
    if kind is FlatTree:
        return describe_structure(metadata.tree)
    parts = list(map(describe_structure, tree.children()) if children is None else children)
    if kind is tuple:
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    if kind is list:
        return f"[{', '.join(parts)}]"
    if issubclass(kind, dict):
        keys = metadata[1] if issubclass(kind, defaultdict) else metadata
        items = ", ".join(f"{key!r}: {part}" for key, part in zip(keys, parts, strict=True))
        return f"{{{items}}}" if kind is dict else f"{kind.__name__}({{{items}}})"
    names = getattr(kind, "_fields", ()) if issubclass(kind, tuple) else ()
    if len(names) == len(parts):
        parts = [f"{name}={part}" for name, part in zip(names, parts, strict=True)]
    return f"{kind.__name__}({', '.join(parts)})"


def flatten_call(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Convert each argument of a call to a `FlatTree`.

    Args:
        args: positional arguments: pytrees, or `FlatTree` objects, which are kept unchanged.
        kwargs: keyword arguments, as `args`.

    Returns:
        a tuple and a dictionary of `FlatTree` objects.
    """
    flat = lambda value: value if isinstance(value, FlatTree) else FlatTree.flatten(value)
    return tuple(map(flat, args)), {name: flat(value) for name, value in kwargs.items()}


def unflatten_call(args: Sequence[FlatTree], kwargs: dict[str, FlatTree]) -> tuple[Any, Any]:
    """Rebuild the arguments of a call from the `FlatTree` objects of `flatten_call`.

    The leaves must be arrays or tracers, as constructors of user classes may require.

    Returns:
        a tuple and a dictionary of pytrees.
    """
    return tuple(arg.unflatten() for arg in args), {
        name: value.unflatten() for name, value in kwargs.items()
    }


def split_leaves(
    tree: PyTree, is_selected: Callable[[Any], bool]
) -> tuple[tuple[int, ...], list[Any], Callable[[Sequence[Any]], Any]]:
    """Return the selected leaves of a pytree, and a function that replaces them.

    For example, for ``{"a": 1, "b": x}`` and the predicate "is an array"::

        (1,), [x], f    with f([y]) == {"a": 1, "b": y}

    Args:
        tree: the pytree.
        is_selected: takes a leaf, and returns whether it is selected.

    Returns:
        the indices of the selected leaves among all leaves, the selected leaves, and a function
        that takes their replacements and rebuilds the pytree.
    """
    leaves, structure = jax.tree.flatten(tree)
    indices = tuple(index for index, leaf in enumerate(leaves) if is_selected(leaf))

    def replace_selected(replacements: Sequence[Any]) -> Any:
        """Rebuild the pytree with new values for the selected leaves, in their order."""
        replacement_at = dict(zip(indices, replacements, strict=True))
        return structure.unflatten(
            [replacement_at.get(index, leaf) for index, leaf in enumerate(leaves)]
        )

    return indices, [leaves[index] for index in indices], replace_selected


def unflatten_deep(tree: PyTree) -> Any:
    """Replace every `FlatTree` in a pytree, nested or not, by its own pytree.

    For example ``[FlatTree.flatten((x, y))]`` gives ``[(x, y)]``. The leaves must be arrays or
    tracers.
    """
    is_flat = lambda node: isinstance(node, FlatTree)

    def rebuild(node: Any) -> Any:
        """Rebuild the pytree of a `FlatTree`, nested ones first; keep other nodes."""
        if not is_flat(node):
            return node
        return node.replace_leaves(list(map(unflatten_deep, node.leaves))).unflatten()

    return jax.tree.map(rebuild, tree, is_leaf=is_flat)


def make_flat_jaxpr(
    function: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[ClosedJaxpr, FlatTree]:
    """Trace a function to a jaxpr; also return the types and structure of its result.

    Args:
        function: function of pytrees.
        *args: example arguments or `ShapeDtypeStruct` objects.
        **kwargs: keyword arguments of the same kinds.

    Returns:
        the closed jaxpr, and a `FlatTree` of `ShapeDtypeStruct` objects for the result.
    """
    flat = lambda *args, **kwargs: FlatTree.flatten(function(*args, **kwargs))
    closed, types = jax.make_jaxpr(flat, return_shape=True)(*args, **kwargs)
    return closed, types
