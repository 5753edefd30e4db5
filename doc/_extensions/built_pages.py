"""Sphinx extension: parts of pages that are made when the site is built.

- A tutorial gets a link under its title, which downloads the tutorial as a notebook.
- The gallery of tutorials gets the last picture of each.
- Patterns of a table of contents that match no page besides the listed pages are left out.
- A page whose text is ``See [NAME](../NAME).`` gets this file of the repository's root, so that
  the page leads to the file on a code host too.
"""

import base64
import re
from pathlib import Path, PurePosixPath
from typing import Any

import nbformat

ROOT = Path(__file__).parents[2]
TUTORIALS = "tutorials/"
GALLERY = TUTORIALS + "index"
DOWNLOADS, THUMBNAILS = "_notebooks", "_thumbnails"
MARKER = re.compile(r"^See \[(\S+)\]\((?:\.\./)+\1\)\.$", re.M)
# An entry of a table of contents that is a pattern.
PATTERN = re.compile(r"^[\w/\[\]-]*\*\n", re.M)
# A link of a page, and an entry of the gallery.
LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\((?!https?:|#)([^()\s]+)\)")
ENTRY = re.compile(r"^- \[([^\]]+)\]\(([\w-]+)\.md\): (.+(?:\n  .+)*)", re.M)
CARD = """<div style="display: flex; gap: 1rem; align-items: center; margin-bottom: 1rem">
<a href="{name}.html" style="flex: none">
<img src="../{folder}/{name}.png" alt="" style="width: 10rem; background: white">
</a>
<p><a href="{name}.html">{title}</a><br>{text}</p>
</div>
"""


def is_tutorial(docname: str) -> bool:
    """Return whether a page is a tutorial, and not their gallery."""
    return docname.startswith(TUTORIALS) and docname != GALLERY


def add_download_link(name: str, text: str) -> str:
    """Put a link to the notebook under the title of a tutorial."""
    link = f'<p><a href="../{DOWNLOADS}/{name}.ipynb" download>Download as a notebook</a></p>'
    return re.sub(r"^(# .+\n)", rf"\1\n```{{raw}} html\n{link}\n```\n", text, count=1, flags=re.M)


def add_thumbnails(text: str) -> str:
    """Turn the entries of the gallery into cards with pictures."""

    def make_card(entry: re.Match[str]) -> str:
        title, name, words = entry.groups()
        card = CARD.format(name=name, folder=THUMBNAILS, title=title, text=words)
        return f"```{{raw}} html\n{card}```\n"

    return ENTRY.sub(make_card, text)


def include_root_files(docname: str, text: str) -> str:
    """Replace markers by files of the root, with links to pages that are relative to this page."""
    up = "../" * docname.count("/")

    def change_link(link: re.Match[str]) -> str:
        """Make a link to a page relative, and a link to any other file plain text."""
        words, target = link.groups()
        path = PurePosixPath(target)
        if path.parts[0] == "doc":
            return f"[{words}]({up}{path.relative_to('doc')})"
        return words if words.startswith("`") else f"`{words}`"

    def read_file(marker: re.Match[str]) -> str:
        return LINK.sub(change_link, (ROOT / marker[1]).read_text())

    return MARKER.sub(read_file, text)


def drop_empty_patterns(folder: Path, text: str) -> str:
    """Leave out lines that are patterns and match no other page than other lines of the text name.

    Sphinx warns of such a pattern, without a type by which the warning could be suppressed.
    """
    listed = set(text.splitlines())

    def keep_if_matched(line: re.Match[str]) -> str:
        pages = folder.glob(f"{line[0].strip()}.md")
        names = {page.relative_to(folder).with_suffix("").as_posix() for page in pages}
        return line[0] if names - listed else ""

    return PATTERN.sub(keep_if_matched, text)


def change_source(app: Any, docname: str, source: list[str]) -> None:
    """Change the text of a page before it is parsed."""
    source[0] = include_root_files(docname, source[0])
    source[0] = drop_empty_patterns(Path(app.srcdir, docname).parent, source[0])
    if docname == GALLERY:
        source[0] = add_thumbnails(source[0])
    elif is_tutorial(docname):
        source[0] = add_download_link(docname.removeprefix(TUTORIALS), source[0])


def to_notebook(text: str) -> nbformat.NotebookNode:
    """Return a tutorial as a notebook, in whose text links to other pages are plain words."""
    # Imported here, so that tests of the other functions need no Sphinx.
    from myst_nb.core.read import read_myst_markdown_notebook
    from myst_parser.config.main import MdParserConfig

    notebook = read_myst_markdown_notebook(text, MdParserConfig())
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(r"\1", cell.source)
    return notebook


def find_last_picture(notebook: nbformat.NotebookNode) -> bytes | None:
    """Return the last PNG picture that a notebook's cells made, or None."""
    pictures = [
        output["data"]["image/png"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    return base64.b64decode(pictures[-1]) if pictures else None


def write_files(app: Any, error: Exception | None) -> None:
    """Write the notebooks and the pictures that pages link to."""
    if error is not None or app.builder.name != "html":
        return
    from jupyter_cache import get_cache

    downloads, thumbnails = Path(app.outdir, DOWNLOADS), Path(app.outdir, THUMBNAILS)
    downloads.mkdir(exist_ok=True)
    thumbnails.mkdir(exist_ok=True)
    for docname in filter(is_tutorial, app.env.found_docs):
        name = docname.removeprefix(TUTORIALS)
        notebook = to_notebook(Path(app.env.doc2path(docname)).read_text())
        nbformat.write(notebook, downloads / f"{name}.ipynb")
    cache = get_cache(app.config.nb_execution_cache_path)
    for record in cache.list_cache_records():
        page = Path(record.uri)
        if page.parent == Path(app.srcdir, TUTORIALS):
            picture = find_last_picture(cache.get_cache_bundle(record.pk).nb)
            if picture:
                (thumbnails / f"{page.stem}.png").write_bytes(picture)


def setup(app: Any) -> dict[str, bool]:
    """Connect the functions of this file to Sphinx's events."""
    app.connect("source-read", change_source)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
