"""Pytree structures as data."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import jax
from jax.tree_util import PyTreeDef

from bellhop.archive.functions import ImportedRecord, NameResolver, encode_type
from bellhop.archive.schema import Malformed
from bellhop.arguments.flat_tree import FlatTree
from bellhop.errors import CompileError

_CONTAINERS = {"tuple": tuple, "list": list}
_KEYS = (str, int, bool)


@dataclass(frozen=True)
class Sequence:
    """A tuple or a list in a pytree structure, as it is stored in a file.

    Attributes:
        kind: ``"tuple"`` or ``"list"``.
        children: structures of its elements.
    """

    kind: Literal["tuple", "list"]
    children: "tuple[Tree, ...]"


@dataclass(frozen=True)
class Dictionary:
    """A dictionary in a pytree structure, as it is stored in a file.

    Attributes:
        kind: ``"dict"``, which distinguishes the kinds of nodes in JSON.
        keys: its keys, sorted.
        children: structures of its values, in the order of the keys.
    """

    kind: Literal["dict"]
    keys: tuple[str | int | bool, ...]
    children: "tuple[Tree, ...]"


@dataclass(frozen=True)
class NamedTuple:
    """A named tuple in a pytree structure, as it is stored in a file.

    Attributes:
        kind: ``"namedtuple"``, which distinguishes the kinds of nodes in JSON.
        type: name of its class.
        children: structures of its fields.
    """

    kind: Literal["namedtuple"]
    type: ImportedRecord
    children: "tuple[Tree, ...]"


# A leaf is a star.
Tree: TypeAlias = Literal["*"] | None | Sequence | Dictionary | NamedTuple


def encode_tree(tree: PyTreeDef, what: str) -> Tree:
    """Convert a pytree structure to data for a saved file.

    For example the structure of ``(1.0, {"a": 2.0})`` gives ``Sequence("tuple", ("*",
    Dictionary("dict", ("a",), ("*",))))``.

    A `FlatTree` is stored as the pytree that it holds.

    Args:
        tree: structure of tuples, lists, dictionaries, named tuples and None.
        what: description of the pytree, for errors.

    Returns:
        the data; ``"*"`` for a leaf.

    Raises:
        CompileError: for other nodes, or classes that another process cannot import.
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
                    f"{what} cannot be saved: the dictionary key {key!r} is a "
                    f"{type(key).__name__}, expected a str, int or bool. Use keys of these types."
                )
        return Dictionary("dict", tuple(keys), children)
    if kind is tuple:
        return Sequence("tuple", children)
    if kind is list:
        return Sequence("list", children)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return NamedTuple("namedtuple", encode_type(kind, what), children)
    raise CompileError(
        f"{what} cannot be saved: the pytree has a node of type {kind.__name__}, expected tuples, "
        "lists, dictionaries and named tuples. Convert it to one of these."
    )


def decode_tree(tree: Tree, resolver: NameResolver) -> PyTreeDef:
    """Convert a pytree structure in a file to a `PyTreeDef`.

    Args:
        tree: the structure as `encode_tree` stored it.
        resolver: resolves the classes of named tuples.

    Raises:
        Malformed: if it is not a valid structure, such as a named tuple with too many fields.
        CompileError: if it names a class that is not allowed.
    """
    try:
        return jax.tree.structure(_example(tree, resolver), is_leaf=lambda x: x is _LEAF)
    except (TypeError, ValueError) as error:
        raise Malformed(f"the file has a pytree that is not valid: {error}") from error


_LEAF = object()


def _example(tree: Tree, resolver: NameResolver) -> Any:
    """Build an example of a pytree with a saved structure; all leaves are `_LEAF`.

    Args:
        tree: the structure as `encode_tree` stored it.
        resolver: resolves the classes of named tuples.
    """
    if tree is None:
        return None
    if isinstance(tree, str):
        return _LEAF
    children = [_example(child, resolver) for child in tree.children]
    if isinstance(tree, Dictionary):
        return dict(zip(tree.keys, children, strict=True))
    if isinstance(tree, NamedTuple):
        return resolver.get_tuple_class(tree.type)(*children)
    return _CONTAINERS[tree.kind](children)
