"""Looking inside programs: printing, callbacks, what they wait for, and how they are compiled."""

import builtins
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bellhop.callbacks.callback import callback
from bellhop.callbacks.check_transpose import check_transpose
from bellhop.compiled.qjit import QJIT
from bellhop.compiler.compile_timing import record_stages
from bellhop.compiler.optimize import LOWERED
from bellhop.errors import CompileError
from bellhop.observers.cotangent import cotangent
from bellhop.observers.log import log
from bellhop.observers.print import print, print_memref
from bellhop.profiling.watchdog import waiting, watchdog
from bellhop_mlir.pipelines import CONVERSION, OPTIMIZATION

__all__ = [
    "callback",
    "check_transpose",
    "cotangent",
    "get_compilation_stage",
    "get_compilation_stages_groups",
    "instrumentation",
    "log",
    "print",
    "print_memref",
    "replace_ir",
    "waiting",
    "watchdog",
]


def __dir__() -> list[str]:
    """Return the public names, without the imports of this module."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


def get_compilation_stage(fn: QJIT[..., Any], stage: str) -> str:
    """Return the module of a compiled function after a pass.

    Args:
        fn: a function made with ``qjit(keep_intermediate=True)`` and compiled before.
        stage: the name of a pass, as ``bellhop-opt --list`` gives it, or ``"lowered"`` (or
            ``"mlir"``): before the first.

    Returns:
        the module as text.

    Raises:
        TypeError: where ``fn`` is no qjit function.
        CompileError: naming the stages that there are.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: 2 * x, keep_intermediate=True)
        >>> float(f(1.0))
        2.0
        >>> "stablehlo.multiply" in bellhop.debug.get_compilation_stage(f, "inline-accelerate")
        True
    """
    stages = _check_qjit("get_compilation_stage", fn)._program().stages
    name = LOWERED if stage == "mlir" else stage
    if name not in stages:
        there_are = ", ".join(stages) or "none: compile with qjit(keep_intermediate=True)"
        raise CompileError(f"{fn!r} has no stage '{stage}'; there are {there_are}.")
    return stages[name]


def get_compilation_stages_groups(options: Any = None) -> list[tuple[str, list[str]]]:
    """Return the passes, in order, in groups: those that optimise, and those that convert.

    Args:
        options: for Catalyst's interface; the passes are the same for all.

    Returns:
        pairs of the name of a group and the names of its passes.

    Example:
        >>> import bellhop
        >>> [name for name, _ in bellhop.debug.get_compilation_stages_groups()]
        ['optimization', 'conversion']
    """
    del options
    groups = {"optimization": OPTIMIZATION, "conversion": CONVERSION}
    return [(name, [pass_.name for pass_ in passes]) for name, passes in groups.items()]


def replace_ir(fn: QJIT[..., Any], stage: str, new_ir: str) -> None:
    """Replace a module of a compiled function's newest program; its next call runs that.

    Args:
        fn: the function.
        stage: what is replaced: ``"lowered"`` (or ``"mlir"``), the module before the first
            pass, or the name of an optimising pass, after which the compilation goes on.
        new_ir: the text of a module whose ``@main`` has the same arguments and results, and
            that declares the same callbacks by the same numbers.

    Raises:
        TypeError: where ``fn`` is no qjit function.
        CompileError: where nothing is compiled yet, or nothing can go on after that stage; at
            the next call, for a module that cannot be compiled.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: x + x)
        >>> print(f(3.0))
        6.0
        >>> squared = f.mlir.replace("stablehlo.add", "stablehlo.multiply")
        >>> bellhop.debug.replace_ir(f, "mlir", squared)
        >>> print(f(3.0))
        9.0

    The interface is that of Catalyst's ``debug.replace_ir``.
    """
    stages = [LOWERED, *(pass_.name for pass_ in OPTIMIZATION)]
    name = LOWERED if stage == "mlir" else stage
    if name not in stages:
        raise CompileError(
            f"replace_ir: there is no stage '{stage}'; there are {', '.join(stages)}."
        )
    _check_qjit("replace_ir", fn)._replace_module(name, new_ir)


def get_cmain(fn: Any, *args: Any) -> str:
    """Refuse to write a program in C: there is no object code to link it to.

    Raises:
        NotImplementedError: always; names what there is instead.
    """
    raise NotImplementedError(f"debug.get_cmain: {_NO_EXECUTABLES}")


def compile_executable(fn: Any, *args: Any) -> str:
    """Refuse to make an executable: XLA compiles programs in the process that runs them.

    Raises:
        NotImplementedError: always; names what there is instead.
    """
    raise NotImplementedError(f"debug.compile_executable: {_NO_EXECUTABLES}")


_NO_EXECUTABLES = (
    "programs are compiled by XLA in the process that runs them, and there are no executables. "
    "f.save(path) and bellhop.load(path) bring a program to another process."
)


def _check_qjit(label: str, fn: Any) -> QJIT[..., Any]:
    if not isinstance(fn, QJIT):
        raise TypeError(f"{label} takes a qjit function first, got a {type(fn).__name__}.")
    return fn


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
    with record_stages() as session:
        yield
    result = session if detailed else session.summarize()
    if filename is None:
        builtins.print(session_name, result.to_table(), sep="\n")
    else:
        with open(filename, "a", encoding="utf-8") as file:
            file.write(result.to_yaml(session_name))
