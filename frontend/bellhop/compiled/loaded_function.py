"""Functions that were saved, in the process that runs them."""

import inspect
import os
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import jax

from bellhop._jax.private import trace_state_clean
from bellhop._jax.slow_dispatch import is_checking_results
from bellhop.archive import machine_code
from bellhop.archive.archive import SavedFunction, SavedProgram, read_programs, reading
from bellhop.arguments.signature import array_types
from bellhop.arguments.static_arguments import NO_STATIC, Static
from bellhop.base.ir_display import parse
from bellhop.base.types import Args, Kwargs
from bellhop.compiled.program_cache import CachedProgram
from bellhop.compiled.qjit import QJIT
from bellhop.compiled.saved_calls import SavedCalls
from bellhop.compiler.failures import RUN_ERRORS
from bellhop.compiler.optimize import optimize
from bellhop.errors import CircuitError, CompileError
from bellhop.execution.call_args import CallArgs
from bellhop.tracing.options import CompileOptions
from bellhop_mlir.pipelines import OPTIMIZATION


class LoadedFunction(QJIT[Any, Any]):
    """A function of which there are programs only: it cannot be traced.

    It runs as it did before it was saved, and has ``mlir_opt``, ``compiled_function`` and
    ``save``; it cannot be differentiated, batched, or become part of another program.
    """

    def __init__(
        self, path: Any, function: SavedFunction, programs: Sequence[SavedProgram], **options: Any
    ) -> None:
        self._path = path
        where = f"'{function.name}' (loaded from {path})"
        self._calls = SavedCalls(where, function.signature, programs)

        def original_function(*_: object, **__: object) -> NoReturn:
            if is_checking_results() and not jax.config.jax_disable_jit:
                # JAX asks for the operation that such a result came of.
                raise FloatingPointError(
                    f"{self!r} returned a value that is not finite, which jax.debug_nans or "
                    "jax.debug_infs looks for. Call the function that was saved, which says where."
                )
            raise CompileError(
                f"{self!r} was loaded from a file and cannot be traced. Call it as it is."
            )

        original_function.__name__ = original_function.__qualname__ = function.name
        original_function.__doc__ = function.doc
        super().__init__(original_function, CompileOptions(**options))
        signature = function.signature
        if signature is None:
            signature = inspect.Signature(
                [
                    inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                    inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
                ]
            )
        # Not before: what takes no arguments would be compiled.
        original_function.__signature__ = signature  # type: ignore[attr-defined]
        if function.declared is not None:
            self._declared = self._calls.declared_by(function.declared, function.name)
            self._choose_fast_calls()
        # Not the line above, which is what Python knows.
        self._traced.site = f"loaded from {path}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program of these arguments, passed by position or keyword as the function's."""
        if self._declared is None:
            taken, named = self._calls.arrange(args, kwargs)
            return super().__call__(*taken, **named)
        return super().__call__(*args, **kwargs)

    def _split_static(self, args: Args, kwargs: Kwargs) -> CallArgs:
        kwargs = dict(kwargs)
        if self._declared is not None:
            # It would be compiled to make another weak type of what a program takes as it is.
            promoted = (
                None if self._calls.take(args, kwargs) else self._declared.promote(args, kwargs)
            )
            if promoted is not None:
                return CallArgs.from_caller(NO_STATIC, promoted, {})
        return CallArgs.from_caller(NO_STATIC, *self._calls.arrange(args, kwargs))

    def _call_slow_path(
        self, begun: Any, failed: BaseException | None, args: Args, kwargs: Kwargs
    ) -> Any:
        if not trace_state_clean():
            raise NotImplementedError(
                f"{self!r} was loaded from a file: it can be called, and not differentiated, "
                "batched or traced into another program. Save the derivative, or the whole "
                "program, instead."
            )
        try:
            return super()._call_slow_path(begun, failed, args, kwargs)
        except (*RUN_ERRORS, CircuitError) as error:
            self._check_executable(args, kwargs, error)
            raise

    def _check_executable(self, args: Args, kwargs: Kwargs, error: Exception) -> None:
        """Say where a run failed because XLA cannot compile what the file holds."""
        try:
            # One that ran is there.
            self._runner.compile(self._split_static(args, kwargs))
        except (*RUN_ERRORS, CircuitError):
            raise self._unusable_file_error(error) from error

    def _unusable_file_error(self, error: Exception) -> CompileError:
        return CompileError(
            f"{self!r} of {self._path} cannot run here: {error}. Save it anew with this version of "
            "bellhop, and for the devices that are here."
        )

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError(
            f"{self!r} was loaded from a file and is not pickled. Give the file to the other "
            "process, and call bellhop.load there."
        )

    def _make_program(self, static: Static, args: Args, kwargs: Kwargs) -> CachedProgram:
        saved = self._calls.find(args, kwargs)
        module = parse(saved.module)
        try:
            program = optimize(
                module,
                saved.targets,
                self._table,
                out_avals=saved.out_avals,
                out_targets=saved.out_targets,
                concurrent=self.compile_options.concurrent_callbacks,
                after=OPTIMIZATION[-1].name,
            )
        except Exception as error:
            # Whatever a pass stumbles on is in the file.
            raise self._unusable_file_error(error) from error
        return CachedProgram(program, (static, *array_types((args, kwargs))), saved.out_tree)

    def _make_executable(
        self,
        lowered: jax.stages.Lowered,
        args: Args,
        kwargs: Kwargs,
        compiler_options: dict[str, Any] | None,
    ) -> jax.stages.Compiled:
        code = self._calls.find(args, kwargs).machine_code
        if code is None:
            return super()._make_executable(lowered, args, kwargs, compiler_options)
        try:
            return machine_code.executable(code, lowered)
        except Exception as error:
            # Whatever a damaged file may hold.
            raise self._unusable_file_error(error) from error


