"""Write the table of what Bellhop replaces in other packages: doc/contributing/upstream.md.

Run as `python doc/list_patches.py`; a test compares the table with the docstrings of the patches.
"""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FRONTEND = ROOT / "frontend" / "bellhop"
PAGE = ROOT / "doc" / "contributing" / "upstream.md"
BEGIN = "<!-- written by `python doc/list_patches.py` -->"
END = "<!-- as far as here -->"

# Fields of a patch's docstring, each a paragraph that begins with its name.
FIELDS = ("Replaced", "Versions", "Upstream", "Issue", "Installed", "Test")
REPOSITORIES = {
    "jax": "jax-ml/jax",
    "pennylane": "PennyLaneAI/pennylane",
    "catalyst": "PennyLaneAI/catalyst",
}
LIBRARIES = {"_jax": "JAX", "_pennylane": "PennyLane and Lightning", "autograph": "malt"}


@dataclass(frozen=True)
class Patch:
    """A file that replaces a part of another package.

    Attributes:
        file: the file that installs the patch.
        purpose: the first sentence of its docstring.
        fields: the text of each of `FIELDS` in the docstring, without the field's name.
    """

    file: Path
    purpose: str
    fields: dict[str, str]

    @classmethod
    def read(cls, file: Path) -> "Patch":
        """Read a patch from the docstring of its file.

        Raises:
            ValueError: the docstring lacks a field.
        """
        text = ast.get_docstring(ast.parse(file.read_text())) or ""
        fields = {}
        for name in FIELDS:
            following = "|".join(FIELDS)
            found = re.search(rf"^{name}: (.*?)(?=^(?:{following}): |^$|\Z)", text, re.M | re.S)
            if found is None:
                raise ValueError(f"{file}: expected a field {name!r} in the docstring")
            fields[name] = " ".join(found[1].split())
        return cls(file, text.partition("\n\n")[0].replace("\n", " ").strip(), fields)


def find_patches() -> list[Path]:
    """Return the files of all patches, patches of JAX first."""
    files = [path for path in FRONTEND.glob("_*/patches/*.py") if path.stem != "__init__"]
    return [*sorted(files), FRONTEND / "autograph" / "inner_arguments.py"]


def format_table(patches: list[Patch]) -> str:
    """Return a Markdown table of the patches of one package."""
    lines = [
        "| file | for | replaced | versions | until upstream has | upstream issue |",
        "|---|---|---|---|---|---|",
    ]
    for patch in patches:
        fields = {name: _format_cell(text) for name, text in patch.fields.items()}
        replaced = _format_cell(re.split(r"(?<=\.) ", patch.fields["Replaced"])[0])
        cells = (
            f"`{patch.file.stem}`",
            _format_cell(patch.purpose),
            replaced,
            fields["Versions"],
            fields["Upstream"],
            _link_issues(fields["Issue"]),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def format_tables() -> str:
    """Return all tables, each below the name of its package."""
    patches = [Patch.read(file) for file in find_patches()]
    return "\n\n".join(
        f"### {library}\n\n"
        + format_table([p for p in patches if p.file.relative_to(FRONTEND).parts[0] == folder])
        for folder, library in LIBRARIES.items()
    )


def insert_tables(page: str) -> str:
    """Return the page's text with the tables between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{format_tables()}\n\n{END}{after}"


def _format_cell(text: str) -> str:
    """Convert reStructuredText's literals to Markdown, and drop the full stop."""
    return text.replace("``", "`").replace("|", r"\|").removesuffix(".")


def _link_issues(text: str) -> str:
    """Make a link of each issue, such as `jax#83`."""

    def link(found: re.Match[str]) -> str:
        address = f"https://github.com/{REPOSITORIES[found[1]]}/issues/{found[2]}"
        return f"[{found[0]}]({address})"

    return re.sub(r"\b(jax|pennylane|catalyst)#(\d+)", link, text)


if __name__ == "__main__":
    PAGE.write_text(insert_tables(PAGE.read_text()))
