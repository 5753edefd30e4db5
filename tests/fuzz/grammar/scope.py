"""Where a statement stands: what it may use, and the lines of the block that it goes to."""

import enum
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st


class Kind(enum.Enum):
    """What is known of a value when a program is drawn.

    Arrays of any dtype and vectors are as long as the call makes them, zero included.
    """

    FLOAT = "x"
    INT = "n"
    BOOL = "b"
    VECTOR = "v"
    ANY = "a"


@dataclass(frozen=True)
class Traits:
    """What the calls of a program will ask of it.

    Attributes:
        derivative: it is differentiated, so callbacks have rules or get no differentiated value.
        mapped: it is mapped by ``vmap``.
        circuits: it may hold circuits.
        jit: it is compiled by ``jax.jit``.
        autograph: Python's own control flow is converted.
    """

    derivative: bool = False
    mapped: bool = False
    circuits: bool = True
    jit: bool = False
    autograph: bool = False

    @property
    def is_of_jax(self) -> bool:
        """Tell whether it may be a program of JAX's that runs, be it for a transformation."""
        return self.jit or self.derivative or self.mapped

    def __str__(self) -> str:
        """Return what stands out."""
        names = [name for name, value in vars(self).items() if value and name != "circuits"]
        return ", ".join(names) or "plain"


@dataclass
class Scope:
    """A block of a program that is being drawn.

    Attributes:
        draw: how it is drawn.
        traits: what the calls of the program will ask of it.
        fill: draws the statements of a block, at most so many.
        numbers: what make names different.
        lines: what there is so far.
        variables: what may be used, for each kind.
        wires: how many wires its gates may stand on; 0 where there may be none.
        in_circuit: whether it stands in a QNode.
        repeated: whether how often it runs is not promised: for each outcome of a measurement, or
            for rows of a batch that take another branch.
        depth: how many blocks may yet be one inside the other.
        random: numbers that differ from run to run, where the block can return them.
    """

    draw: Callable[[Any], Any]
    traits: Traits
    fill: Callable[["Scope", int], None]
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    lines: list[str] = field(default_factory=list)
    variables: dict[Kind, list[str]] = field(default_factory=lambda: {kind: [] for kind in Kind})
    wires: int = 0
    in_circuit: bool = False
    repeated: bool = False
    depth: int = 2
    random: list[str] | None = None

    def fresh(self, stem: str) -> str:
        """Return a name that nothing has."""
        return f"{stem}{next(self.numbers)}"

    def one_of(self, *choices: Any) -> Any:
        """Draw one; failing programs are shrunk towards the first."""
        return self.draw(st.sampled_from(choices))

    def chance(self, of: int) -> bool:
        """Draw whether something rare happens, once in so many times."""
        return self.draw(st.integers(0, of - 1)) == of - 1

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of which there are values: constants, or arrays that are as long as others."""
        return [k for k in Kind if k in (Kind.FLOAT, Kind.INT, Kind.BOOL) or self.variables[k]]

    def add(self, kind: Kind, text: str) -> None:
        """Name a value."""
        name = self.fresh(kind.value)
        self.lines.append(f"{name} = {text}")
        self.variables[kind].append(name)

    def inner(self, **changes: Any) -> "Scope":
        """Return a block inside this one, which sees its variables."""
        variables = {kind: list(names) for kind, names in self.variables.items()}
        shared: dict[str, Any] = {"variables": variables, "depth": self.depth - 1, "random": None}
        return replace(self, lines=[], **shared | changes)

    def some(self, most: int = 4) -> None:
        """Draw statements."""
        self.fill(self, most)

    def block(self, head: str, inner: "Scope", *decorators: str) -> None:
        """Write a function whose body is another block."""
        self.lines += [*decorators, head, *("    " + line for line in inner.lines or ["pass"])]
