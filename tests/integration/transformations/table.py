"""The documentation's table, written from what the cells gave."""

import string
from collections.abc import Iterable

from .callback_types import FLAVOURS
from .cells import CELLS, Cell, check
from .outcomes import Refused

# Of a table, so that it fits a page.
COLUMNS = 6

HEADER = """\
# Callbacks under transformations

How often Python is called by each kind of callback under each transformation. The tests write the
tables: `python -m tests.integration.transformations` runs every cell, compares its value with
NumPy's, and counts the calls.

| entry | meaning |
|---|---|
| **3** | is supported; Python is called three times |
| a letter | is not supported: [an error while the program is traced](#errors) |
| *outside* and *inside* | `jax.jit` and `qjit` differ |

- In a `qjit` program all calls with effects keep program order. In a plain `jax.jit`, unordered
  `io_callback`s and `buffer_callback`s with side effects have no order, and no call is ordered
  between devices under `shard_map`.
- Mapped elements are called in C order, all of them before the next call. A tap is called once
  with the whole batch, except in circuits, which run once for each element.
- `buffer_callback` has `vmap_method="sequential"` here. Without it, `vmap` is an error, as in
  JAX.
- "Past it" is a derivative of a function that calls the callback with values that are not
  differentiated.
- The compiler may drop, merge and hoist calls of `pure_callback`: its counts are observations,
  not promises.
"""


def document() -> str:
    """Run the cells that have not run yet, and return the text of the page with the tables."""
    notes: dict[str, str] = {}
    parts = [HEADER]
    for group in dict.fromkeys(cell.program.group for cell in CELLS):
        parts.append(_table(group, [cell for cell in CELLS if cell.program.group == group], notes))
    parts.append("## Errors\n\n" + "\n".join(f"- **{n}**: {why}" for why, n in notes.items()))
    return "\n".join(parts) + "\n"


def _table(group: str, cells: list[Cell], notes: dict[str, str]) -> str:
    by_column = list(dict.fromkeys(cell.column for cell in cells))
    programs = dict.fromkeys(cell.program for cell in cells)
    texts = {
        (column, flavour.name): _text(
            [c for c in cells if (c.column, c.flavour.name) == (column, flavour.name)], notes
        )
        for column in by_column
        for flavour in FLAVOURS
    }
    lines = [f"## {group}"]
    for begin in range(0, len(by_column), COLUMNS):
        columns = by_column[begin : begin + COLUMNS]
        lines += ["", _row(["callback", *columns]), _row(["---"] * (len(columns) + 1))]
        for flavour in FLAVOURS:
            outcomes = [texts[column, flavour.name] for column in columns]
            lines.append(_row([f"`{flavour.name}`", *outcomes]))
    lines.append("")
    lines += [f"- *{program.name}*: {program.does}" for program in programs]
    return "\n".join(lines) + "\n"


def _row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _text(forms: list[Cell], notes: dict[str, str]) -> str:
    texts = [_outcome(cell, notes) for cell in forms]
    if len(set(texts)) <= 1:
        return texts[0] if texts else ""
    where = {"jit": "outside", "qjit": "inside"}
    return ", ".join(f"{where[cell.form]} {text}" for cell, text in zip(forms, texts, strict=True))


def _outcome(cell: Cell, notes: dict[str, str]) -> str:
    # Where its package is missing, the text says what is checked where it is there.
    if cell.flavour.runs_here:
        check(cell)
    if isinstance(cell.expected, Refused):
        why = f"`{cell.expected.error.__name__}`. {cell.expected.why}"
        return notes.setdefault(why, string.ascii_lowercase[len(notes)])
    return f"**{cell.calls}**"
