"""Every error says what was wrong and what to do, and a test raises it.

An error counts as tested where a test quotes three words of its message.  What no test quotes
stands in ``tests/errors.toml``, with the test that raises it or the reason why none does; so does
an error that is short on purpose.
"""

import ast
import functools
import re

import pytest
from tests.raise_sites import ROOT, is_quoted, reviewed, sites, texts_of_tests

# How a message says what to do: by a verb that asks for it, or by what there is to choose from.
ADVICE = re.compile(
    r"\b(Add|Annotate|Apply|Call|Carry|Cast|Change|Choose|Compile|Compute|Convert|Declare|"
    r"Decompose|Define|Give|Install|Keep|Loop|Make|Measure|Move|Name|Number|Partition|Pass|Put|Read|"
    r"Register|Reinstall|Return|Save|Say|Set|Show|Take|Use|Write)\b"
    r"|\b(call|give|leave|pass|register|report|use|write) \S"
    r"|\bmust\b|\b(takes?|needs?|expected|declared)\b|\bthere (is|are)\b|\bin place of\b"
    r"|\b(returns|has|have|argument is|is from|is one of|are) [^.]*\{|\b[Oo]nly\b"
    r"|\bis (an?|the|once|twice)\b|\b(pip install|returns?)\b|\{(remedy|instead|advice)\}"
)
# A message that another place makes.
WHOLE = re.compile(r"\{[^}]*\}")

SITES = sorted(sites())
LISTED = reviewed()
TEXTS = texts_of_tests()
UNTESTED = [site for site in SITES if not is_quoted(site.message, TEXTS)]


def _name(site):
    return f"{site.file}:{site.inside}:{site.message[:40]}"


def _notes(site):
    return LISTED.get((site.file, site.message), {})


def test_there_are_errors():
    assert len(SITES) > 300


@pytest.mark.parametrize("site", UNTESTED, ids=_name)
def test_what_no_test_quotes_is_reviewed(site):
    if WHOLE.fullmatch(site.message):
        return  # It is made of a text that stands elsewhere.
    notes = _notes(site)
    assert ("test" in notes) != ("why" in notes), (
        "no test quotes three words of this message: write one, or list it in tests/errors.toml "
        "with the test that raises it, or why none can"
    )
    if "test" in notes:
        file, _, function = notes["test"].partition("::")
        assert function in _functions(file), f"there is no test {notes['test']}"
    else:
        assert len(notes["why"].split()) > 2, "say why no test raises it"


@pytest.mark.parametrize("site", SITES, ids=_name)
def test_it_says_what_was_wrong_and_what_to_do(site):
    if WHOLE.fullmatch(site.message) or "plain" in _notes(site):
        return
    if site.file.startswith("runtime"):
        return  # The operation, its line and the QNode are put before it.
    names = "{" in site.message or "%" in site.message or re.search(r"\w[_.-]\w|@\w", site.message)
    assert names, "it names no value, function or operation"
    # What a verifier says is for those who write passes.
    if site.error not in ("VerificationError", "PassError"):
        assert ADVICE.search(site.message), "it does not say what to do"


@pytest.mark.parametrize("site", SITES, ids=_name)
def test_it_is_plain_text(site):
    assert not re.search(r"\s\s|^\s|\s$", site.message), "spaces"
    assert not re.search(r"\b(Oops|[Ii]nvalid|[Ii]llegal|bad)\b", site.message), "say what is wrong"


def test_the_list_holds_nothing_that_is_gone():
    there_are = {(site.file, site.message) for site in SITES}
    assert not [entry for entry in LISTED if entry not in there_are]


def test_the_list_excuses_nothing_that_a_test_quotes():
    untested = {(site.file, site.message) for site in UNTESTED}
    assert not [
        entry
        for entry, notes in LISTED.items()
        if notes.keys() & {"test", "why"} and entry not in untested
    ]


@functools.cache
def _functions(file):
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
