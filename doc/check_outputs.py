"""Compare the outputs of the pages' code cells with the recorded outputs.

``python doc/check_outputs.py`` compares the executed pages with ``doc/expected/``; ``--record``
writes them there instead. A recorded line that ends with ``...`` is compared up to the dots only,
for times and versions.
"""

import argparse
import difflib
import itertools
import sys
from collections.abc import Iterator

from conf import nb_execution_cache_path
from execute_pages import DOC, list_pages, read_page
from jupyter_cache import get_cache
from nbformat import NotebookNode

EXPECTED = DOC / "expected"


def executed_pages() -> dict[str, NotebookNode]:
    """Return the executed notebook of each page with code cells, by the page's name.

    Raises:
        KeyError: a page was not executed as it is now.
    """
    cache = get_cache(nb_execution_cache_path)
    pages = {}
    for page in sorted(list_pages()):
        notebook, _ = read_page(page)
        record = cache.match_cache_notebook(notebook)
        name = str(page.relative_to(DOC).with_suffix(""))
        pages[name] = cache.get_cache_bundle(record.pk).nb
    return pages


def outputs(notebook: NotebookNode) -> Iterator[str]:
    """Yield the lines that a notebook's cells printed, each cell under its number."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(cells, 1):
        yield f"[{number}]"
        for printed, group in itertools.groupby(cell.outputs, lambda output: "text" in output):
            # What is printed arrives in pieces, which need not end where lines do.
            texts = [
                output["text"] if printed else output.get("data", {}).get("text/plain", "")
                for output in group
            ]
            for text in ["".join(texts)] if printed else texts:
                yield from text.splitlines()


def matches(expected: list[str], observed: list[str]) -> bool:
    """Tell whether two lists of lines agree, beginnings where that is all that is recorded."""
    return len(expected) == len(observed) and all(
        there.startswith(line[:-3]) if line.endswith("...") else there == line
        for line, there in zip(expected, observed, strict=True)
    )


def main() -> int:
    """Compare or record, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write what was printed")
    record = parser.parse_args().record
    try:
        pages = executed_pages()
    except KeyError as error:
        print(f"{error}: a page is not executed, run `make docs`", file=sys.stderr)
        return 1
    differing = 0
    for name, notebook in pages.items():
        file = EXPECTED / f"{name}.txt"
        observed = list(outputs(notebook))
        expected = file.read_text().splitlines() if file.exists() else []
        if matches(expected, observed):
            continue
        if record:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(observed) + "\n")
            continue
        differing += 1
        names = (f"expected/{name}.txt", f"{name}.md, as it ran")
        print("\n".join(difflib.unified_diff(expected, observed, *names, lineterm="")))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
