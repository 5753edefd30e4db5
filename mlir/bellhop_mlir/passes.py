"""Base class of passes, which transform valid IR to valid IR."""

import abc
import re
from dataclasses import dataclass
from typing import ClassVar

from bellhop_mlir._bindings import ir


@dataclass(frozen=True)
class Pass(abc.ABC):
    """A pass over modules; its dataclass fields are its options.

    A subclass implements `apply`. An instance is a pass with its options; `run_pipeline` runs it.

    Attributes:
        name: name in pipelines, derived from the class name: ``OrderEffects`` is ``order-effects``.
        needs: names of operations (``callback.call``) or dialects (``callback``); the pass is
            skipped for modules that lack any of them.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.name = re.sub(r"\B[A-Z]", r"-\g<0>", cls.__name__).lower()

    @abc.abstractmethod
    def apply(self, module: ir.Module) -> bool | None:
        """Transform a module in place, as this pass's class describes.

        Returns:
            False if the module is unchanged, which saves its verification; else True or None.
        """
