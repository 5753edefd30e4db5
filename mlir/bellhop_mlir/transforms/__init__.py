"""The passes, one a file in the folder of its subject; its stem is its name in a pipeline.

A pass is a frozen dataclass with a ``name`` and an ``apply`` that changes a module in
place: valid IR in, valid IR out.  One that found nothing to do returns False, and the module
is not verified again.
"""

from typing import ClassVar, Protocol

from bellhop_mlir._bindings import ir


class Pass(Protocol):
    """What the driver asks of a pass."""

    name: ClassVar[str]

    def apply(self, module: ir.Module) -> bool | None:
        """Change ``module`` in place; return False where nothing changed."""
