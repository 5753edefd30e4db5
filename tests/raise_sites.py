"""Every place where the package makes an error, and the message that users get there."""

import ast
import builtins
import functools
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "errors.toml"
PYTHON = ("frontend", "mlir")
OURS = {
    "AutoGraphError",
    "CallbackException",
    "CompileError",
    "DifferentiableCompileError",
    "NotCompiledError",
    "PassError",
    "ResultTypeError",
    "VerificationError",
}
# Three words this long are no accident.
_LONG_ENOUGH = 12
_ABOUT_ERRORS = ("raise_sites.py", "test_error_messages.py")
# Functions whose arguments are the text of the error that they make.
MAKERS = {"_unsupported_error": "CompileError"}


@dataclass(frozen=True, order=True)
class Site:
    """A place where an error is made.

    Attributes:
        file: where, from the root of the repository.
        inside: the function, with its class.
        error: what is raised.
        message: its text, with ``{...}`` for what it is told.
    """

    file: str
    inside: str
    error: str
    message: str


def find_sites() -> set[Site]:
    """Return all of them, in Python and in C++."""
    found: set[Site] = set()
    for room in PYTHON:
        for file in sorted((ROOT / room).rglob("*.py")):
            found |= set(_find_in_python(file))
    for file in sorted((ROOT / "runtime").rglob("*")):
        if file.suffix in (".cc", ".h"):
            found |= set(_find_in_cpp(file))
    return found


def read_reviewed() -> dict[tuple[str, str], dict[str, str]]:
    """Return what ``errors.toml`` says, by file and message."""
    entries = tomllib.loads(LIST.read_text())["error"]
    return {
        (entry["file"], entry["message"]): {
            key: entry[key] for key in ("test", "why", "plain") if key in entry
        }
        for entry in entries
    }


def is_quoted(message: str, texts: str) -> bool:
    """Tell whether three words of a message, one after another, stand in the texts of the tests."""
    for literal in re.split(r"\{[^}]*\}|%\w+", message):
        words = literal.split()
        for start in range(len(words) - 2):
            run = " ".join(words[start : start + 3])
            if len(run) >= _LONG_ENOUGH and run in texts:
                return True
    return False


def read_test_strings() -> str:
    """Return every string in the tests, patterns among them but no docstring, as one text."""
    found = [file.read_text() for file in (ROOT / "tests").rglob("*.mlir")]
    for file in (ROOT / "tests").rglob("*.py"):
        if file.name not in _ABOUT_ERRORS:
            pending: list[ast.AST] = [ast.parse(file.read_text())]
            while pending:
                node = pending.pop()
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value.replace("\\", ""))
                # What tells of a test may use the words of an error by chance.
                elif not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
                    pending += ast.iter_child_nodes(node)
    return "\n".join(" ".join(text.split()) for text in found)


def _find_in_python(file: Path) -> Iterator[Site]:
    name = str(file.relative_to(ROOT))
    pending: list[tuple[ast.AST, tuple[str, ...]]] = [(ast.parse(file.read_text()), ())]
    while pending:
        node, inside = pending.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            error = MAKERS.get(node.func.id, node.func.id)
            if _is_error(error) and inside[-1:] != (node.func.id,):
                texts = [_text(argument) for argument in node.args]
                yield Site(name, ".".join(inside), error, " ".join(texts))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            inside = (*inside, node.name)
        pending += [(child, inside) for child in ast.iter_child_nodes(node)]


@functools.cache
def _is_error(name: str) -> bool:
    value = getattr(builtins, name, None)
    return name in OURS or (isinstance(value, type) and issubclass(value, Exception))


def _text(node: ast.expr) -> str:
    """Return the text that an expression makes, with its variable parts in braces."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left) + _text(right)
        case ast.FormattedValue(value=value):
            return "{" + ast.unparse(value) + "}"
    return "{" + ast.unparse(node) + "}"


_CPP = re.compile(
    r"throw (?P<thrown>CircuitError|std::\w+)\(|PyErr_(?:Format|SetString)\(\s*PyExc_(?P<set>\w+),"
)
_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"|([^"]+)')


def _find_in_cpp(file: Path) -> Iterator[Site]:
    source = file.read_text()
    name = str(file.relative_to(ROOT))
    for match in _CPP.finditer(source):
        call = _read_until_closed(source, match.end())
        message = ""
        for text, code in _PIECE.findall(call):
            message += text if text or not code.strip(" \n+,()") else "{" + _squeeze(code) + "}"
        yield Site(name, "", match["thrown"] or match["set"], re.sub(r"\\n", " ", message))


def _read_until_closed(source: str, start: int) -> str:
    depth, at, quoted = 1, start, False
    while depth:
        character = source[at]
        if character == '"' and source[at - 1] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += {"(": 1, ")": -1}.get(character, 0)
        at += 1
    return source[start : at - 1]


def _squeeze(code: str) -> str:
    return " ".join(code.strip(" \n+,").split())
