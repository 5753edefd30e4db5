"""Debugging of programs: prints, callbacks, pending work, and stages of compilation."""

import builtins
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bellhop.base.public_function import public_function
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


@public_function
def get_compilation_stage(fn: QJIT[..., Any], stage: str) -> str:
    """Return the MLIR module of a function's latest program after a pass.

    Args:
        fn: a function made with ``qjit(keep_intermediate=True)``, which has been compiled.
        stage: name of a pass, as in ``bellhop-opt --list``; or ``"lowered"`` (or ``"mlir"``), the
            module before the first pass.

    Returns:
        the module as text.

    Raises:
        TypeError: if ``fn`` is not a qjit function.
        CompileError: if ``fn`` has not been compiled, or was compiled without
            ``keep_intermediate``, or the stage does not exist; lists the stages.

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


@public_function
def get_compilation_stages_groups(options: Any = None) -> list[tuple[str, list[str]]]:
    """List the MLIR passes by which Bellhop compiles a program, in two groups.

    Args:
        options: accepted for compatibility with Catalyst; ignored.

    Returns:
        two pairs, in the order in which they run: the group's name, ``"optimization"`` or
        ``"conversion"``, and the names of its passes in order.

    Example:
        >>> import bellhop
        >>> [name for name, _ in bellhop.debug.get_compilation_stages_groups()]
        ['optimization', 'conversion']
    """
    del options
    groups = {"optimization": OPTIMIZATION, "conversion": CONVERSION}
    return [(name, [pass_.name for pass_ in passes]) for name, passes in groups.items()]


@public_function
def replace_ir(fn: QJIT[..., Any], stage: str, new_ir: str) -> None:
    """Replace the MLIR module of a compiled function's latest program.

    The next call compiles the new module from the replaced stage on.

    Args:
        fn: a qjit function that has been compiled.
        stage: ``"lowered"`` (or ``"mlir"``), the module before the first pass; or the name of an
            optimization pass, after which compilation continues.
        new_ir: text of a module. Its ``@main`` must have the same arguments and results, and it
            must declare the same callbacks with the same ids.

    Raises:
        TypeError: if ``fn`` is not a qjit function.
        CompileError: if ``fn`` has not been compiled, or ``stage`` is unknown or is not an
            optimization pass; at the next call, if the module cannot be compiled.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: x + x)
        >>> print(f(3.0))
        6.0
        >>> squared = f.mlir.replace("stablehlo.add", "stablehlo.multiply")
        >>> bellhop.debug.replace_ir(f, "mlir", squared)
        >>> print(f(3.0))
        9.0

    Same interface as Catalyst's ``debug.replace_ir``.
    """
    stages = [LOWERED, *(pass_.name for pass_ in OPTIMIZATION)]
    name = LOWERED if stage == "mlir" else stage
    if name not in stages:
        raise CompileError(
            f"replace_ir: there is no stage '{stage}'; there are {', '.join(stages)}."
        )
    _check_qjit("replace_ir", fn)._replace_module(name, new_ir)


def get_cmain(fn: Any, *args: Any) -> str:
    """Raise an error: Bellhop makes no object code that a C program could link.

    Raises:
        NotImplementedError: always; names the alternative.
    """
    raise NotImplementedError(f"debug.get_cmain: {_NO_EXECUTABLES}")


def compile_executable(fn: Any, *args: Any) -> str:
    """Raise an error: XLA compiles programs in memory, not to an executable file.

    Raises:
        NotImplementedError: always; names the alternative.
    """
    raise NotImplementedError(f"debug.compile_executable: {_NO_EXECUTABLES}")


_NO_EXECUTABLES = (
    "programs are compiled by XLA in the process that runs them, and there are no executables. "
    "f.save(path) and bellhop.load(path) bring a program to another process."
)


def _check_qjit(label: str, fn: Any) -> QJIT[..., Any]:
    """Return `fn`, or raise a `TypeError` if it is not a qjit function.

    Args:
        label: name of the public function that got `fn` as first argument, for the error.
        fn: any value.
    """
    if not isinstance(fn, QJIT):
        raise TypeError(
            f"{label} takes a qjit function first, got {fn!r} of type {type(fn).__name__}."
        )
    return fn


@public_function
@contextlib.contextmanager
def instrumentation(
    session_name: str, filename: str | Path | None = None, detailed: bool = False
) -> Iterator[None]:
    """Measure the stages of compilation and the runs of compiled functions.

    Args:
        session_name: heading of the printed or written results.
        filename: file to which the results are appended, as YAML; None prints them.
        detailed: whether to list each pass.

    Returns:
        a context manager; compilations and runs inside the context are measured. If the block
        raises, nothing is printed or written.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: x + 1)
        >>> with bellhop.debug.instrumentation("first call"):
        ...     y = f(1.0)
        first call
        stage           wall         CPU   lines
        tracing ... ms ...

    Same interface as Catalyst's ``debug.instrumentation``.
    """
    with record_stages() as session:
        yield
    result = session if detailed else session.summarize()
    if filename is None:
        builtins.print(session_name, result.to_table(), sep="\n")
    else:
        with open(filename, "a", encoding="utf-8") as file:
            file.write(result.to_yaml(session_name))
