"""What the build of the site adds to pages: files of the root, the gallery, links to notebooks."""

import importlib.util
import re
from pathlib import Path

import pytest

DOC = Path(__file__).parents[1] / "doc"


@pytest.fixture(scope="module")
def extension():
    spec = importlib.util.spec_from_file_location("built_pages", DOC / "_extensions/built_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["release-notes", "contributing/contributing"])
def test_a_page_shows_a_file_of_the_root(extension, name):
    page = DOC / f"{name}.md"
    text = extension.include_root_files(name, page.read_text())
    assert text.startswith("# ")
    targets = [target for _, target in extension.LINK.findall(text)]
    for target in targets:
        assert (page.parent / target.partition("#")[0]).exists(), target
    assert targets or name == "release-notes"


def test_gallery_has_all_tutorials(extension):
    text = (DOC / "tutorials" / "index.md").read_text()
    entries = extension.ENTRY.findall(text)
    pages = {page.stem for page in DOC.glob("tutorials/*.md")} - {"index"}
    assert {name for _, name, _ in entries} == pages
    assert extension.add_thumbnails(text).count("<img") == len(pages)


@pytest.mark.parametrize("page", sorted(DOC.glob("tutorials/[!i]*.md")), ids=lambda page: page.stem)
def test_tutorials_have_a_figure_and_a_download(extension, page):
    text = page.read_text()
    assert "plt.subplots(" in text
    assert "BELLHOP_EXAMPLES" not in text
    assert re.search(
        rf"^# .+\n\n```\{{raw\}} html\n.*{page.stem}\.ipynb",
        extension.add_download_link(page.stem, text),
        re.M,
    )
