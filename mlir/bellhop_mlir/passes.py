"""What a pass is: valid IR in, valid IR out."""

import abc
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import functions


@dataclass(frozen=True)
class Pass(abc.ABC):
    """A pass over modules; its fields are its options.

    Attributes:
        name: in a pipeline.  The class ``FuseGates``, in ``fuse_gates.py``, is ``fuse-gates``.
    """

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.name = re.sub(r"\B[A-Z]", r"-\g<0>", cls.__name__).lower()

    @abc.abstractmethod
    def apply(self, module: ir.Module) -> bool | None:
        """Change ``module`` in place; return False where nothing changed."""


class CircuitPass(Pass):
    """A pass that can be run over the functions of one circuit."""

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
