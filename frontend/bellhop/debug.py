"""Looking inside programs: printing, callbacks, and the stages of compilation."""

from typing import TYPE_CHECKING, Any

from bellhop.callbacks.callback import callback
from bellhop.callbacks.print import print

if TYPE_CHECKING:
    from bellhop.qjit import QJIT

__all__ = ["callback", "get_compilation_stage", "print"]


def get_compilation_stage(fn: "QJIT[Any, Any]", stage: str) -> str:
    """Return the module of a compiled function after a pass.

    Args:
        fn: a function made with ``qjit(keep_intermediate=True)`` and called before.
        stage: the name of a pass, as ``bellhop-opt --list`` gives it.

    Raises:
        ValueError: naming the stages that there are.
    """
    stages = fn._program().stages
    if stage not in stages:
        there_are = ", ".join(stages) or "none: compile with qjit(keep_intermediate=True)"
        raise ValueError(f"{fn!r} has no stage '{stage}'; there are {there_are}.")
    return stages[stage]
