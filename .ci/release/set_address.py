"""Put the repository's address into every file that names it.

Run once, when the repository has a public address on GitHub::

    python .ci/release/set_address.py OWNER/NAME

PyPI shows the README without the repository's files, so its links and pictures become absolute in
the built metadata; the README itself keeps relative links.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

URLS = """[project.urls]
Documentation = "https://{owner}.github.io/{name}/"
Source = "https://github.com/{address}"
Issues = "https://github.com/{address}/issues"
Changelog = "https://github.com/{address}/blob/main/CHANGELOG.md"
"""

README = """
[tool.hatch.metadata.hooks.fancy-pypi-readme]
content-type = "text/markdown"
fragments = [{{ path = "README.md" }}]

# Pictures. Addresses stay.
[[tool.hatch.metadata.hooks.fancy-pypi-readme.substitutions]]
pattern = '!\\[([^]]*)\\]\\((?!https?:)([^)]+)\\)'
replacement = '![\\1](https://raw.githubusercontent.com/{address}/main/\\2)'

# Links. Addresses and anchors stay.
[[tool.hatch.metadata.hooks.fancy-pypi-readme.substitutions]]
pattern = '(?<!!)\\[([^]]*)\\]\\((?!https?:|#)([^)]+)\\)'
replacement = '[\\1](https://github.com/{address}/blob/main/\\2)'
"""

CONTACT = """blank_issues_enabled: true
contact_links:
  - name: Security
    url: https://github.com/{address}/security/advisories/new
    about: Report a fault of security in private, as SECURITY.md says.
"""


def set_address(root: Path, address: str) -> None:
    """Write the address into the files that name it.

    Args:
        root: the repository.
        address: `OWNER/NAME` on GitHub.

    Raises:
        ValueError: the address is not of this form, or a file has an address already.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", address):
        raise ValueError(f"set_address: expected OWNER/NAME, got {address!r}.")
    owner, name = address.split("/")
    values = {"address": address, "owner": owner, "name": name}

    _replace(root / "pyproject.toml", r"\[project\.urls\]\n(?:.+\n)*", URLS.format(**values))
    _replace(root / "pyproject.toml", r'^readme = "README\.md"\n', "")
    _replace(
        root / "pyproject.toml", r'^dynamic = \["version"\]', 'dynamic = ["version", "readme"]'
    )
    _replace(
        root / "pyproject.toml",
        r'(?<=^  "setuptools-scm>=8",\n)',
        '  "hatch-fancy-pypi-readme>=24",\n',
    )
    _replace(
        root / "pyproject.toml",
        r"(?<=setuptools_scm\"\n)(?=sdist\.exclude)",
        'metadata.readme.provider = "scikit_build_core.metadata.fancy_pypi_readme"\n',
    )
    tables = README.format(**values)
    _replace(root / "pyproject.toml", r"\n(?=\[tool\.setuptools_scm\])", f"{tables}\n")
    _replace(
        root / "CITATION.cff",
        r"(?=^license: )",
        f'repository-code: "https://github.com/{address}"\n',
    )
    _replace(
        root / "SECURITY.md",
        r"open a private security advisory on the project's code host",
        "open a\n[private security advisory](https://github.com/"
        f"{address}/security/advisories/new)",
    )
    (root / ".github/ISSUE_TEMPLATE/config.yml").write_text(CONTACT.format(**values))


def _replace(path: Path, pattern: str, new: str) -> None:
    """Replace the one occurrence of a pattern in a file."""
    text, count = re.subn(pattern, lambda _: new, path.read_text(), flags=re.M)
    if count != 1:
        raise ValueError(f"{path}: expected one place of {pattern!r}, got {count}.")
    path.write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python .ci/release/set_address.py OWNER/NAME")
    set_address(ROOT, sys.argv[1])
