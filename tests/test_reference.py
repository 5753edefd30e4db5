"""Signatures of the reference are valid Python, with the names and defaults of the functions."""

import ast
import importlib.util
import inspect
from pathlib import Path

import pytest
from tests.public_api import documented, with_examples

FILE = Path(__file__).parents[1] / "doc" / "_extensions" / "signatures.py"
spec = importlib.util.spec_from_file_location("signatures", FILE)
signatures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(signatures)

CALLABLES = {
    name: value
    for name, value in with_examples().items()
    if name not in signatures.WITHOUT_CONSTRUCTOR
    and not (inspect.isclass(value) and issubclass(value, Exception))
}


@pytest.mark.parametrize("name", CALLABLES)
def test_a_signature_is_valid(name: str) -> None:
    text = signatures.format_signature(CALLABLES[name])
    (function,) = ast.parse(f"def f{text}: ...").body
    arguments = function.args
    shown = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    shown += [a.arg for a in (arguments.vararg, arguments.kwarg) if a]
    parameters = [name for name in inspect.signature(CALLABLES[name]).parameters if name != "self"]
    assert sorted(shown) == sorted(parameters)
    assert not any(word in text for word in ("<", "Callable", "Any", "ParamSpec"))


def test_classes_without_a_constructor_are_public() -> None:
    assert set(documented()) >= signatures.WITHOUT_CONSTRUCTOR


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int | None, "int | None"),
        (list[str], "list[str]"),
        ("signatures.Callable[[int], str]", "function"),
        (None, "None"),
    ],
)
def test_a_type_reads_well(annotation: object, text: str) -> None:
    if isinstance(annotation, str):
        annotation = eval(annotation)  # noqa: S307
    assert signatures.format_type(annotation) == text
