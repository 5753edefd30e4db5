"""The text of a module, which notebooks show in colours."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop_mlir._bindings import make_context
from bellhop_mlir.dialects.printing import print_module as printed


class ModuleText(str):
    """A module as text: a string, which Pygments highlights where it is there."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        try:
            from pygments import highlight
            from pygments.formatters import HtmlFormatter
        except ImportError:
            return None
        html: str = highlight(self, _lexer(), HtmlFormatter(noclasses=True, nobackground=True))
        return html


def parse(text: str | bytes) -> ir.Module:
    """Return a module from its text or its bytecode."""
    with make_context(), ir.Location.unknown():
        return ir.Module.parse(text)


class Snapshot:
    """A module as it was when this was made.

    It is kept as bytecode: to write the text of 2000 gates takes as long as all passes over them,
    and few programs are ever read.

    Args:
        module: which may be changed afterwards.
    """

    def __init__(self, module: ir.Module) -> None:
        self._bytecode = mlir.module_to_bytecode(module)

    @functools.cached_property
    def text(self) -> ModuleText:
        """The text of the module."""
        with make_context(), ir.Location.unknown():
            return ModuleText(printed(ir.Module.parse(self._bytecode)))


class WrittenText(NamedTuple):
    """The text of a module that is written already.

    Attributes:
        text: the text of the module.
    """

    text: ModuleText


class LazyText:
    """The text of a module that is made when the text is read.

    Args:
        make: makes the module.
    """

    def __init__(self, make: Callable[[], ir.Module]) -> None:
        self._make = make

    @functools.cached_property
    def text(self) -> ModuleText:
        """The text of the module."""
        module = self._make()
        with module.context, ir.Location.unknown():
            return ModuleText(printed(module))


@functools.cache
def _lexer() -> Any:
    """Return a lexer of MLIR, which Pygments does not know."""
    from pygments import token
    from pygments.lexer import RegexLexer

    class MlirLexer(RegexLexer):
        name = "MLIR"
        tokens = {
            "root": [
                (r"\s+", token.Whitespace),
                (r"//.*?$", token.Comment.Single),
                (r'"(?:[^"\\]|\\.)*"', token.String),
                (r"%[\w$.-]+(?:[:#]\d+)?", token.Name.Variable),
                (r"@[\w$.-]+", token.Name.Function),
                (r"\^\w+", token.Name.Label),
                (r"#[\w.]*", token.Name.Constant),
                (r"![\w.]+", token.Keyword.Type),
                (r"\b(?:tensor|tuple|complex|array|dense)(?=<)", token.Keyword.Type),
                (r"\b(?:bf16|[fF]\d+|u?i\d+|index|none)\b", token.Keyword.Type),
                (r"(?:\d+x)+(?:bf16|f\d+|u?i\d+)?", token.Keyword.Type),
                (r"\b(?:module|func|public|private|return|loc|attributes)\b(?!\.)", token.Keyword),
                (r"\b(?:true|false)\b", token.Keyword.Constant),
                (r"[A-Za-z_]\w*(?:\.[\w$]+)+", token.Name.Builtin),
                (r"[A-Za-z_][\w$]*", token.Name.Attribute),
                (r"-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)", token.Number),
                (r"->|[-+*/=<>:,(){}\[\]?]", token.Punctuation),
                (r".", token.Text),
            ]
        }

    return MlirLexer()
