"""Compilation before a call, as ``jax.jit`` supports it: ``lower``, ``trace`` etc."""

import contextlib
import functools
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax

from bellhop.arguments.accepted_arguments import format_count
from bellhop.arguments.signature import DeclaredSignature
from bellhop.arguments.static_arguments import NO_STATIC, Static, StaticArguments
from bellhop.base.exception_attributes import reveal_exceptions
from bellhop.base.public_function import public_function
from bellhop.base.types import Args, Kwargs
from bellhop.compiled.inspection import Inspectable
from bellhop.compiled.stages import Lowered, PinnedRunner, Traced
from bellhop.compiled.traced_function import TracedFunction
from bellhop.compiler.compile_timing import record_stages
from bellhop.errors import CompileError
from bellhop.execution.call_args import CallArgs
from bellhop.tracing.options import CompileOptions


class AheadOfTime(Inspectable):
    """The methods of ``QJIT`` that trace, lower or compile without running.

    A base class of `QJIT`, which sets the attributes declared here.
    """

    original_function: Callable[..., Any]
    user_function: Callable[..., Any]
    compile_options: CompileOptions
    _traced: TracedFunction
    _static: StaticArguments
    _declared: DeclaredSignature | None
    _duplicate: Callable[[], Any]
    # Whether the last reported program has not been executed yet.
    _is_unseen = False

    @public_function
    def aot_compile(self) -> None:
        """Compile for the argument types that the function's annotations declare.

        With ``qjit(target="mlir")`` or ``"jaxpr"``, the function is traced and optimised, but not
        compiled by XLA.

        Raises:
            CompileError: if the annotations do not declare every argument, or there are static
                arguments.

        Example:
            >>> import bellhop, jax
            >>> @bellhop.qjit(target="mlir")
            ... def total(x: jax.ShapeDtypeStruct((3,), float)):
            ...     return x.sum()
            >>> total.aot_compile()
            >>> "tensor<3xf64>" in total.mlir
            True
        """
        if self._declared is None:
            raise CompileError(
                f"{self!r} cannot be compiled before a call, which needs an annotation of shape "
                "and dtype for every argument, and no static arguments. Annotate each argument "
                "with jax.ShapeDtypeStruct(shape, dtype), or call jit_compile(args)."
            )
        call = CallArgs.from_caller(NO_STATIC, self._declared.args, {})
        with self._report_compilation():
            if self.compile_options.target == "binary":
                self._runner.compile(call)
            else:
                self._runner.trace(call)

    @public_function
    def jit_compile(self, args: Args, *more: Any, **kwargs: Any) -> bool:
        """Compile for arguments without running the program.

        Args:
            args: tuple of positional arguments: arrays, numbers or ``jax.ShapeDtypeStruct``
                objects.
            more: empty; present so that positional arguments outside of a tuple raise an error that
                shows the tuple.
            kwargs: keyword arguments, values or types as in `args`.

        Returns:
            whether calls with these arguments convert them to the types that annotations declare,
            as in Catalyst. Not whether something was compiled.

        Raises:
            TypeError: if the positional arguments are not in one tuple or list.

        Example:
            >>> import bellhop, jax
            >>> f = bellhop.qjit(lambda x: 2 * x)
            >>> f.jit_compile((jax.ShapeDtypeStruct((3,), float),))
            False
            >>> "tensor<3xf64>" in f.mlir
            True
        """
        if more or not isinstance(args, tuple | list):
            raise TypeError(
                f"jit_compile of {self!r}: expected one tuple of arguments, "
                f"got {format_count(1 + len(more), 'value')}, the first of type "
                f"{type(args).__name__}. Call jit_compile((x, y)), or jit_compile((x,)) for one "
                "argument."
            )
        call = self._split_static(args, kwargs)
        with self._report_compilation():
            self._runner.compile(call)
        given, taken = jax.tree.leaves((args, kwargs)), jax.tree.leaves((call.args, call.kwargs))
        return not self._static and any(map(operator.is_not, given, taken))

    @reveal_exceptions
    @public_function
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Lower the function for given arguments, like ``lower`` of ``jax.jit`` functions.

        Args:
            args: positional arguments: arrays, numbers or ``jax.ShapeDtypeStruct`` objects.
            kwargs: keyword arguments, values or types as in `args`.

        Returns:
            the module that XLA compiles, with ``as_text()`` and ``compile()``; the compiled
            function accepts arguments of these types only, without static arguments.

        Example:
            >>> import bellhop
            >>> lowered = bellhop.qjit(lambda x: 2 * x).lower(1.0)
            >>> "stablehlo.multiply" in lowered.as_text()
            True
            >>> lowered.compile()(3.0)
            Array(6., dtype=float64, weak_type=True)
        """
        call = self._split_static(args, kwargs)
        lowered = self._runner.lower(call)
        operands = self._runner.lowered_operand_indices(call)

        def make_pinned(executable: Any, options: dict[str, Any] | None) -> Callable[..., Any]:
            """Return a copy of the qjit function that always runs JAX's `executable`.

            `executable` is JAX's ``Compiled``. The copy takes the dynamic arguments only. `options`
            are the XLA options by name that the user passed to ``Lowered.compile``, or None.
            """
            function = self._duplicate()
            function._runner = PinnedRunner(
                self._runner,
                self._traced.where,
                self._static.dynamic_names(),
                call.static,
                operands,
                executable,
                options,
            )
            function._static = StaticArguments(self.original_function, None, None)
            return function

        options = self._runner.get_lowered_options(call)
        return Lowered(lowered, self._traced.name, make_pinned, options)

    @reveal_exceptions
    @public_function
    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace the function for given arguments, like ``trace`` of ``jax.jit`` functions.

        Args:
            args: positional arguments: arrays, numbers or ``jax.ShapeDtypeStruct`` objects.
            kwargs: keyword arguments, values or types as in `args`.

        Returns:
            the traced program, with ``jaxpr``, ``out_info`` and ``lower()``.

        Example:
            >>> import bellhop
            >>> bellhop.qjit(lambda x: 2 * x).trace(1.0).out_info.shape
            ()
        """
        call = self._split_static(args, kwargs)
        jax_traced = self._runner.trace(call)
        cached = self._programs.find(call)
        assert cached is not None, "it was traced"
        lower = functools.partial(self.lower, *args, **kwargs)

        def lower_as_jit(**options: Any) -> jax.stages.Lowered:
            jit = jax.jit(self._bind_static(call.static))
            return jit.trace(*call.args, **call.kwargs).lower(**options)

        return Traced(jax_traced, self._traced.name, cached.program.jaxpr, lower, lower_as_jit)

    @reveal_exceptions
    @public_function
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the types of the result, without compiling or running the program.

        Args:
            args: positional arguments: arrays, numbers or ``jax.ShapeDtypeStruct`` objects.
            kwargs: keyword arguments, values or types as in `args`.

        Returns:
            the pytree of the result with a ``jax.ShapeDtypeStruct`` for each array.

        Example:
            >>> import bellhop, jax.numpy as jnp
            >>> bellhop.qjit(lambda x: x.sum()).eval_shape(jnp.ones(3))
            ShapeDtypeStruct(shape=(), dtype=float64)
        """
        call = self._split_static(args, kwargs)
        return jax.eval_shape(self._bind_static(call.static), *call.args, **call.kwargs)

    def _bind_static(self, static: Static) -> Callable[..., Any]:
        """Return a function of the dynamic arguments that calls the user's function.

        The user's function is not compiled, so a surrounding trace includes its operations.

        Args:
            static: the static arguments, which the returned function passes too.
        """

        def function(*args: Any, **kwargs: Any) -> Any:
            return self._traced.run_uncompiled(static, args, kwargs)

        function.__name__ = self._traced.name
        return function

    def _split_static(self, args: Args, kwargs: Kwargs) -> CallArgs:
        """Split a call into static and dynamic arguments; promote to declared types.

        If annotations declare the types, arguments are converted to these types, and all are passed
        by position. If JAX's type promotion cannot convert them, they stay as they are.

        Returns:
            the arguments of the call, as `CallArgs`.
        """
        if self._static:
            return CallArgs.from_caller(*self._static.split(args, kwargs))
        if self._declared is not None:
            promoted = self._declared.promote(args, kwargs)
            if promoted is not None:
                return CallArgs.from_caller(NO_STATIC, promoted, {})
        return CallArgs.from_caller(NO_STATIC, args, kwargs)

    @contextlib.contextmanager
    def _report_compilation(self) -> Iterator[None]:
        """Print the times of compilation stages in a ``with`` block, if `verbose` is set.

        The report is printed when the block ends, to the option ``logfile``, by default standard
        error. If nothing was compiled in the block, nothing is printed; else `_is_unseen` is set,
        so that the next execution reports its circuits.
        """
        if not self.compile_options.verbose:
            yield
            return
        with record_stages() as compilation:
            yield
        if compilation.timings:
            lines = f"compiled {self!r}", compilation.to_table(), *compilation.notes
            print(*lines, sep="\n", file=self._log)
            self._is_unseen = True

    @property
    def _log(self) -> Any:
        """Text file for reports: the option ``logfile``, or standard error."""
        return self.compile_options.logfile or sys.stderr
