"""`qjit`: compilation of hybrid functions, once for each signature."""

import dataclasses
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

import jax

from bellhop._jax.private import trace_state_clean
from bellhop._jax.slow_dispatch import is_checking_results
from bellhop.archive.archive import save_programs
from bellhop.archive.call_signatures import encode_signature
from bellhop.arguments.signature import array_types, declared_signature, describe_leaves
from bellhop.arguments.static_arguments import Static, StaticArguments
from bellhop.base.pickling import PickledByName
from bellhop.base.public_function import public_function
from bellhop.base.source import warn_user
from bellhop.base.types import Args, Kwargs
from bellhop.compiled.call_fallback import CallInterface
from bellhop.compiled.ir_dump import make_workspace, write_stages
from bellhop.compiled.program_cache import CachedProgram, ProgramCache
from bellhop.compiled.traced_function import TracedFunction
from bellhop.compiler.program import Code
from bellhop.errors import CompileError
from bellhop.execution.call_args import CallArgs
from bellhop.execution.runner import Runner
from bellhop.tracing.options import CompileOptions, OptionsByName, compile_options
from bellhop.transformations.qjit_under_transforms import TransformedJit
from bellhop_runtime import CallbackTable

P = ParamSpec("P")
R = TypeVar("R")


class QJIT(PickledByName, CallInterface, Generic[P, R]):
    """A function that is compiled when it is called with a new signature.

    ``qjit`` creates it. A signature consists of the shapes, dtypes and pytree structure of the
    arguments, and the values of static arguments; new values of dynamic arguments do not recompile.
    A function whose annotations declare the types of all arguments is compiled when it is
    decorated, and arguments are promoted to these types. Under JAX transformations it behaves as a
    ``jax.jit`` function, so it can be differentiated, batched, and called in ``jax.jit`` and in
    other qjit functions.

    It is copied and pickled like a function: a copy is the same object, and another process looks
    it up by name. An object without such a name, such as ``g = qjit(f)``, is rebuilt from ``f``.
    Like any pickle, unpickling may import and call the names in it; files from ``save`` do not.

    The newest program is the program that was compiled last.

    Args:
        function: the function to compile.
        compile_options: options of ``qjit``; None for the defaults.

    Attributes:
        original_function: the function that was decorated.
        user_function: the function that is traced: the original, or its conversion by autograph.
        compile_options: the options that were passed to ``qjit``, as `CompileOptions`.
        jaxpr: closed jaxpr of the newest program.
        mlir: MLIR text of the newest program before the passes, in the callback and quantum
            dialects.
        mlir_module: the same module as an object of the MLIR Python bindings.
        mlir_opt: MLIR text of the newest program after the optimising passes.
        compiled_function: JAX's executable of the newest program; None if there is none.
        out_treedef: ``PyTreeDef`` of the newest program's result.
        workspace: directory with the newest program's stages, if ``keep_intermediate`` is set; else
            None.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: 2 * x)
        >>> f(1.5)
        Array(3., dtype=float64, weak_type=True)
        >>> print(f.jaxpr.jaxpr)
        { lambda ; a:f64[]. let b:f64[] = mul 2.0:f64[] a in (b,) }
        >>> "stablehlo.multiply" in f.mlir_opt
        True
    """

    def __init__(
        self, function: Callable[P, R], compile_options: CompileOptions | None = None
    ) -> None:
        functools.update_wrapper(self, function)
        self.original_function = function
        self.compile_options = options = compile_options or CompileOptions()
        self._traced = TracedFunction(function, options)
        self.user_function = self._traced.converted
        if "pennylane" in sys.modules:
            from bellhop.circuits.front.introspection import register_introspection
            from bellhop.compiled.autograd_interface import AUTOGRAD_TYPES

            register_introspection(QJIT)
            self._autograd_types = AUTOGRAD_TYPES
        self.workspace: Path | None = None
        self._static = static = self._traced.static
        if static:
            self.compile_options = dataclasses.replace(
                options, static_argnums=static.argnums, static_argnames=static.argnames
            )
        self._declared = None
        self._table = CallbackTable(published=False, seed=options.seed)
        self._programs = ProgramCache(self._make_program, self._table)
        self._runner: Runner = Runner(
            self._traced.name,
            self._table,
            self._compile,
            self._run_op_by_op,
            self._traced.explain_rejected_arguments,
            self._make_executable,
            self._traced.jit_options,
            has_static=bool(static),
        )
        self._transformed = TransformedJit(self._traced.make_transformable_jit)
        # Static arguments are unknown before a call; an active trace inlines this function.
        if not self._static and trace_state_clean():
            self._declared = declared_signature(function)
            if self._declared is not None:
                self.aot_compile()
        self._choose_fast_calls()

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Call the function; compile it first if the signature is new."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __copy__(self) -> "QJIT[P, R]":
        return self

    def __deepcopy__(self, memo: object) -> "QJIT[P, R]":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return QJIT, (self.original_function, self.compile_options)

    def __repr__(self) -> str:
        return f"<qjit {getattr(self, '__qualname__', repr(self.original_function))}>"

    @property
    def static_arguments(self) -> StaticArguments:
        """The static arguments; false if there are none."""
        return self._static

    @public_function
    def save(
        self,
        path: str | os.PathLike[str],
        *,
        compiled: bool = False,
        key: bytes | str | None = None,
    ) -> None:
        """Write the programs compiled so far to a file, for ``bellhop.load``.

        The file names the Python functions that the program calls, but does not contain them; pass
        a mapping from these names to the functions to ``load``.

        Args:
            path: path of the file.
            compiled: whether to include XLA's machine code. ``load(path, trust=True)`` uses it in a
                process with the same versions, processor, devices and ``XLA_FLAGS``, and then
                compiles only the regions for other devices.
            key: key for an HMAC-SHA256 signature of the file, which ``load(path, key=key)``
                verifies; bytes, such as ``secrets.token_bytes(32)``, or a string. None for no
                signature.

        Raises:
            CompileError: if nothing is compiled yet, for static arguments, for
                ``compiler_options``, and for callbacks that another process cannot import, which it
                names.
            FileNotFoundError: if the directory does not exist.

        Warns:
            UserWarning: if ``load`` needs ``trust=True`` for the file; it names the reason, an
                operation or a format string.

        Example:
            >>> import bellhop
            >>> f = bellhop.qjit(lambda x: 2 * x)
            >>> f(1.0)
            Array(2., dtype=float64, weak_type=True)
            >>> f.save("double.bellhop")
            >>> bellhop.load("double.bellhop")(4.0)
            Array(8., dtype=float64, weak_type=True)
        """
        self._newest_entry()
        if self._static:
            raise CompileError(
                f"{self!r} has static arguments, which cannot be saved. Make them constants: "
                "qjit(functools.partial(f, n=3))."
            )
        programs = [
            (cached.program, cached.signature[1:], cached.out_tree)
            for cached in self._programs.entries
        ]
        options = self.compile_options
        if options.compiler_options:
            raise CompileError(
                f"{self!r} has compiler_options, which cannot be saved, since XLA options can "
                "write files. Save a function without them: qjit(f.user_function)."
            )
        declared_indices = (
            index
            for index, cached in enumerate(self._programs.entries)
            if self._declared is not None and self._declared.matches(cached.signature[1:])
        )
        save_programs(
            path,
            self._traced.name,
            encode_signature(self.original_function, next(declared_indices, None)),
            programs,
            seed=options.seed,
            concurrent_callbacks=options.concurrent_callbacks,
            key=key,
            executables=[
                self._runner.compile(CallArgs.from_caller(*cached.signature))
                for cached in self._programs.entries
                if compiled
            ],
        )

    @public_function
    def clear_cache(self) -> None:
        """Drop all programs; the next call of each signature compiles again.

        Example:
            >>> import bellhop
            >>> f = bellhop.qjit(lambda x: 2 * x)
            >>> f(1.0)
            Array(2., dtype=float64, weak_type=True)
            >>> f.clear_cache()
            >>> f.compiled_function is None
            True
        """
        self._runner.clear_cache()
        self._programs.entries.clear()
        self._choose_fast_calls()

    def _compile(self, static: Static, args: Args, kwargs: Kwargs) -> tuple[Code, Any]:
        """Compile and cache the program of a new signature, when JAX traces the call.

        Also writes the program's stages to a new ``workspace``, if ``keep_intermediate`` is set.

        Args:
            static: the static arguments.
            args: positional arguments, each a flattened pytree (``FlatTree``) of tracers.
            kwargs: keyword arguments, as `args`.

        Returns:
            the program's executable part, and the ``PyTreeDef`` of the function's result.
        """
        cached = self._programs.compile(static, args, kwargs)
        self._choose_fast_calls()
        level = self.compile_options.intermediate_level
        if level > 0:
            self.workspace = make_workspace(self._traced.name)
            write_stages(self.workspace, level, cached.program)
        return cached.program.code, cached.out_tree

    def _run_op_by_op(self, static: Static, args: Args, kwargs: Kwargs) -> Any:
        """Run the function eagerly, unless that would repeat the effects of its program.

        JAX requests it under ``jax.disable_jit``, and after a run whose result ``jax.debug_nans``
        or ``jax.debug_infs`` rejects, to find the operation. Each argument is a pytree of values.

        Returns:
            the function's result.

        Raises:
            FloatingPointError: if a program with effects has run and its result is rejected.
        """
        if is_checking_results() and not jax.config.jax_disable_jit:
            cached = self._programs.find(CallArgs.from_caller(static, args, kwargs))
            if cached is not None and cached.program.has_effects:
                raise FloatingPointError(
                    f"qjit of {self._traced.where}: a result is NaN or infinite, which the option "
                    "jax_debug_nans or jax_debug_infs rejects. The program is not run again to "
                    "find the operation, since its callbacks have effects. Return intermediate "
                    "values, or look at them with bellhop.debug.print."
                )
        return self._traced.run_op_by_op(static, args, kwargs)

    def _make_executable(
        self,
        lowered: jax.stages.Lowered,
        args: Args,
        kwargs: Kwargs,
        compiler_options: dict[str, Any] | None,
    ) -> jax.stages.Compiled:
        """Compile a lowered program with XLA.

        Args:
            lowered: JAX's ``Lowered`` of the ``jax.jit`` that contains the program.
            args: positional arguments, each a flattened pytree (``FlatTree``); unused here.
                `LoadedFunction` finds saved machine code by their types.
            kwargs: keyword arguments, as `args`.
            compiler_options: XLA options by name; None for XLA's defaults.
        """
        return lowered.compile(compiler_options)

    def _replace_module(self, stage: str, text: str) -> None:
        """Compile the newest program again at its next call, from another module.

        Implements ``bellhop.debug.replace_ir``.

        Args:
            stage: name of the pass after which the module is replaced, or ``"lowered"``.
            text: MLIR text of the new module.

        Raises:
            NotCompiledError: if nothing is compiled yet.
        """
        self._newest_entry()
        self._programs.schedule_replacement(stage, text)
        self._runner.clear_cache()

    def _make_program(self, static: Static, args: Args, kwargs: Kwargs) -> CachedProgram:
        """Trace and optimise the program of a new signature.

        Warns the user if the argument types differ from the types that the annotations declare.
        Each argument is a flattened pytree (``FlatTree``) of tracers. The caller adds the program
        to the cache.

        Raises:
            TypeError: if an argument is not an array, a number or a pytree of these.
        """
        self._traced.explain_rejected_arguments(args, kwargs)
        args, kwargs = types = array_types((args, kwargs))
        if self._declared is not None and not self._declared.matches(types):
            warn_user(
                f"{self._traced.where} declares arguments of the types ({self._declared}), but is "
                f"called with ({describe_leaves(jax.tree.leaves(types))}), so another program is "
                "compiled. Change the annotations or the arguments."
            )
        return self._traced.make_program(static, args, kwargs, self._table)


