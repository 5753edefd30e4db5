"""Count, for each package, what the language guide of CONTRIBUTING.md advises against.

`make lint` compares the counts with `limits.toml`: a count may fall and may not rise.

    python -m tests.plain_english.counts             print the counts
    python -m tests.plain_english.counts PACKAGE     print each place in one package
    python -m tests.plain_english.counts --record    set the limits to the counts
    python -m tests.plain_english.counts --message FILE    check a commit message, as a git hook
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
LIMITS = Path(__file__).with_name("limits.toml")
SOURCES = ("frontend/bellhop", "mlir/bellhop_mlir", "runtime")
KINDS = ("missing_docstrings", "house_phrases", "fragment_names")

#: Commits after this one have imperative subjects of at most 72 characters.
FIRST_PLAIN_COMMIT = "266f637a"
SUBJECT_LENGTH = 72

# A definition of more lines than this one needs a docstring.
_SHORT = 5

_HOUSE_PHRASES = re.compile(
    r"\b("
    + "|".join(
        (
            r"of (JAX|PennyLane|XLA|Python|NumPy|MLIR|Stim|Lightning|PyTorch)'s",
            r"of (ours|theirs|its own)",
            r"(that|those) of",
            r"those (that|in|by|which|whose|for)",
            r"of those",
            r"the ones? (that|of|in|by)",
            r"(is|are|was|were) (told|asked|handed|said)",
            r"(says|tells|told|asks) (of|what|whether|how|which|who)",
            r"(Return|Tell|Say|Find out|Take) what",
            r"Tell (of|whether)",
            r"what (is|are|has|they|it)",
            r"(stands?|stood) (in|for|there|on|before|behind|between|once|twice|beside)",
            r"that the program computes",
            r"of computed length",
            r"computed (wires?|length|angles?)",
            r"refused? by name",
            r"(is|are) refused",
            r"(is|are) no [a-z]+",
            r"so many",
            r"as many as",
            r"nobody",
            r"whoever",
            r"whatever",
            r"anew",
            r"likewise",
            r"under way",
            r"besides?",
            r"mend(s|ed)?",
            r"it was (a|an|refused)",
            r"another one",
            r"other ones",
            r"the others",
            r"(made|comes?) of",
            r"hand(s|ed)? (on|over)",
            r"let go of",
            r"in the middle",
            r"rooms?",
            r"flavours?",
            r"crossings?",
            r"play(s|ed|er|ers|ing)",
            r"dots",
            r"moves",
            r"moved",
            r"how likely",
        )
    )
    + r")\b"
)

_PREPOSITION = "of|at|by|with|without|on|in|for|after|before|behind|beside|along|through|under"
_PARTICIPLE = "made|taken|moved|drawn|told|said|kept|given|changed|joined|applied|known|left|shown"
_FRAGMENT = re.compile(
    rf"^_*({_PREPOSITION}|{_PARTICIPLE}|again|one|what|which|whose|who|that|those|are|goes|holds)"
    rf"(_|$)|_({_PREPOSITION}|to|from|is|are|they|it|its)_*$"
)
# AutoGraph looks up `for_stmt` by its name.
_NOT_FRAGMENTS = re.compile(r"^_*(with|without)_[a-z]|^for_(loop|stmt)$")
_NOT_IMPERATIVE = re.compile(r"^(The|A|An|What|That|Where|[A-Z][a-z]+(ed|ing))\b")


class Place(NamedTuple):
    """A place in a file that the guide advises against."""

    kind: str
    package: str
    file: Path
    line: int
    text: str


def find_places() -> Iterator[Place]:
    """Yield each place in the sources of the product.

    Yields:
        Places of all kinds, file by file.
    """
    for source in SOURCES:
        for file in sorted((ROOT / source).rglob("*")):
            if file.suffix == ".py":
                yield from _find_in_python(file)
            elif file.suffix in (".cc", ".h"):
                yield from _find_in_cpp(file)


def _find_in_python(file: Path) -> Iterator[Place]:
    text = file.read_text()
    package = _get_package(file)
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            continue
        docstring = ast.get_docstring(node)
        if docstring:
            for match in _HOUSE_PHRASES.finditer(docstring):
                line = getattr(node, "lineno", 1)
                yield Place("house_phrases", package, file, line, match[0])
        if isinstance(node, ast.Module) or node.name.startswith("__"):
            continue
        assert node.end_lineno is not None
        is_long = node.end_lineno - node.lineno >= _SHORT
        if not docstring and is_long and not _is_overload(node):
            yield Place("missing_docstrings", package, file, node.lineno, node.name)
        if _is_fragment(node.name):
            yield Place("fragment_names", package, file, node.lineno, node.name)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            for match in _HOUSE_PHRASES.finditer(token.string):
                yield Place("house_phrases", package, file, token.start[0], match[0])


def _find_in_cpp(file: Path) -> Iterator[Place]:
    for number, line in enumerate(file.read_text().splitlines(), 1):
        comment = line.partition("//")[2]
        for match in _HOUSE_PHRASES.finditer(comment):
            yield Place("house_phrases", _get_package(file), file, number, match[0])


def _is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Return whether a definition is a signature of `typing.overload`, which has no docstring."""
    return any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)


