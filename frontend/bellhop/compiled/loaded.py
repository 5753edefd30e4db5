"""Functions that were saved, in the process that runs them."""

import os
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp

from bellhop._jax.compiled_runs import checks_results
from bellhop._jax.private import trace_state_clean
from bellhop.archive import machine_code
from bellhop.archive.archive import SavedProgram, read_programs, reading
from bellhop.base.flat import restored_arguments
from bellhop.base.module_text import parse
from bellhop.base.signature import array_types, describe
from bellhop.base.static_arguments import Static
from bellhop.base.types import Args, Aval, Kwargs
from bellhop.compiled.programs import Made
from bellhop.compiled.qjit import QJIT
from bellhop.compiler.failures import RUN_ERRORS
from bellhop.compiler.optimize import optimize
from bellhop.errors import CircuitError, CompileError
from bellhop.tracing.options import CompileOptions
from bellhop_mlir.pipelines import OPTIMIZATION


class LoadedFunction(QJIT[Any, Any]):
    """A function of which there are programs only: it cannot be traced.

    It runs as it did before it was saved, and has ``mlir_opt``, ``compiled_function`` and
    ``save``; it cannot be differentiated, batched, or become part of another program.
    """

    def __init__(
        self, path: Any, name: str, programs: Sequence[SavedProgram], **options: Any
    ) -> None:
        self._path = path
        self._saved = programs

        def original_function(*_: object, **__: object) -> NoReturn:
            if checks_results() and not jax.config.jax_disable_jit:
                # JAX asks for the operation that such a result came of.
                raise FloatingPointError(
                    f"{self!r} returned a value that is not finite, which jax.debug_nans or "
                    "jax.debug_infs looks for. Call the function that was saved, which says where."
                )
            raise CompileError(
                f"{self!r} was loaded from a file and cannot be traced. Call it as it is."
            )

        original_function.__name__ = original_function.__qualname__ = name
        super().__init__(original_function, CompileOptions(**options))
        # Not the line above, which is what Python knows.
        self._traced.site = f"loaded from {path}"

    def _specially(
        self, begun: Any, failed: BaseException | None, args: Args, kwargs: Kwargs
    ) -> Any:
        if not trace_state_clean():
            raise NotImplementedError(
                f"{self!r} was loaded from a file: it can be called, and not differentiated, "
                "batched or traced into another program. Save the derivative, or the whole "
                "program, instead."
            )
        try:
            return super()._specially(begun, failed, args, kwargs)
        except (*RUN_ERRORS, CircuitError) as error:
            self._check_executable(args, kwargs, error)
            raise

    def _check_executable(self, args: Args, kwargs: Kwargs, error: Exception) -> None:
        """Say where a run failed because XLA cannot compile what the file holds."""
        try:
            # One that ran is there.
            self._runner.compile(self._separate(args, kwargs))
        except (*RUN_ERRORS, CircuitError):
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> CompileError:
        return CompileError(
            f"{self!r} of {self._path} cannot run here: {error}. Save it anew with this version of "
            "bellhop, and for the devices that are here."
        )

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError(
            f"{self!r} was loaded from a file and is not pickled. Give the file to the other "
            "process, and call bellhop.load there."
        )

    def _make(self, static: Static, args: Args, kwargs: Kwargs) -> Made:
        saved = self._find(args, kwargs)
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
            raise self._refusal(error) from error
        return Made(program, (static, *array_types((args, kwargs))), saved.out_tree)

    def _finish(
        self,
        lowered: jax.stages.Lowered,
        args: Args,
        kwargs: Kwargs,
        compiler_options: dict[str, bool] | None,
    ) -> jax.stages.Compiled:
        code = self._find(args, kwargs).machine_code
        if code is None:
            return super()._finish(lowered, args, kwargs, compiler_options)
        try:
            return machine_code.executable(code, lowered)
        except Exception as error:
            # Whatever a damaged file may hold.
            raise self._refusal(error) from error

    def _find(self, args: Any, kwargs: Any) -> SavedProgram:
        leaves, tree = jax.tree.flatten(restored_arguments(args, kwargs))
        for saved in self._saved:
            if saved.in_tree == tree and all(map(_is_like, leaves, saved.in_avals)):
                return saved
        there_are = "; ".join(f"({describe(saved.in_avals)})" for saved in self._saved)
        raise TypeError(
            f"{self!r} was saved with programs for the arguments {there_are}, and is called with "
            f"({describe(leaves)}) of structure {tree}. Call it so before f.save(path), which "
            "writes a program for each signature."
        )


def _is_like(leaf: object, aval: Aval) -> bool:
    return jnp.shape(leaf) == aval.shape and jnp.result_type(leaf) == aval.dtype


def load(
    path: str | os.PathLike[str],
    functions: Mapping[str, Any] | None = None,
    *,
    trust: bool = False,
) -> LoadedFunction:
    """Return a function that was saved with ``QJIT.save``.

    Nothing is traced: regions are compiled for the devices that they name, and the executable is
    made at the first call of a signature, by XLA or from JAX's persistent cache; or it is in the
    file, where that was saved with ``compiled=True`` and is trusted.

    A file is data, and nothing happens because it says so: a program that calls Python functions,
    or takes or returns named tuples, runs with those that are given here, and quantum devices are
    those that are installed.  ``trust=True`` imports whatever the file names, and lets it call
    what is registered with XLA by any name, and run the machine code in it: say it for files that
    you would run as a script.

    Args:
        path: of the file.
        functions: the Python functions and named tuples that it names, by ``module:qualname``.
        trust: whether to import what is not given.

    Returns:
        a function of the signatures that were compiled when it was saved.

    Raises:
        CompileError: where the file is no saved function, was made with other settings, names
            functions that are not given, or a callback or device that is not there.
        OSError: where the file cannot be read, as FileNotFoundError where there is none.
        TypeError: where ``path`` is no path, or ``functions`` holds what cannot be called.

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
    name, programs, options = read_programs(path, functions or {}, trust=trust)
    with reading(path):
        return LoadedFunction(path, name, programs, **options)
