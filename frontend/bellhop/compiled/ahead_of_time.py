"""Compiling before a call, as ``jax.jit``'s functions do: ``lower``, ``trace`` and relatives."""

import contextlib
import functools
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax

from bellhop.arguments.signature import DeclaredSignature
from bellhop.arguments.static_arguments import NO_STATIC, Static, StaticArguments
from bellhop.base.types import Args, Kwargs
from bellhop.compiled.inspection import Inspectable
from bellhop.compiled.stages import Lowered, PinnedRunner, Traced
from bellhop.compiled.traced_function import TracedFunction
from bellhop.compiler.compile_timing import record_stages
from bellhop.errors import CompileError
from bellhop.execution.call_args import CallArgs
from bellhop.tracing.options import CompileOptions


class AheadOfTime(Inspectable):
    """A compiled function, as far as it is compiled without being called."""

    original_function: Callable[..., Any]
    user_function: Callable[..., Any]
    compile_options: CompileOptions
    _traced: TracedFunction
    _static: StaticArguments
    _declared: DeclaredSignature | None
    _duplicate: Callable[[], Any]
    # Whether what was reported last has not run yet.
    _is_unseen = False

    def aot_compile(self) -> None:
        """Compile for the types that the annotations declare, as far as ``target`` says.

        Raises:
            CompileError: where the annotations do not declare every argument.

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
                f"{self!r} cannot be compiled before it is called: that takes an annotation of "
                "shape and dtype for every argument, and no static arguments."
            )
        call = CallArgs.from_caller(NO_STATIC, self._declared.args, {})
        with self._report_compilation():
            if self.compile_options.target == "binary":
                self._runner.compile(call)
            else:
                self._runner.trace(call)

    def jit_compile(self, args: Args, **kwargs: Any) -> bool:
        """Compile for arguments, without running.

        Args:
            args: the arguments with a position, or abstract values of them.
            kwargs: the arguments with a name.

        Returns:
            whether a call promotes these arguments to declared types.

        Example:
            >>> import bellhop, jax
            >>> f = bellhop.qjit(lambda x: 2 * x)
            >>> f.jit_compile((jax.ShapeDtypeStruct((3,), float),))
            False
            >>> "tensor<3xf64>" in f.mlir
            True
        """
        call = self._split_static(args, kwargs)
        with self._report_compilation():
            self._runner.compile(call)
        given, taken = jax.tree.leaves((args, kwargs)), jax.tree.leaves((call.args, call.kwargs))
        return not self._static and any(map(operator.is_not, given, taken))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Return the program for a signature, as ``jax.jit``'s ``lower`` does.

        Args:
            args: the arguments with a position, or abstract values of them.
            kwargs: the arguments with a name.

        Returns:
            the module as XLA gets it, with ``as_text()`` and ``compile()``; what that returns is
            called with arguments of these types.

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

        def pinned(executable: Any, options: dict[str, Any] | None) -> Callable[..., Any]:
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

        options = self._runner.options_of_lowered(call)
        return Lowered(lowered, self._traced.name, pinned, options)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Return the program for a signature, as ``jax.jit``'s ``trace`` does.

        Args:
            args: the arguments with a position, or abstract values of them.
            kwargs: the arguments with a name.

        Returns:
            what was traced, with ``jaxpr``, ``out_info`` and ``lower()``.

        Example:
            >>> import bellhop
            >>> bellhop.qjit(lambda x: 2 * x).trace(1.0).out_info.shape
            ()
        """
        call = self._split_static(args, kwargs)
        of_jax = self._runner.trace(call)
        made = self._programs.find(call)
        assert made is not None, "it was traced"
        lower = functools.partial(self.lower, *args, **kwargs)

        def lower_as_jit(**options: Any) -> jax.stages.Lowered:
            jit = jax.jit(self._bind_static(call.static))
            return jit.trace(*call.args, **call.kwargs).lower(**options)

        return Traced(of_jax, self._traced.name, made.program.jaxpr, lower, lower_as_jit)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return the shapes and dtypes of the result, and run or compile nothing.

        Args:
            args: the arguments with a position, or abstract values of them.
            kwargs: the arguments with a name.

        Example:
            >>> import bellhop, jax.numpy as jnp
            >>> bellhop.qjit(lambda x: x.sum()).eval_shape(jnp.ones(3))
            ShapeDtypeStruct(shape=(), dtype=float64)
        """
        call = self._split_static(args, kwargs)
        return jax.eval_shape(self._bind_static(call.static), *call.args, **call.kwargs)

    def _bind_static(self, static: Static) -> Callable[..., Any]:
        """Return the function of the other arguments, which JAX traces."""

        def function(*args: Any, **kwargs: Any) -> Any:
            return self._traced.run_uncompiled(static, args, kwargs)

        function.__name__ = self._traced.name
        return function

    def _split_static(self, args: Args, kwargs: Kwargs) -> CallArgs:
        """Return a call of static arguments, and of the others as the program takes them."""
        if self._static:
            return CallArgs.from_caller(*self._static.split(args, kwargs))
        if self._declared is not None:
            promoted = self._declared.promote(args, kwargs)
            if promoted is not None:
                return CallArgs.from_caller(NO_STATIC, promoted, {})
        return CallArgs.from_caller(NO_STATIC, args, kwargs)

    @contextlib.contextmanager
    def _report_compilation(self) -> Iterator[None]:
        """Report what is compiled inside, where that is wanted."""
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
        return self.compile_options.logfile or sys.stderr
