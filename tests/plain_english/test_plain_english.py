"""Names, docstrings, comments and commit subjects are at least as plain as before."""

import pytest
from tests.plain_english import counts


@pytest.fixture(scope="module")
def current() -> dict[str, dict[str, int]]:
    return counts.count_by_package()


@pytest.mark.parametrize("kind", counts.KINDS)
def test_counts_do_not_rise(kind: str, current: dict[str, dict[str, int]]) -> None:
    limits = counts.read_limits()[kind]
    risen = {
        package: f"{n} {kind}, expected at most {limits.get(package, 0)}; list them with "
        f"`python -m tests.plain_english.counts {package}`"
        for package, n in current[kind].items()
        if n > limits.get(package, 0)
    }
    assert risen == {}


def test_commit_subjects() -> None:
    subjects = counts.find_unclear_subjects()
    # A shallow clone has no history to check.
    assert not subjects


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("of", True),
        ("taken_alone", True),
        ("as_they_are", True),
        ("shape_of", True),
        ("apply_matrices", False),
        ("from_equation", False),
        ("with_leaves", False),
        ("is_static", False),
    ],
)
def test_fragments_are_found(name: str, expected: bool) -> None:
    assert counts._is_fragment(name) is expected