@overload
def qjit(fn: Callable[P, R], **options: Unpack[OptionsByName]) -> QJIT[P, R]: ...
@overload
def qjit(
    fn: None = None, **options: Unpack[OptionsByName]
) -> Callable[[Callable[P, R]], QJIT[P, R]]: ...
@public_function
def qjit(fn: Any = None, **options: Any) -> Any:
    """Compile a hybrid quantum-classical function.

    The function is compiled when it is called with a new signature. If annotations declare shape
    and dtype of every argument (``float``, ``jax.ShapeDtypeStruct((3,), float)``, pytrees of
    these), it is compiled when it is decorated. The interface is the same as in Catalyst.

    Args:
        fn: the function, which may use JAX operations, QNodes, callbacks and accelerated regions.
            Its arguments and results are pytrees of arrays and numbers.
        options: options of ``CompileOptions``, by name.

    Returns:
        a callable ``QJIT``; without ``fn``, a decorator.

    Raises:
        TypeError: if ``fn`` is not callable, or an option is unknown.
        CompileError: for an option of Catalyst that would change results.

    Warns:
        UserWarning: for an option of Catalyst that changes no results, and if the arguments of a
            call do not match the declared types, so that another program is compiled.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit(static_argnames="n")
        ... def power(x, n):
        ...     return x**n
        >>> power(2.0, n=3)
        Array(8., dtype=float64, weak_type=True)
    """
    known = compile_options(options)

    def decorate(fn: Callable[..., Any]) -> QJIT[Any, Any]:
        if not callable(fn):
            raise TypeError(f"qjit takes a function, got {fn!r} of type {type(fn).__name__}.")
        return QJIT(fn, known)

    return decorate if fn is None else decorate(fn)