def _is_fragment(name: str) -> bool:
    return bool(_FRAGMENT.search(name)) and not (
        _NOT_FRAGMENTS.match(name) and not re.search(rf"_({_PREPOSITION}|to|from)$", name)
    )


def _get_package(file: Path) -> str:
    """Return the folder of `file`, with two levels inside of `circuits` and one elsewhere."""
    source = next(source for source in SOURCES if file.is_relative_to(ROOT / source))
    folders = file.relative_to(ROOT / source).parts[:-1]
    depth = 2 if folders[:1] == ("circuits",) else 1
    return "/".join((source, *folders[:depth]))


def count_by_package() -> dict[str, dict[str, int]]:
    """Return the number of places by kind and package, without the packages that have none."""
    counts = Counter((place.kind, place.package) for place in find_places())
    return {
        kind: {package: n for (k, package), n in sorted(counts.items()) if k == kind}
        for kind in KINDS
    }


def find_unclear_subjects() -> list[str] | None:
    """Return commit subjects that are too long or not imperative.

    Returns:
        None where the history does not reach back to `FIRST_PLAIN_COMMIT`.
    """
    log = subprocess.run(
        ["git", "log", "--no-merges", "--format=%s", f"{FIRST_PLAIN_COMMIT}..HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if log.returncode:
        return None
    return [subject for subject in log.stdout.splitlines() if not is_plain_subject(subject)]


def is_plain_subject(subject: str) -> bool:
    """Return whether the subject of a commit is short and looks like an imperative."""
    return len(subject) <= SUBJECT_LENGTH and not _NOT_IMPERATIVE.match(subject)


def read_limits() -> dict[str, dict[str, int]]:
    """Return the largest allowed count by kind and package."""
    return tomllib.loads(LIMITS.read_text())


def _record(counts: dict[str, dict[str, int]]) -> None:
    lines = [
        "# Largest allowed counts, written by `python -m tests.plain_english.counts --record`."
    ]
    for kind, by_package in counts.items():
        lines += ["", f"[{kind}]"]
        lines += [f'"{package}" = {n}' for package, n in by_package.items()]
    LIMITS.write_text("\n".join(lines) + "\n")


def _main(arguments: list[str]) -> None:
    counts = count_by_package()
    if arguments == ["--record"]:
        _record(counts)
    elif arguments[:1] == ["--message"]:
        subject = Path(arguments[1]).read_text().partition("\n")[0]
        if not is_plain_subject(subject):
            raise SystemExit(
                f"commit message: subject of {len(subject)} characters {subject!r}, expected "
                f"an imperative sentence of at most {SUBJECT_LENGTH} characters. Put the reason "
                "into the body."
            )
    elif arguments:
        for place in find_places():
            if place.package == arguments[0]:
                print(f"{place.file.relative_to(ROOT)}:{place.line}: {place.kind}: {place.text}")
    else:
        for kind, by_package in counts.items():
            print(f"{sum(by_package.values()):6} {kind}")
            for package, n in by_package.items():
                print(f"{n:10} {package}")


if __name__ == "__main__":
    _main(sys.argv[1:])
