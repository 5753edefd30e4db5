"""Descriptions of two pytree structures that show their difference."""

import dataclasses
from typing import Any

from bellhop.arguments.flat_tree import FlatTree, describe_structure
from bellhop.errors import format_value


def describe_structures(first: Any, second: Any) -> tuple[str, str]:
    """Describe two different pytree structures by different texts.

    `describe_structure` leaves out the static data of registered classes. If its texts are equal,
    the nodes that differ show them::

        M(array), M(array)  ->  M(array, op='add'), M(array, op='mul')

    Args:
        first: ``PyTreeDef`` of the first pytree.
        second: ``PyTreeDef`` of the second pytree.

    Returns:
        the description of each structure; equal texts only if the structures are equal.
    """
    texts = describe_structure(first), describe_structure(second)
    if texts[0] != texts[1]:
        return texts
    return _describe_node(first, second), _describe_node(second, first)


def _describe_node(tree: Any, other: Any) -> str:
    """Describe a structure, with static data in which another structure differs.

    Args:
        tree: ``PyTreeDef`` to describe.
        other: another ``PyTreeDef``, for which `describe_structure` returns the same text.
    """
    node, other_node = tree.node_data(), other.node_data()
    if node is None or other_node is None:
        return describe_structure(tree)
    kind, metadata = node
    other_kind, other_metadata = other_node
    if kind is FlatTree and other_kind is FlatTree:
        return _describe_node(metadata.tree, other_metadata.tree)
    pairs = zip(tree.children(), other.children(), strict=True)
    children = [_describe_node(*pair) for pair in pairs]
    if kind is not other_kind:
        return f"{kind.__module__}.{kind.__qualname__}({', '.join(children)})"
    if kind in (tuple, list) or _is_equal(metadata, other_metadata):
        return describe_structure(tree, children)
    shown = _describe_metadata(kind, metadata, other_metadata)
    return f"{kind.__name__}({', '.join([*children, *shown])})"


def _describe_metadata(kind: type, metadata: Any, other: Any) -> list[str]:
    """Describe the static data of a pytree node, as far as another node's data differ.

    Args:
        kind: the class of both nodes.
        metadata: static data of the described node: the auxiliary data that JAX's flattening of the
            class returns.
        other: static data of the other node.

    Returns:
        ``name='value'`` for static fields of a dataclass; the values for other classes.
    """
    if not (isinstance(metadata, tuple) and isinstance(other, tuple)):
        return [_describe_value(metadata, other)]
    if len(metadata) != len(other):
        return [format_value(metadata)]
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    names = [field.name for field in fields if field.metadata.get("static")]
    # Equinox puts other data before the values of the static fields.
    labels = [""] * (len(metadata) - len(names)) + [f"{name}=" for name in names]
    return [
        label + _describe_value(item, other_item)
        for label, item, other_item in zip(labels, metadata, other, strict=False)
        if not _is_equal(item, other_item)
    ]


def _describe_value(value: Any, other: Any) -> str:
    """Return a value's ``repr``, made different from the ``repr`` of another value.

    If both have the same ``repr``, the value's type and address are added.
    """
    text = format_value(value)
    if text != format_value(other):
        return text
    return f"{text} ({type(value).__name__} object at {id(value):#x})"


def _is_equal(value: Any, other: Any) -> bool:
    """Return whether two values are equal, or identical if they cannot be compared.

    Arrays, for example, cannot be compared to one truth value.
    """
    try:
        return bool(value == other)
    except Exception:
        # A user's class may raise any exception.
        return value is other
