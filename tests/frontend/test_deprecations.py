"""Deprecated names warn in the name of their caller, and are removed when it was promised."""

import re
import warnings
from importlib.metadata import version
from pathlib import Path

import pytest

import bellhop
from bellhop._deprecations import deprecated, warn_deprecated

FRONTEND = Path(bellhop.__file__).parent


def test_a_deprecated_function_warns_and_works():
    @deprecated(since="0.2", removed_in="0.4", instead="bellhop.new")
    def old(x, *, y):
        return x + y

    message = r"bellhop\..*old is deprecated since 0.2 and will be removed in 0.4. Use bellhop.new"
    with pytest.warns(DeprecationWarning, match=message) as record:
        assert old(1, y=2) == 3
    assert record[0].filename == __file__
    assert old.__name__ == "old"


@pytest.mark.parametrize(
    ("since", "removed_in", "is_enough"),
    [
        ("0.2", "0.3", False),
        ("0.2", "0.4", True),
        ("0.9", "0.11", True),
        ("0.9", "1.0", True),
        ("1.2", "1.2", False),
    ],
)
def test_a_release_lies_between_deprecation_and_removal(since, removed_in, is_enough):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        if is_enough:
            warn_deprecated("it", since=since, removed_in=removed_in, instead="another")
        else:
            with pytest.raises(ValueError, match="expected a minor release between since="):
                warn_deprecated("it", since=since, removed_in=removed_in, instead="another")
    assert len(seen) == is_enough


def test_a_release_has_two_numbers():
    with pytest.raises(ValueError, match="expected a release such as"):
        deprecated(since="0.2.1", removed_in="0.4", instead="another")


def test_what_is_due_was_removed():
    current = tuple(map(int, re.findall(r"\d+", version("pennylane-bellhop"))[:2]))
    for file in FRONTEND.rglob("*.py"):
        if file.stem != "_deprecations":
            for major, minor in re.findall(r'removed_in="(\d+)\.(\d+)"', file.read_text()):
                assert current < (int(major), int(minor)), f"{file}: remove what is deprecated"
