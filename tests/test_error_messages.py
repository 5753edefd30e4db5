"""Every error says what was wrong and what to do, and a test raises it.

An error counts as tested where a test quotes three words of its message.  What no test quotes
stands in ``tests/errors.toml``, with the test that raises it or the reason why none does; so does
an error that is short on purpose.
"""

import ast
import functools
import re

import pytest
from tests.raise_sites import ROOT, find_sites, is_quoted, read_reviewed, read_test_strings

# How a message says what to do: by a verb that asks for it, or by what there is to choose from.
ADVICE = re.compile(
    r"\b(Add|Annotate|Apply|Call|Carry|Cast|Change|Choose|Compile|Compute|Convert|Copy|Correct|Count|Create|"
    r"Declare|Decompose|Define|Give|Install|Keep|Leave|Loop|Make|Map|Measure|Move|Multiply|Name|"
    r"Number|Partition|Pass|Put|Read|Register|Reinstall|Remove|Return|Save|Say|Set|Show|Swap|Take|"
    r"Use|Write)\b"
    r"|\b(call|give|leave|pass|register|report|use|write) \S"
    r"|\bmust\b|\b(takes?|needs?|expected|declared)\b|\bthere (is|are)\b|\bin place of\b"
    r"|\b(returns|has|have|argument is|is from|is one of|are) [^.]*\{|\b[Oo]nly\b"
    r"|\bis (an?|the|once|twice)\b|\b(pip install|returns?)\b|\{(remedy|instead|advice)\}"
)
# A message that another place makes.
WHOLE = re.compile(r"\{[^}]*\}")

LISTED = read_reviewed()


@pytest.fixture(scope="module")
def all_sites():
    return sorted(find_sites())


@pytest.fixture(scope="module")
def untested(all_sites):
    texts = read_test_strings()
    return [site for site in all_sites if not is_quoted(site.message, texts)]


def _faults(fault, of):
    """Say what is wrong with each message that has a fault."""
    found = [(fault(site), site) for site in of if not WHOLE.fullmatch(site.message)]
    return [f"{site.file}, {site.inside}: {what}: {site.message}" for what, site in found if what]


def _notes(site):
    return LISTED.get((site.file, site.message), {})


def test_there_are_errors(all_sites):
    assert len(all_sites) > 300


def test_what_no_test_quotes_is_reviewed(untested):
    def fault(site):
        notes = _notes(site)
        if ("test" in notes) == ("why" in notes):
            return (
                "no test quotes three words of this message: write one, or list it in "
                "tests/errors.toml with the test that raises it, or why none can"
            )
        if "test" in notes:
            file, _, function = notes["test"].partition("::")
            return function not in _functions(file) and f"there is no test {notes['test']}"
        return len(notes["why"].split()) <= 2 and "say why no test raises it"

    assert _faults(fault, untested) == []


def test_it_says_what_was_wrong_and_what_to_do(all_sites):
    def fault(site):
        text = site.message
        # In the runtime the operation, its line and the QNode are put before it.
        if "plain" in _notes(site) or site.file.startswith("runtime"):
            return None
        if not ("{" in text or "%" in text or re.search(r"\w[_.-]\w|@\w", text)):
            return "it names no value, function or operation"
        # What a verifier says is for those who write passes.
        if site.error not in ("VerificationError", "PassError") and not ADVICE.search(text):
            return "it does not say what to do"
        return None

    assert _faults(fault, all_sites) == []


def test_it_is_plain_text(all_sites):
    def fault(site):
        if re.search(r"\s\s|^\s|\s$", site.message):
            return "spaces"
        blunt = re.search(r"\b(Oops|[Ii]nvalid|[Ii]llegal|bad)\b", site.message)
        return blunt and "say what is wrong"

    assert _faults(fault, all_sites) == []


def test_the_list_holds_nothing_that_is_gone(all_sites):
    there_are = {(site.file, site.message) for site in all_sites}
    assert not [entry for entry in LISTED if entry not in there_are]


def test_the_list_excuses_nothing_that_a_test_quotes(untested):
    unquoted = {(site.file, site.message) for site in untested}
    assert not [
        entry
        for entry, notes in LISTED.items()
        if notes.keys() & {"test", "why"} and entry not in unquoted
    ]


@functools.cache
def _functions(file):
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
