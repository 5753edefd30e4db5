"""Docstring and Python signature of a saved function, as data."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax

from bellhop.archive.escaping import escape_controls
from bellhop.archive.functions import NameResolver
from bellhop.archive.schema import Malformed
from bellhop.archive.trees import Tree, decode_tree, encode_tree
from bellhop.errors import CompileError

_PLAIN = bool | int | float | str
_BUILTIN = {kind.__name__: kind for kind in (bool, int, float, complex, str, object)}


@dataclass(frozen=True)
class PlainDefault:
    """A parameter's default value in a file: numbers, strings, and containers of them.

    Attributes:
        kind: ``"value"``, which distinguishes the kinds of default values in JSON.
        tree: pytree structure of the value.
        leaves: the numbers and strings.
    """

    kind: Literal["value"]
    tree: Tree
    leaves: tuple[_PLAIN, ...]


@dataclass(frozen=True)
class ShownDefault:
    """A parameter's default value in a file, saved only as its text, the ``repr``.

    Used for a value that cannot be saved itself, such as an array. The loaded function shows the
    text in its signature, but cannot use the value.

    Attributes:
        kind: ``"text"``, which distinguishes the kinds of default values in JSON.
        text: the value's ``repr``.
    """

    kind: Literal["text"]
    text: str


@dataclass(frozen=True)
class SavedParameter:
    """A parameter of a saved function's signature, as it is stored in a file.

    Attributes:
        name: its name.
        kind: its kind, a name of ``inspect.Parameter``'s constants.
        default: its default value; None if it has none. The default value None itself is a
            `PlainDefault` whose tree is None.
        annotation: text of its annotation for the displayed signature, or None if it has none.
    """

    name: str
    kind: Literal[
        "POSITIONAL_ONLY",
        "POSITIONAL_OR_KEYWORD",
        "VAR_POSITIONAL",
        "KEYWORD_ONLY",
        "VAR_KEYWORD",
    ]
    default: PlainDefault | ShownDefault | None
    annotation: str | None


@dataclass(frozen=True)
class SavedSignature:
    """Docstring and signature of a saved function, as they are stored in a file.

    Attributes:
        doc: the docstring, or None.
        parameters: the parameters; None for a function without signature.
        returns: text of the result's annotation, or None if it has none.
        declared: index of the program that was compiled for the types in the function's
            annotations; None if there is none.
    """

    doc: str | None
    parameters: tuple[SavedParameter, ...] | None
    returns: str | None
    declared: int | None


@dataclass(frozen=True)
class Shown:
    """Placeholder in a loaded function's signature for an annotation or default value.

    Only the text of such an object is in the file.

    Attributes:
        text: the text, which is also the placeholder's ``repr``.
    """

    text: str

    def __repr__(self) -> str:
        return self.text


def encode_signature(function: Callable[..., Any], declared: int | None) -> SavedSignature:
    """Convert docstring and signature of a function to data for a saved file.

    Args:
        function: the user's function.
        declared: index of the program that was compiled for the types in the function's
            annotations; None if there is none.

    Returns:
        the data; all fields but the docstring are None if Python cannot determine the function's
        signature.
    """
    doc = getattr(function, "__doc__", None)
    doc = doc if isinstance(doc, str) else None
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        # Some built-in functions have no signature.
        return SavedSignature(doc, None, None, None)
    parameters = tuple(
        SavedParameter(
            each.name,
            each.kind.name,  # type: ignore[arg-type]
            None if each.default is each.empty else _encode_default(each.default),
            _encode_annotation(each.annotation),
        )
        for each in signature.parameters.values()
    )
    return SavedSignature(
        doc, parameters, _encode_annotation(signature.return_annotation), declared
    )


def decode_signature(saved: SavedSignature, resolver: NameResolver) -> inspect.Signature | None:
    """Convert a signature in a file to `inspect.Signature`.

    The annotations bool, int, float, complex, str and object become these types. Other annotations,
    and default values of which only the text was saved, become `Shown` objects.

    Args:
        saved: the signature in the file.
        resolver: resolves the classes of named tuples in default values.

    Returns:
        the signature; None if the function had none.

    Raises:
        ValueError: if the parameters are not a valid signature.
    """
    if saved.parameters is None:
        return None
    empty = inspect.Parameter.empty
    parameters = [
        inspect.Parameter(
            each.name,
            inspect._ParameterKind[each.kind],
            default=empty if each.default is None else _decode_default(each.default, resolver),
            annotation=_decode_annotation(each.annotation),
        )
        for each in saved.parameters
    ]
    return inspect.Signature(parameters, return_annotation=_decode_annotation(saved.returns))


def _encode_default(default: object) -> PlainDefault | ShownDefault:
    """Convert a parameter's default value to data for a saved file.

    Returns:
        the value itself, as a `PlainDefault`, if it consists of numbers, strings and containers
        that can be saved; else its text, as a `ShownDefault`.
    """
    leaves, tree = jax.tree.flatten(default)
    if all(type(leaf) in (bool, int, float, str) for leaf in leaves):
        try:
            return PlainDefault("value", encode_tree(tree, "a default value"), tuple(leaves))
        except CompileError:
            # The container cannot be saved.
            pass
    return ShownDefault("text", repr(default))


def _decode_default(default: PlainDefault | ShownDefault, resolver: NameResolver) -> Any:
    """Convert a default value in a file to the value, or to a `Shown` placeholder.

    Args:
        default: the default value in the file. A `ShownDefault` becomes a placeholder.
        resolver: resolves the classes of named tuples in the value.

    Raises:
        Malformed: if the numbers of leaves in structure and data differ.
    """
    if isinstance(default, ShownDefault):
        return Shown(escape_controls(default.text))
    tree = decode_tree(default.tree, resolver)
    if tree.num_leaves != len(default.leaves):
        raise Malformed(
            f"the file has a default value with {len(default.leaves)} leaves, expected "
            f"{tree.num_leaves}"
        )
    return jax.tree.unflatten(tree, default.leaves)


def _encode_annotation(annotation: object) -> str | None:
    """Format an annotation as ``inspect`` shows it; return None for a missing annotation."""
    if annotation is inspect.Parameter.empty:
        return None
    return inspect.formatannotation(annotation)


def _decode_annotation(text: str | None) -> Any:
    """Convert an annotation's text to a built-in type, or else to a `Shown` placeholder.

    None, for a parameter without annotation, becomes ``inspect.Parameter.empty``.
    """
    if text is None:
        return inspect.Parameter.empty
    return _BUILTIN.get(text) or Shown(escape_controls(text))
