"""Links that documents hold lead somewhere: files, headings of pages, and well-formed addresses."""

import functools
import re
import urllib.parse
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
# What Sphinx resolves, and fails on: names of the API.
OF_SPHINX = re.compile(r"#bellhop[\w.]*")

DOCUMENTS = sorted(
    file
    for pattern in ("*.md", "doc/**/*.md", "*/README.md")
    for file in ROOT.glob(pattern)
    if not any(part.startswith((".", "_build")) for part in file.relative_to(ROOT).parts)
)
LINKS = [
    (file, target) for file in DOCUMENTS for target in LINK.findall(FENCE.sub("", file.read_text()))
]


@functools.cache
def _anchors(file: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#{1,6} (.+)$", FENCE.sub("", file.read_text()), re.M)
    plain = [re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading).strip().lower() for heading in headings]
    # GitHub drops dots, MyST turns them to hyphens; both are taken.
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in plain} | {
        re.sub(r"-+", "-", re.sub(r"[^\w]+", "-", text)).strip("-") for text in plain
    }


def test_there_are_links():
    assert len(LINKS) > 20


@pytest.mark.parametrize(
    ("file", "target"), LINKS, ids=[f"{file.relative_to(ROOT)}:{link}" for file, link in LINKS]
)
def test_a_link_leads_somewhere(file, target):
    if OF_SPHINX.fullmatch(target):
        return
    parts = urllib.parse.urlsplit(target)
    if parts.scheme:
        assert parts.scheme in ("https", "mailto"), "use https"
        assert parts.scheme == "mailto" or re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc)
        return
    path = (file.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else file
    assert path.exists(), f"{path} is not there"
    assert ROOT in (path, *path.parents), "it leads out of the repository"
    if parts.fragment and path.suffix == ".md":
        assert parts.fragment in _anchors(path), f"no heading of {path.name} has that anchor"
