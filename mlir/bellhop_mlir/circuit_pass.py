"""Passes over the gates of circuits, of all in a module or of those that ask for it."""

import abc
from collections.abc import Iterable
from typing import ClassVar

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import functions


class CircuitPass(abc.ABC):
    """A pass that can be run over the functions of one circuit."""

    name: ClassVar[str]

    def apply(self, module: ir.Module) -> bool:
        """Change all circuits of ``module`` in place; return False where nothing changed."""
        return self.apply_to(functions(module).values())

    def apply_to(self, circuits: Iterable[ir.Operation]) -> bool:
        """Change these functions in place; return whether any changed."""
        changed = [self.simplify(function) for function in list(circuits)]
        return any(changed)

    @abc.abstractmethod
    def simplify(self, function: ir.Operation) -> bool:
        """Change one function in place; return whether it changed."""
