"""Put the repository's address into every file that names it.

Run when the repository has a public address on GitHub, and again if the address changes::

    python .ci/release/set_address.py OWNER/NAME

PyPI shows the README without the repository's files, so its links and pictures become absolute in
the built metadata; the README itself keeps relative links.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CONTACT_FILE = ".github/ISSUE_TEMPLATE/config.yml"
# The files that name the address.
FILES = ("pyproject.toml", "CITATION.cff", "SECURITY.md", CONTACT_FILE)

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
    """Write the address into the files that name it; in the place of another one, if they have one.

    Nothing is written if an error is raised.

    Args:
        root: the repository.
        address: `OWNER/NAME` on GitHub.

    Raises:
        ValueError: the address is not of this form, or a file does not have a place for it.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", address):
        raise ValueError(f"set_address: expected OWNER/NAME, got {address!r}.")
    texts = {name: (root / name).read_text() for name in FILES}
    present = re.search(r'^Source = "https://github\.com/(.+)"$', texts["pyproject.toml"], re.M)
    if present is not None:
        texts = {name: _exchange(text, present[1], address) for name, text in texts.items()}
    else:
        _insert(texts, address)
    for name, text in texts.items():
        (root / name).write_text(text)


def _exchange(text: str, present: str, address: str) -> str:
    """Replace the repository's and the documentation's address in the text of a file."""
    old, new = (tuple(each.split("/")) for each in (present, address))
    text = re.sub(rf"(?<=[/.]com/){re.escape(present)}\b", address, text)
    return text.replace(
        "https://{}.github.io/{}/".format(*old), "https://{}.github.io/{}/".format(*new)
    )


def _insert(texts: dict[str, str], address: str) -> None:
    """Insert the address into the texts of files that have none.

    Args:
        texts: the text of each of `FILES`, which this function changes.
        address: `OWNER/NAME` on GitHub.
    """

    def replace(name: str, pattern: str, new: str) -> None:
        """Replace the one occurrence of a pattern in a file's text."""
        text, count = re.subn(pattern, lambda _: new, texts[name], flags=re.M)
        if count != 1:
            raise ValueError(f"{name}: expected one place of {pattern!r}, got {count}.")
        texts[name] = text

    owner, repository = address.split("/")
    values = {"address": address, "owner": owner, "name": repository}
    replace("pyproject.toml", r"\[project\.urls\]\n(?:.+\n)*", URLS.format(**values))
    replace("pyproject.toml", r'^readme = "README\.md"\n', "")
    replace("pyproject.toml", r'^dynamic = \["version"\]', 'dynamic = ["version", "readme"]')
    replace(
        "pyproject.toml",
        r'(?<=^  "setuptools-scm>=8",\n)',
        '  "hatch-fancy-pypi-readme>=24",\n',
    )
    replace(
        "pyproject.toml",
        r"(?<=setuptools_scm\"\n)(?=sdist\.exclude)",
        'metadata.readme.provider = "scikit_build_core.metadata.fancy_pypi_readme"\n',
    )
    tables = README.format(**values)
    replace("pyproject.toml", r"\n(?=\[tool\.setuptools_scm\])", f"{tables}\n")
    replace("CITATION.cff", r"(?=^license: )", f'repository-code: "https://github.com/{address}"\n')
    replace(
        "SECURITY.md",
        r"open a private security advisory on the project's code host",
        "open a\n[private security advisory](https://github.com/"
        f"{address}/security/advisories/new)",
    )
    texts[CONTACT_FILE] = CONTACT.format(**values)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python .ci/release/set_address.py OWNER/NAME")
    set_address(ROOT, sys.argv[1])
