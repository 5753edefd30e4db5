"""What a pass is: valid IR in, valid IR out."""

import abc
import re
from dataclasses import dataclass
from typing import ClassVar

from bellhop_mlir._bindings import ir


@dataclass(frozen=True)
class Pass(abc.ABC):
    """A pass over modules; its fields are its options.

    Attributes:
        name: in a pipeline.  The class ``OrderEffects``, in ``order_effects.py``, is
            ``order-effects``.
        needs: operations, or dialects; in a module that lacks one of them nothing would change, and
            the pass does not run.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.name = re.sub(r"\B[A-Z]", r"-\g<0>", cls.__name__).lower()

    @abc.abstractmethod
    def apply(self, module: ir.Module) -> bool | None:
        """Change ``module`` in place; return False where nothing changed."""
