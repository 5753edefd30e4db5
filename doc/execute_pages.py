"""Execute the pages' code cells, several pages at a time, before Sphinx reads them.

``python doc/execute_pages.py --jobs 2`` executes what the cache of executed pages does not hold for
the installed packages (`_extensions/execution_cache.py`), the longest page first, and reports all
errors. Sphinx then finds every page in the cache.
"""

import argparse
import logging
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

DOC = Path(__file__).resolve().parent
sys.path.insert(0, str(DOC))
sys.path.insert(0, str(DOC / "_extensions"))

import conf  # noqa: E402
from jupyter_cache import get_cache  # noqa: E402
from myst_nb.core.config import NbParserConfig  # noqa: E402
from myst_nb.core.execute import create_client  # noqa: E402
from myst_nb.core.read import create_nb_reader  # noqa: E402
from myst_parser.config.main import MdParserConfig  # noqa: E402
from nbformat import NotebookNode  # noqa: E402


class _Logger(logging.LoggerAdapter):
    """Accept the keyword arguments that myst-nb's loggers accept."""

    def process(self, msg, kwargs):
        return msg, {}


def list_pages() -> list[Path]:
    """Return the pages with code cells, the page with the most cells first."""
    folders = [folder for folder in DOC.iterdir() if folder.is_dir() and folder.name[0] != "_"]
    pages = [page for folder in folders for page in folder.rglob("*.md")]
    cells = {page: page.read_text().count("\n```{code-cell}") for page in pages}
    return sorted((page for page in pages if cells[page]), key=cells.get, reverse=True)


def read_page(page: Path) -> tuple[NotebookNode, dict]:
    """Return a page as a notebook, and the format that jupyter-cache reads it by."""
    text = page.read_text()
    reader = create_nb_reader(str(page), MdParserConfig(), NbParserConfig(), text)
    if reader is None:
        raise ValueError(f"{page}: expected `file_format: mystnb` at the top of a page with cells")
    return reader.read(text), reader.read_fmt


def execute_page(page: Path) -> tuple[float, str]:
    """Execute a page if the cache does not hold it.

    Args:
        page: the page's file.

    Returns:
        the seconds that this took, and the traceback of a failed cell or "".
    """
    begin = time.perf_counter()
    config = NbParserConfig(
        execution_mode=conf.nb_execution_mode,
        execution_cache_path=conf.nb_execution_cache_path,
        execution_in_temp=conf.nb_execution_in_temp,
        execution_timeout=conf.nb_execution_timeout,
    )
    notebook, read_fmt = read_page(page)
    logger = _Logger(logging.getLogger(page.stem), {})
    client = create_client(notebook, str(page), config, logger, read_fmt)
    with client:
        result = client.exec_metadata or {}
    return time.perf_counter() - begin, result.get("traceback") or ""


def main() -> int:
    """Execute the pages, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="pages at a time")
    parser.add_argument("pages", nargs="*", type=Path, help="pages, all by default")
    args = parser.parse_args()
    # Opening the database creates it. Two processes that create it at the same time fail.
    _ = get_cache(conf.nb_execution_cache_path).db
    failed = 0
    with ProcessPoolExecutor(args.jobs) as pool:
        pages = [page.resolve() for page in args.pages] or list_pages()
        futures = {pool.submit(execute_page, page): page for page in pages}
        for future in as_completed(futures):
            try:
                seconds, error = future.result()
            except Exception as raised:
                # Raised here, it would be shown when all other pages are done.
                seconds, error = 0.0, f"{type(raised).__name__}: {raised}"
            print(f"{seconds:6.1f} s  {futures[future].relative_to(DOC)}", flush=True)
            if error:
                failed += 1
                print(error, file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
