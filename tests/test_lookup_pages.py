"""Pages that users search for a word list the words of the code: messages, variables."""

import ast
import re
from pathlib import Path

import jax.errors
import pytest

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "doc" / "reference"
PAGE = (REFERENCE / "troubleshooting.md").read_text()
OURS, _, OF_JAX = PAGE.partition("## Errors of JAX")
ROW = re.compile(r"^\| (`.*?) \|", re.M)


def read_messages() -> str:
    """Return the string literals of the package in one text, with `{}` for interpolated values."""
    found = []
    for file in sorted((ROOT / "frontend").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [v.value if isinstance(v, ast.Constant) else "{}" for v in node.values]
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


@pytest.fixture(scope="module")
def messages() -> str:
    return read_messages()


def test_messages_are_raised(messages):
    quoted = [part for row in ROW.findall(OURS) for part in re.findall(r"`([^`]+)`", row)]
    assert len(quoted) > 50
    assert [part for part in quoted if part not in messages] == []


def test_errors_of_jax_exist():
    names = re.findall(r"^\| `(\w+)` \|", OF_JAX.partition("## A program")[0], re.M)
    assert names
    assert [name for name in names if not hasattr(jax.errors, name)] == []


def test_variables_of_the_environment(messages):
    page = (REFERENCE / "environment-variables.md").read_text()
    listed = re.findall(r"^\| `(BELLHOP_\w+)` \|", page, re.M)
    assert sorted(listed) == sorted(set(re.findall(r"^BELLHOP_[A-Z0-9_]+$", messages, re.M)))
