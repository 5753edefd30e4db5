"""Signatures of operations, for building and verification."""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import types_of_values
from bellhop_mlir.dialects._attributes import make_attributes
from bellhop_mlir.errors import VerificationError


@dataclass(frozen=True)
class Signature:
    """Signature of an operation of Bellhop's dialects, to build and verify it.

    Types of operands and results are strings such as ``tensor<[?x]?xf64>`` in MLIR's syntax, in
    which ``?`` matches any size, a dimension or type in brackets is optional, ``or`` separates
    alternatives, and a last ``...`` matches any further types. Types of attributes are names of
    ``runtime/contract.toml``, such as ``array<i64>``.

    Attributes:
        name: name of the operation, such as ``quantum.begin``.
        operands: types of the operands.
        results: types of the results.
        attributes: types of required attributes, by name.
        optional: types of optional attributes, by name.
    """

    name: str
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def attribute_types(self) -> dict[str, str]:
        """Types of all attributes, required and optional, by name."""
        return {**self.attributes, **self.optional}

    def build(
        self, operands: Sequence[ir.Value], results: Sequence[ir.Type] = (), **attributes: Any
    ) -> ir.Operation:
        """Build the operation at the current insertion point, without verifying it.

        Args:
            operands: the operands.
            results: types only of the results whose type the signature leaves open with ``?`` or
                ``...``, in order.
            **attributes: values of the attributes, by name: Python values or MLIR attributes.
        """
        return ir.Operation.create(
            self.name,
            results=list(self._result_types(operands, results)),
            operands=list(operands),
            attributes=make_attributes(self.attribute_types, attributes),
        )

    def __call__(
        self, operands: Sequence[ir.Value], results: Sequence[ir.Type] = (), **attributes: Any
    ) -> list[ir.Value]:
        """Build the operation as `build` does; return its results."""
        return list(self.build(operands, results, **attributes).results)

    def _result_types(
        self, operands: Sequence[ir.Value], given: Sequence[ir.Type]
    ) -> Iterator[ir.Type]:
        """Yield the type of each result of an operation that `build` builds.

        If the signature has equal strings without ``?`` for a result and the operand with the same
        index, the result has the type of this operand.

        Args:
            operands: operands of the operation.
            given: types of the results whose type the signature leaves open with ``?`` or ``...``,
                in order.
        """
        types_given = iter(given)
        for index, form in enumerate(self.results):
            if form == "...":
                yield from types_given
            elif "?" in form:
                yield next(types_given)
            elif self.operands[index : index + 1] == (form,):
                # Usually the state; parsing its type takes a third of the time.
                yield operands[index].type
            else:
                yield ir.Type.parse(form)

    def verify_types(self, op: ir.Operation) -> None:
        """Check the types of an operation's operands and results against this signature.

        Raises:
            VerificationError: if they do not match.
        """
        _verify_forms(op, "operands", types_of_values(op.operands), self.operands)
        _verify_forms(op, "results", types_of_values(op.results), self.results)


def _verify_forms(
    op: ir.Operation, role: str, observed: Sequence[ir.Type], expected: Sequence[str]
) -> None:
    """Check the types of an operation's operands or results.

    Args:
        op: the operation, for the error.
        role: ``"operands"`` or ``"results"``, for the error.
        observed: types of the operands or results.
        expected: the signature's types, as in `Signature`, such as ``tensor<[?x]?xf64>``.

    Raises:
        VerificationError: if the types do not match, or if there are too few or too many.
    """
    texts = list(map(str, observed))
    if expected[-1:] == ("...",):
        texts[len(expected) - 1 :] = ["..."]
    wanted = list(_present_forms(expected, texts))
    fits = len(texts) == len(wanted) and all(map(_matches_form, texts, wanted))
    if not fits:
        raise VerificationError(
            f"{op.name} has {role} of types ({', '.join(map(str, observed))}), "
            f"expected ({', '.join(expected)})"
        )


def _present_forms(expected: Sequence[str], texts: Sequence[str]) -> Iterator[str]:
    """Yield a signature's types without the optional ones that an operation lacks.

    The brackets of optional types are removed: for the expected types ``tensor<f64>`` and
    ``[tensor<i32>]``, an operation with both types gets ``tensor<f64>`` and ``tensor<i32>``.

    Args:
        expected: the signature's types.
        texts: the operation's types as MLIR prints them, which decide which optional types are
            there.
    """
    rest = iter(texts)
    text = next(rest, None)
    for form in expected:
        may_be_missing = form.startswith("[")
        wanted = form[1:-1] if may_be_missing else form
        if may_be_missing and (text is None or not _matches_form(text, wanted)):
            continue
        yield wanted
        text = next(rest, None)


def _matches_form(text: str, form: str) -> bool:
    """Return whether an MLIR type matches a type of a signature.

    Args:
        text: the MLIR type as printed, such as ``tensor<3x4xf64>``.
        form: the signature's type, such as ``tensor<[?x]?xf64>``: ``?`` matches any size, and the
            dimension in brackets is optional. Alternatives are separated by ``or``. No other size
            is fixed in a type with ``?``.
    """
    if text == form:
        return True
    if " or " in form:
        return any(_matches_form(text, each) for each in form.split(" or "))
    any_size = re.sub(r"\d+x", "?x", text)
    return any_size in (form.replace("[?x]", ""), form.replace("[?x]", "?x"))
