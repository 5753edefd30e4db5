"""Hold what the pages' code cells printed against what is recorded.

``python doc/check_outputs.py`` compares the pages that the last build executed with
``doc/expected/``; ``--record`` writes them there instead.  A line that ends with ``...`` is
held to its beginning only: for times and versions.
"""

import argparse
import difflib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from jupyter_cache import get_cache
from nbformat import NotebookNode

HERE = Path(__file__).parent
EXECUTED = HERE / "_build" / "executed"
EXPECTED = HERE / "expected"


def executed_pages() -> dict[str, NotebookNode]:
    """Return the last execution of each page that there still is, by its name."""
    cache = get_cache(EXECUTED)
    pages = {}
    for record in sorted(cache.list_cache_records(), key=lambda record: record.created):
        source = Path(record.uri)
        if source.exists() and source.is_relative_to(HERE):
            name = str(source.relative_to(HERE).with_suffix(""))
            pages[name] = cache.get_cache_bundle(record.pk).nb
    return dict(sorted(pages.items()))


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
    pages = executed_pages()
    if not pages:
        print(f"no executed pages in {EXECUTED}: run `make docs`", file=sys.stderr)
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
