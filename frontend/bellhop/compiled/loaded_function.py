"""Functions loaded from a file."""

import inspect
import os
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import jax

from bellhop._jax.private import trace_state_clean
from bellhop._jax.slow_dispatch import is_checking_results
from bellhop.archive import machine_code
from bellhop.archive.archive import (
    SavedFunction,
    SavedProgram,
    name_file_errors,
    read_programs,
)
from bellhop.archive.escaping import escape_controls
from bellhop.arguments.signature import array_types
from bellhop.arguments.static_arguments import NO_STATIC, Static
from bellhop.base.ir_display import parse
from bellhop.base.public_function import public_function
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
    """A qjit function from a file: saved programs, which cannot be traced.

    ``bellhop.load`` creates it. It behaves as before saving, and has ``mlir_opt``,
    ``compiled_function`` and ``save``; it cannot be differentiated, batched, or called in another
    program.

    Args:
        path: path of the file, for errors.
        function: name, docstring and signature of the saved function.
        programs: its programs, one for each signature.
        **options: options of ``CompileOptions``.
    """

    def __init__(
        self, path: Any, function: SavedFunction, programs: Sequence[SavedProgram], **options: Any
    ) -> None:
        self._path = path
        where = f"'{function.name}' (loaded from {path})"
        self._calls = SavedCalls(where, function.signature, programs)

        def original_function(*_: object, **__: object) -> NoReturn:
            """Raise an error, since the function that was saved cannot be traced.

            Raises:
                CompileError: if JAX or the user calls it to trace it.
                FloatingPointError: if JAX's debug options found a NaN or infinity in a result, and
                    JAX calls the function to find the operation that made it.
            """
            if is_checking_results() and not jax.config.jax_disable_jit:
                # JAX evaluates the function eagerly to find the operation with the NaN.
                raise FloatingPointError(
                    f"{self!r} returned a value that is not finite (jax.debug_nans, "
                    "jax.debug_infs). Call the function that was saved to find the operation."
                )
            if jax.config.jax_disable_jit:
                raise CompileError(
                    f"{self!r} was loaded from a file and cannot run operation by operation. Call "
                    "it without jax.disable_jit."
                )
            raise CompileError(
                f"{self!r} was loaded from a file, which has no Python code: it cannot be traced, "
                "drawn or run under jax.disable_jit. Call it directly, with jax.disable_jit off."
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
        # Set after super().__init__, which would compile a function without arguments.
        original_function.__signature__ = signature  # type: ignore[attr-defined]
        if function.declared is not None:
            self._declared = self._calls.get_declared_signature(function.declared, function.name)
            self._choose_fast_calls()
        # Override the line above, where Python sees the definition.
        self._traced.site = f"loaded from {path}"
        self._traced.describe_saved_types = self._calls.describe_saved_types

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for arguments in any form that the signature allows.

        Positional and keyword arguments are rearranged as the saved program takes them.
        """
        if self._declared is None:
            arranged, named = self._calls.arrange(args, kwargs)
            return super().__call__(*arranged, **named)
        return super().__call__(*args, **kwargs)

    def _split_static(self, args: Args, kwargs: Kwargs) -> CallArgs:
        """Arrange a call's arguments as a saved program takes them; none are static.

        Arguments that no program accepts unchanged are promoted to the declared types, if there are
        any.

        Raises:
            TypeError: if the function's Python signature does not accept the arguments.
        """
        kwargs = dict(kwargs)
        if self._declared is not None:
            # If a program accepts the arguments, do not promote: a weak type would need another
            # program.
            promoted = (
                None if self._calls.accepts(args, kwargs) else self._declared.promote(args, kwargs)
            )
            if promoted is not None:
                return CallArgs.from_caller(NO_STATIC, promoted, {})
        return CallArgs.from_caller(NO_STATIC, *self._calls.arrange(args, kwargs))

    def _call_slow_path(
        self, fast_result: Any, fast_error: BaseException | None, args: Args, kwargs: Kwargs
    ) -> Any:
        """Call the loaded program through Python code, if C++ could not make the call.

        Arguments and result are as for ``CallInterface._call_slow_path``.

        Raises:
            NotImplementedError: if JAX is tracing, so the call would be transformed.
            CompileError: if XLA cannot compile the program in the file.
        """
        if not trace_state_clean():
            raise NotImplementedError(
                f"{self!r} was loaded from a file: differentiation, vmap and tracing "
                "are not supported. Save the derivative, the mapped function or the calling "
                "function instead, such as qjit(jax.grad(f))."
            )
        try:
            return super()._call_slow_path(fast_result, fast_error, args, kwargs)
        except (*RUN_ERRORS, CircuitError) as error:
            self._check_executable(args, kwargs, error)
            raise

    def _check_executable(self, args: Args, kwargs: Kwargs, error: Exception) -> None:
        """Raise an error that names the file if XLA cannot compile the call's program.

        Does nothing if the program compiles: then the call failed for another reason.

        Raises:
            CompileError: naming the file and quoting `error`, the exception of the call.
        """
        try:
            # A program that ran before is cached.
            self._runner.compile(self._split_static(args, kwargs))
        except (*RUN_ERRORS, CircuitError):
            raise self._unusable_file_error(error) from error

    def _unusable_file_error(self, error: Exception) -> CompileError:
        """Return the error for a saved program that this process cannot compile or load.

        `error` is the exception of the compilation; its message becomes a part of the new message.
        """
        problem = escape_controls(str(error)).rstrip(".")
        return CompileError(
            f"{self!r} of {self._path} cannot run here: {problem}. Save it again with this "
            "version of bellhop, and for the devices of this machine."
        )

    def __reduce__(self) -> NoReturn:
        """Raise an error: a function from a file has no Python code that could be pickled.

        Raises:
            pickle.PicklingError: always.
        """
        raise pickle.PicklingError(
            f"{self!r} was loaded from a file and cannot be pickled. Pass the file to the other "
            "process, and call bellhop.load there."
        )

    def _make_program(self, static: Static, args: Args, kwargs: Kwargs) -> CachedProgram:
        """Convert the saved, optimised module for some argument types to a program.

        Nothing is traced, and the optimising passes are skipped.

        Args:
            static: empty, as a loaded function has no static arguments.
            args: positional arguments, each a flattened pytree (``FlatTree``) of tracers.
            kwargs: keyword arguments, as `args`.

        Raises:
            TypeError: if no saved program has these types.
            CompileError: naming the file, if a pass fails.
        """
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
            # Any exception of a pass is caused by the file.
            raise self._unusable_file_error(error) from error
        return CachedProgram(program, (static, *array_types((args, kwargs))), saved.out_tree)

    def _make_executable(
        self,
        lowered: jax.stages.Lowered,
        args: Args,
        kwargs: Kwargs,
        compiler_options: dict[str, Any] | None,
    ) -> jax.stages.Compiled:
        """Load a program's saved machine code; without it, compile the lowered program.

        Arguments are as for ``QJIT._make_executable``; their types select the saved program.

        Raises:
            CompileError: naming the file, if the machine code cannot be loaded.
        """
        code = self._calls.find(args, kwargs).machine_code
        if code is None:
            return super()._make_executable(lowered, args, kwargs, compiler_options)
        try:
            return machine_code.load_executable(code, lowered)
        except Exception as error:
            # A damaged file may cause any exception.
            raise self._unusable_file_error(error) from error


@public_function
def load(
    path: str | os.PathLike[str],
    functions: Mapping[str, Any] | None = None,
    *,
    trust: bool = False,
    key: bytes | str | None = None,
) -> LoadedFunction:
    """Load a function that was saved with ``QJIT.save``.

    Nothing is traced: regions are compiled for the devices that they name, and the executable is
    compiled at the first call of a signature, by XLA or from JAX's persistent cache; or it is read
    from the file, if it was saved with ``compiled=True`` and is trusted.

    Damaged and foreign files raise errors. A program that calls Python functions, or has named
    tuples as arguments or results, uses the functions and classes in ``functions``; quantum devices
    are the installed Lightning devices, and others whose modules are imported; format strings of
    prints can access only ``shape``, ``dtype`` and other attributes of arrays; and the module may
    contain only operations that JAX's lowerings emit. ``trust=True`` imports the names in the file,
    allows calls of any function registered with XLA, and runs machine code: use it for files that
    you would run as scripts.

    ``key`` authenticates a file: it must be signed with the same key, by ``f.save(path, key=key)``,
    and unchanged. Authentication and ``trust`` are independent. A file is a program, and XLA, which
    compiles it, is not a security boundary: load files from unknown sources in a separate process
    or container.

    Args:
        path: path of the file.
        functions: the Python functions and named tuples that the file names, by
            ``module:qualname``.
        trust: whether to import names that are not in ``functions``.
        key: key with which the file was signed, bytes or a string; None skips the check.

    Returns:
        a function of the signatures that were compiled when it was saved, with the name, docstring
        and Python signature of the saved function; arguments are passed by position or keyword, and
        promoted to annotated types.

    Raises:
        CompileError: if the file is not a saved function, was saved with other settings, names
            functions that are not in ``functions``, or a callback or device that does not exist;
            and if ``key`` does not match its signature.
        OSError: if the file cannot be read, such as FileNotFoundError.
        TypeError: if ``path`` is not a path, ``key`` is not a key, or a value of ``functions`` is
            not callable.

    Warns:
        UserWarning: if machine code in a trusted file does not fit this machine, so that the
            program is compiled instead.

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
    with name_file_errors(path):
        return LoadedFunction(path, function, programs, **options)
