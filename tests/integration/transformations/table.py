"""The documentation's table, written from what the cells gave."""

import string
from collections.abc import Iterable

from .callback_types import FLAVOURS
from .cells import CELLS, Cell, check
from .outcomes import Refused

HEADER = """\
# Callbacks under transformations

What each flavour of callback does under each transformation. The tables are written from what
the tests observed: `python -m tests.integration.transformations` runs every cell, compares its
value with NumPy's, and counts the calls.

- **3** means that it works and that Python is called three times.
- A letter means that it is refused while the program is traced, and Python is not called; below
  it says why.
- *Outside* and *inside* stand where `jax.jit` and `qjit` differ.

In a `qjit` program all calls with effects keep program order. In a plain `jax.jit` an `io_callback`
that is not ordered and a `buffer_callback` with side effects have no order, and no call has one
between devices under `shard_map`. Mapped elements come in C order, and a call is made for all of
them before the next call. Taps are called once with the whole batch, but for circuits, which run
once for each element. `buffer_callback` is given `vmap_method="sequential"` here: without one it
refuses `vmap`, as JAX's does.

"Past it" is a derivative of what the callback takes part in, while no differentiated value
flows into the callback. Calls of `pure_callback` may be dropped, merged and hoisted: its counts
are what happens now, and no promise.
"""


def document() -> str:
    """Run what has not been run yet, and return the text of ``doc/reference/callback-transformations.md``."""
    notes: dict[str, str] = {}
    parts = [HEADER]
    for group in dict.fromkeys(cell.program.group for cell in CELLS):
        parts.append(_table(group, [cell for cell in CELLS if cell.program.group == group], notes))
    parts.append(
        "## Why it is refused\n\n" + "\n".join(f"- **{n}**: {why}" for why, n in notes.items())
    )
    return "\n".join(parts) + "\n"


def _table(group: str, cells: list[Cell], notes: dict[str, str]) -> str:
    # Transformations go down and flavours across: there are more of the former.
    columns = dict.fromkeys(cell.column for cell in cells)
    programs = dict.fromkeys(cell.program for cell in cells)
    names = [flavour.name for flavour in FLAVOURS]
    lines = [
        f"## {group}\n",
        _row(["", *(f"`{name}`" for name in names)]),
        _row(["---"] * (len(names) + 1)),
    ]
    for column in columns:
        by_flavour = [
            [cell for cell in cells if (cell.column, cell.flavour.name) == (column, name)]
            for name in names
        ]
        lines.append(_row([column, *(_text(found, notes) for found in by_flavour)]))
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
