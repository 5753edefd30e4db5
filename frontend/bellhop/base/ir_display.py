"""Text of MLIR modules, with syntax highlighting in notebooks."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop_mlir._bindings import make_context
from bellhop_mlir.dialects.printing import print_module as printed


class ModuleText(str):
    """MLIR text of a module: a string that notebooks show with syntax highlighting.

    Highlighting needs Pygments; without it, notebooks show plain text.
    """

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """Return highlighted HTML for notebooks; None if Pygments is not installed."""
        try:
            from pygments import highlight
            from pygments.formatters import HtmlFormatter
        except ImportError:
            return None
        html: str = highlight(self, _lexer(), HtmlFormatter(noclasses=True, nobackground=True))
        return html


def parse(text: str | bytes) -> ir.Module:
    """Parse a module from MLIR text or bytecode."""
    with make_context(), ir.Location.unknown():
        return ir.Module.parse(text)


class Snapshot:
    """A saved copy of an MLIR module, whose `text` is made when it is first read.

    The copy is stored as bytecode: printing 2000 gates takes as long as all passes over them, and
    the text of most programs is never read.

    Args:
        module: the module; later changes to it do not affect the copy.
    """

    def __init__(self, module: ir.Module) -> None:
        self._bytecode = mlir.module_to_bytecode(module)

    @functools.cached_property
    def text(self) -> ModuleText:
        """MLIR text of the saved module."""
        with make_context(), ir.Location.unknown():
            return ModuleText(printed(ir.Module.parse(self._bytecode)))


class WrittenText(NamedTuple):
    """A module whose MLIR text exists already, for use in place of a `Snapshot`.

    Attributes:
        text: MLIR text of the module.
    """

    text: ModuleText


class LazyText:
    """A module that is built and printed when its `text` is first read.

    It is used in place of a `Snapshot`.

    Args:
        make: builds the module; called at most once.
    """

    def __init__(self, make: Callable[[], ir.Module]) -> None:
        self._make = make

    @functools.cached_property
    def text(self) -> ModuleText:
        """MLIR text of the module."""
        module = self._make()
        with module.context, ir.Location.unknown():
            return ModuleText(printed(module))


@functools.cache
def _lexer() -> Any:
    """Return a Pygments lexer for MLIR, which Pygments itself does not have."""
    from pygments import token
    from pygments.lexer import RegexLexer

    class MlirLexer(RegexLexer):
        """Pygments lexer for MLIR text: splits it into tokens, which are coloured by kind."""

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
