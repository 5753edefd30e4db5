"""What came of a script."""

from dataclasses import dataclass

AGREES = "agrees"


@dataclass(frozen=True)
class Verdict:
    """What came of a script.

    Attributes:
        kind: ``AGREES``, or the kind of failure; failures of one kind are taken for one fault.
        details: what differs.
        refused: the reasons of what was refused.
    """

    kind: str
    details: str = ""
    refused: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        return self.kind == AGREES
