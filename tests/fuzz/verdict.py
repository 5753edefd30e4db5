"""What came of a script."""

from dataclasses import dataclass, field
from typing import Any

AGREES = "agrees"


@dataclass(frozen=True)
class Verdict:
    """What came of a script.

    Attributes:
        kind: ``AGREES``, or the kind of failure; failures of one kind are taken for one fault.
        details: what differs.
        refused: the reasons of what was refused.
        outcomes: for each call its error or its values, as `against.py` describes them.
    """

    kind: str
    details: str = ""
    refused: tuple[str, ...] = ()
    outcomes: tuple[Any, ...] = field(default=(), compare=False)

    @property
    def agrees(self) -> bool:
        return self.kind == AGREES
