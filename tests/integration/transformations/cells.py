"""A cell of the table: one flavour in one program, run in one form."""

import contextlib
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import bellhop

from .callback_types import FLAVOURS, CallbackRow
from .outcomes import Log, Outcome, Refused, Works
from .programs import FORMS, PROGRAMS, Transformation


@dataclass(frozen=True)
class Observed:
    """What came of a cell.

    Attributes:
        result: what the program returned, or None.
        error: what it raised, or None.
        calls: how often the callback was called.
        values: what it was given.
    """

    result: Any
    error: Exception | None
    calls: int
    values: tuple[float, ...]


@dataclass(frozen=True)
class Cell:
    """A flavour, a program, and how it is run."""

    flavour: CallbackRow
    program: Transformation
    form: str
    vmap_method: str | None = None

    @property
    def column(self) -> str:
        """The head of the column, which says the method too."""
        return self.program.name + (f", {self.vmap_method}" if self.vmap_method else "")

    @property
    def expected(self) -> Outcome:
        """What must come of it."""
        for key in (f"{self.column} ({self.form})", self.column):
            if key in self.flavour.differs:
                return self.flavour.differs[key]
        return Works(calls=1 if self.vmap_method else None)

    @property
    def seen(self) -> tuple[float, ...]:
        """What the callback must get, in program order."""
        if isinstance(self.expected, Refused):
            return ()
        return self.program.seen if self.expected.seen is None else self.expected.seen

    @property
    def calls(self) -> int:
        """How often it must be called."""
        calls = None if isinstance(self.expected, Refused) else self.expected.calls
        return len(self.seen) if calls is None else calls

    def __str__(self) -> str:
        return f"{self.flavour.name}: {self.column}: {self.form}"


@functools.cache
def observe(cell: Cell) -> Observed:
    """Run the program of a cell, once in a process."""
    log = Log()
    methods = {} if cell.vmap_method is None else {"vmap_method": cell.vmap_method}
    result, error = None, None
    with contextlib.redirect_stdout(log):
        try:
            program = cell.program.program(cell.flavour.make(log, **methods))
            result = jax.block_until_ready(FORMS[cell.form](program)(*cell.program.args))
        except Exception as raised:
            error = raised
        # The program has not waited for its taps.
        bellhop.barrier_wait()
    return Observed(result, error, len(log.calls), tuple(log.values))


def check(cell: Cell) -> Observed:
    """Return what came of a cell, where it is what is declared; else say what it was."""
    expected, observed = cell.expected, observe(cell)
    if isinstance(expected, Refused):
        assert observed.error is not None, f"{cell} works and is declared to be refused"
        assert isinstance(observed.error, expected.error), repr(observed.error)
        assert re.search(expected.match, str(observed.error)), str(observed.error)
        assert observed.calls == cell.calls == 0
        return observed
    if observed.error is not None:
        raise observed.error
    results, values = jax.tree.leaves(observed.result), jax.tree.leaves(cell.program.value)
    for result, value in zip(results, values, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-9)
    seen = cell.seen
    if cell.program.in_order and (cell.flavour.keeps_order or cell.form == "qjit"):
        np.testing.assert_allclose(observed.values, seen, rtol=1e-9)
    else:
        np.testing.assert_allclose(sorted(observed.values), sorted(seen), rtol=1e-9)
    assert observed.calls == cell.calls
    return observed


def _cells() -> Iterator[Cell]:
    for flavour in FLAVOURS:
        for program in PROGRAMS:
            methods = flavour.vmap_methods if program.vmap_methods else ()
            for method in (None, *methods):
                for form in program.forms:
                    yield Cell(flavour, program, form, method)


CELLS = tuple(_cells())
