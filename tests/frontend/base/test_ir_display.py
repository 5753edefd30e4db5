"""Modules as text that notebooks colour."""

import html
import re
import sys

import pytest

import bellhop
from bellhop.base.ir_display import ModuleText


@pytest.fixture(scope="module")
def function():
    """Return a function with a callback, an effect and constants, compiled with its stages."""

    @bellhop.qjit
    def f(x):
        bellhop.debug.print("{}", x)
        return bellhop.pure_callback(lambda x: x, float)(x) * 2.5 + 1

    f(1.0)
    return f


@pytest.mark.parametrize("stage", ["mlir", "mlir_opt"])
def test_modules_are_strings_in_colours(function, stage):
    text = getattr(function, stage)
    assert isinstance(text, str)
    assert text + "" == str(text)
    coloured = text._repr_html_()
    plain = html.unescape(re.sub("<[^>]*>", "", coloured))
    assert plain.strip() == text.strip()
    assert coloured.count("<span style") > 20


def test_the_lexer_knows_every_character(function):
    from pygments import token

    from bellhop.base.ir_display import _lexer

    kinds = {kind for kind, _ in _lexer().get_tokens(function.mlir)}
    assert token.Error not in kinds
    assert {token.Name.Variable, token.Name.Function, token.Keyword.Type, token.String} <= kinds


def test_without_pygments(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygments", None)
    assert ModuleText("module {}")._repr_html_() is None
