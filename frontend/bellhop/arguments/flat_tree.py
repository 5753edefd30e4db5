"""Pytrees that are taken apart, and put together again of arrays and tracers alone.

A class of the user's is put together by its constructor, which may take nothing but arrays: it
converts what it is given, or computes with it.  So types of arrays, zeros that stand for tangents,
and whatever else is no array stays as ``FlatTree`` has it: leaves, beside the structure.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from bellhop.base.types import PyTree


@dataclass(frozen=True)
class _Structure:
    """A structure, and what JAX calls its leaves."""

    tree: Any
    paths: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Structure) and self.tree == other.tree

    def __hash__(self) -> int:
        return hash(self.tree)


class _Path:
    """The place of a leaf in a structure, which is one key here."""

    def __init__(self, path: tuple[Any, ...]) -> None:
        self._path = path

    def __str__(self) -> str:
        return jax.tree_util.keystr(self._path)


class FlatTree:
    """The leaves of a pytree, or what stands for them, and its structure; itself a pytree.

    Attributes:
        leaves: what stands in the place of each leaf.
    """

    def __init__(self, structure: _Structure, leaves: Sequence[Any]) -> None:
        self.leaves = tuple(leaves)
        self._structure = structure

    @classmethod
    def flatten(cls, tree: PyTree) -> "FlatTree":
        """Return a pytree taken apart."""
        found, structure = jax.tree_util.tree_flatten_with_path(tree)
        paths = tuple(path for path, _ in found)
        return cls(_Structure(structure, paths), [leaf for _, leaf in found])

    def replace_leaves(self, leaves: Sequence[Any]) -> "FlatTree":
        """Return other leaves in this structure."""
        return FlatTree(self._structure, leaves)

    @classmethod
    def from_structure(cls, tree: PyTree, leaves: Sequence[Any]) -> "FlatTree":
        """Return leaves in a structure, whose places have no names."""
        return cls(_Structure(tree, ((),) * tree.num_leaves), leaves)

    @property
    def tree(self) -> Any:
        """The structure."""
        return self._structure.tree

    @property
    def paths(self) -> tuple[Any, ...]:
        """What JAX calls the places of the leaves."""
        return self._structure.paths

    def unflatten(self) -> Any:
        """Return the pytree, of leaves that are arrays or tracers."""
        return jax.tree.unflatten(self.tree, self.leaves)

    def _with_keys(self) -> tuple[Any, _Structure]:
        keys = map(_Path, self._structure.paths)
        return tuple(zip(keys, self.leaves, strict=True)), self._structure


jax.tree_util.register_pytree_with_keys(
    FlatTree, FlatTree._with_keys, FlatTree, lambda flat: (flat.leaves, flat._structure)
)


def describe_structure(tree: Any) -> str:
    """Describe a pytree structure in the syntax of Python, as in ``(array, {'a': array})``.

    Args:
        tree: ``PyTreeDef``; a ``FlatTree`` in it is described as the pytree that it holds.

    Returns:
        the text, in which a node of a registered class is ``Class(array, array)``.
    """
    data = tree.node_data()
    if data is None:
        return "array"
    kind, metadata = data
    if kind is type(None):
        return "None"
    if kind is FlatTree:
        return describe_structure(metadata.tree)
    parts = [describe_structure(child) for child in tree.children()]
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
    """Return arguments, each taken apart where it was not."""
    flat = lambda value: value if isinstance(value, FlatTree) else FlatTree.flatten(value)
    return tuple(map(flat, args)), {name: flat(value) for name, value in kwargs.items()}


def unflatten_call(args: Sequence[FlatTree], kwargs: dict[str, FlatTree]) -> tuple[Any, Any]:
    """Return what ``flatten_call`` took apart, of leaves that are arrays or tracers."""
    return tuple(arg.unflatten() for arg in args), {
        name: value.unflatten() for name, value in kwargs.items()
    }


def split_leaves(
    tree: PyTree, is_given: Callable[[Any], bool]
) -> tuple[tuple[int, ...], list[Any], Callable[[Sequence[Any]], Any]]:
    """Take some leaves out of a pytree, whose others stay as they are.

    Args:
        tree: the pytree.
        is_given: tells of a leaf whether it is taken out.

    Returns:
        their places, these leaves, and a function that puts others in their place.
    """
    leaves, structure = jax.tree.flatten(tree)
    places = tuple(place for place, leaf in enumerate(leaves) if is_given(leaf))

    def filled(given: Sequence[Any]) -> Any:
        at = dict(zip(places, given, strict=True))
        return structure.unflatten([at.get(place, leaf) for place, leaf in enumerate(leaves)])

    return places, [leaves[place] for place in places], filled


def unflatten_deep(tree: PyTree) -> Any:
    """Return a pytree with what was taken apart in it put together again."""
    is_flat = lambda node: isinstance(node, FlatTree)

    def restored(node: Any) -> Any:
        if not is_flat(node):
            return node
        return node.replace_leaves(list(map(unflatten_deep, node.leaves))).unflatten()

    return jax.tree.map(restored, tree, is_leaf=is_flat)


def make_flat_jaxpr(
    function: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[ClosedJaxpr, FlatTree]:
    """Return the jaxpr of a function, and the types of its result."""
    flat = lambda *args, **kwargs: FlatTree.flatten(function(*args, **kwargs))
    closed, types = jax.make_jaxpr(flat, return_shape=True)(*args, **kwargs)
    return closed, types