def load(
    path: str | os.PathLike[str],
    functions: Mapping[str, Any] | None = None,
    *,
    trust: bool = False,
    key: bytes | str | None = None,
) -> LoadedFunction:
    """Return a function that was saved with ``QJIT.save``.

    Nothing is traced: regions are compiled for the devices that they name, and the executable is
    made at the first call of a signature, by XLA or from JAX's persistent cache; or it is in the
    file, where that was saved with ``compiled=True`` and is trusted.

    A damaged or foreign file is an error.  A program that calls Python functions, or takes or
    returns named tuples, runs with the ones that are given here; quantum devices are the installed
    ones; format strings of prints show values and lead nowhere else; and a module has the
    operations that JAX's lowerings emit, and no others.  ``trust=True`` imports whatever the file
    names, lets it call what is registered with XLA by any name, and runs the machine code in it:
    say it for files that you would run as a script.

    ``key`` authenticates a file: it must be signed with the same key, by ``f.save(path, key=key)``,
    and unchanged.  It says whom a file is from, and ``trust`` what it may do; neither implies the
    other.  A file is a program, and XLA, which compiles it, is no security boundary: load files of
    strangers in a process or a container of their own.

    Args:
        path: of the file.
        functions: the Python functions and named tuples that it names, by ``module:qualname``.
        trust: whether to import what is not given.
        key: the key that the file was signed with, bytes or a string; None asks for no signature.

    Returns:
        a function of the signatures that were compiled when it was saved, with the name, the
        docstring and the Python signature of the function: arguments are passed by position or by
        keyword as there, and annotated types are promoted to.

    Raises:
        CompileError: where the file is no saved function, was made with other settings, names
            functions that are not given, or a callback or device that is not there; and where
            ``key`` is given and the file is not signed with it.
        OSError: where the file cannot be read, as FileNotFoundError where there is none.
        TypeError: where ``path`` is no path, ``key`` no key, or ``functions`` holds what cannot
            be called.

    Warns:
        UserWarning: where machine code in a trusted file is not for this machine, and the program
            is compiled anew.

    Example:
        >>> import bellhop, tempfile
        >>> @bellhop.qjit
        ... def f(x: float):
        ...     return 2 * x
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     f.save(file.name)
        ...     g = bellhop.load(file.name)
        >>> g(1.5)
        Array(3., dtype=float64)
    """
    function, programs, options = read_programs(path, functions or {}, trust=trust, key=key)
    with reading(path):
        return LoadedFunction(path, function, programs, **options)
