"""Shares of the tests: ``pytest --share 2/3`` runs a third, ``1/3`` and ``3/3`` run the others.

A test is in the same share wherever it runs, and whichever other tests there are.
"""

import argparse
import re
import zlib

import pytest


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--share", type=parse_share, metavar="NUMBER/COUNT", help="run one of shares")


def parse_share(text: str) -> tuple[int, int]:
    """Return the number of a share, from 1 on, and the count of shares: (2, 3) of ``2/3``."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"expected a share such as 2/3, got {text!r}")
    return int(match[1]), int(match[2])


def select_share(names: list[str], number: int, count: int) -> set[str]:
    """Return the names of the tests that are in a share."""
    return {name for name in names if zlib.crc32(name.encode()) % count == number - 1}


def deselect_other_shares(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that are in other shares than the one that the option names."""
    share = config.getoption("share")
    if share is None:
        return
    chosen = select_share([item.nodeid for item in items], *share)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
    items[:] = [item for item in items if item.nodeid in chosen]
