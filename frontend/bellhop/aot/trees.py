"""Structures of pytrees as JSON."""

from typing import Any

import jax
from jax.tree_util import PyTreeDef

from bellhop.aot.functions import function_at, name_of
from bellhop.errors import CompileError

_CONTAINERS = {"tuple": tuple, "list": list, "dict": dict}
_KEYS = (str, int, bool)


def encode_tree(tree: PyTreeDef, what: str) -> Any:
    """Return a structure as JSON.

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
    children = [encode_tree(child, what) for child in tree.children()]
    if kind is dict:
        for key in keys:
            if type(key) not in _KEYS:
                raise CompileError(
                    f"{what} has a dictionary with the key {key!r}; a saved program can have keys "
                    "that are strings or integers."
                )
        return {"dict": children, "keys": keys}
    if kind in (tuple, list):
        return {kind.__name__: children}
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return {"namedtuple": children, "type": name_of(kind, what)}
    raise CompileError(
        f"{what} is a pytree with a {kind.__name__}, which cannot be saved. Tuples, lists, "
        "dictionaries and named tuples can."
    )


def decode_tree(encoded: Any) -> PyTreeDef:
    """Return the structure that ``encode_tree`` wrote."""
    return jax.tree.structure(_example(encoded), is_leaf=lambda x: x is _LEAF)


_LEAF = object()


def _example(encoded: Any) -> Any:
    if encoded is None:
        return None
    if encoded == "*":
        return _LEAF
    if "dict" in encoded:
        children = map(_example, encoded["dict"])
        return dict(zip(encoded["keys"], children, strict=True))
    if "namedtuple" in encoded:
        return function_at(encoded["type"])(*map(_example, encoded["namedtuple"]))
    ((kind, children),) = encoded.items()
    return _CONTAINERS[kind](map(_example, children))
