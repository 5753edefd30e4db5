"""Looking inside programs: printing, callbacks, and the stages of compilation."""

import builtins
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellhop.callbacks.callback import callback
from bellhop.callbacks.print import print, print_memref
from bellhop.instruments import recording

if TYPE_CHECKING:
    from bellhop.qjit import QJIT

__all__ = ["callback", "get_compilation_stage", "instrumentation", "print", "print_memref"]


def get_compilation_stage(fn: "QJIT[Any, Any]", stage: str) -> str:
    """Return the module of a compiled function after a pass.

    Args:
        fn: a function made with ``qjit(keep_intermediate=True)`` and compiled before.
        stage: the name of a pass, as ``bellhop-opt --list`` gives it, or ``"lowered"``: before
            the first.

    Returns:
        the module as text.

    Raises:
        ValueError: naming the stages that there are.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: 2 * x, keep_intermediate=True)
        >>> float(f(1.0))
        2.0
        >>> "stablehlo.multiply" in bellhop.debug.get_compilation_stage(f, "inline-accelerate")
        True
    """
    stages = fn._program().stages
    if stage not in stages:
        there_are = ", ".join(stages) or "none: compile with qjit(keep_intermediate=True)"
        raise ValueError(f"{fn!r} has no stage '{stage}'; there are {there_are}.")
    return stages[stage]


@contextlib.contextmanager
def instrumentation(
    session_name: str, filename: str | Path | None = None, detailed: bool = False
) -> Iterator[None]:
    """Measure what compiled functions do inside: compilation, stage by stage, and runs.

    Args:
        session_name: heads the results.
        filename: a file that the results are appended to, as YAML; without one they are printed.
        detailed: whether each pass counts by itself.

    Returns:
        a context; what is compiled and run inside is measured.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: x + 1)
        >>> with bellhop.debug.instrumentation("first call"):
        ...     y = f(1.0)
        first call
        stage           wall         CPU   lines
        tracing ... ms ...

    The interface is that of Catalyst's ``debug.instrumentation``.
    """
    with recording() as session:
        yield
    result = session if detailed else session.summary()
    if filename is None:
        builtins.print(session_name, result.table(), sep="\n")
    else:
        with open(filename, "a", encoding="utf-8") as file:
            file.write(result.yaml(session_name))
