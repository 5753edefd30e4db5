"""Structures of pytrees as data."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import jax
from jax.tree_util import PyTreeDef

from bellhop.archive.functions import Allowed, Named, encode_type
from bellhop.archive.schema import Malformed
from bellhop.arguments.flat_tree import FlatTree
from bellhop.errors import CompileError

_CONTAINERS = {"tuple": tuple, "list": list}
_KEYS = (str, int, bool)


@dataclass(frozen=True)
class Sequence:
    """A tuple or a list."""

    kind: Literal["tuple", "list"]
    children: "tuple[Tree, ...]"


@dataclass(frozen=True)
class Dictionary:
    """A dictionary."""

    kind: Literal["dict"]
    keys: tuple[str | int | bool, ...]
    children: "tuple[Tree, ...]"


@dataclass(frozen=True)
class NamedTuple:
    """A tuple of a class of its own."""

    kind: Literal["namedtuple"]
    type: Named
    children: "tuple[Tree, ...]"


# A leaf is a star.
Tree: TypeAlias = Literal["*"] | None | Sequence | Dictionary | NamedTuple


def encode_tree(tree: PyTreeDef, what: str) -> Tree:
    """Return a structure as data.

    Args:
        tree: of tuples, lists, dictionaries and named tuples.
        what: whose structure it is, for errors.

    Raises:
        CompileError: for another kind of node, or one that no other process can import.
    """
    if tree == jax.tree.structure(None):
        return None
    data = tree.node_data()
    if data is None:
        return "*"
    kind, keys = data
    if kind is FlatTree:
        return encode_tree(keys.tree, what)
    children = tuple(encode_tree(child, what) for child in tree.children())
    if kind is dict:
        for key in keys:
            if type(key) not in _KEYS:
                raise CompileError(
                    f"{what} has a dictionary with the key {key!r}; a saved program can have keys "
                    "that are strings or integers."
                )
        return Dictionary("dict", tuple(keys), children)
    if kind is tuple:
        return Sequence("tuple", children)
    if kind is list:
        return Sequence("list", children)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return NamedTuple("namedtuple", encode_type(kind, what), children)
    raise CompileError(
        f"{what} is a pytree with a {kind.__name__}, which cannot be saved. Tuples, lists, "
        "dictionaries and named tuples can."
    )


def decode_tree(tree: Tree, allowed: Allowed) -> PyTreeDef:
    """Return the structure that ``encode_tree`` made data of.

    Raises:
        Malformed: where there is no such structure.
    """
    try:
        return jax.tree.structure(_example(tree, allowed), is_leaf=lambda x: x is _LEAF)
    except (TypeError, ValueError) as error:
        raise Malformed(f"it has a pytree that cannot be: {error}") from error


_LEAF = object()


def _example(tree: Tree, allowed: Allowed) -> Any:
    if tree is None:
        return None
    if isinstance(tree, str):
        return _LEAF
    children = [_example(child, allowed) for child in tree.children]
    if isinstance(tree, Dictionary):
        return dict(zip(tree.keys, children, strict=True))
    if isinstance(tree, NamedTuple):
        return allowed.type_of(tree.type)(*children)
    return _CONTAINERS[tree.kind](children)
