"""Stages of a compiled function for one signature: traced, lowered, compiled."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from bellhop._jax.slow_dispatch import run_compiled
from bellhop.arguments.argument_mismatch import describe_arguments, find_mismatch
from bellhop.arguments.flat_tree import unflatten_call
from bellhop.arguments.signature import check_arrays
from bellhop.arguments.static_arguments import NO_STATIC, Static
from bellhop.base.public_function import public_function
from bellhop.base.types import Args, Kwargs
from bellhop.compiler.failures import run_with_failures
from bellhop.execution.call_args import CallArgs
from bellhop.execution.jit_wrapper import pack_first_input
from bellhop.execution.runner import Runner


class _Stage:
    """Base class of `Traced`, `Lowered` and `Compiled`, which wrap JAX's stages.

    JAX's stage has the callback table as its first argument, which ``args_info``, ``in_avals`` and
    ``in_tree`` here leave out. Its other public attributes are available unchanged.

    Args:
        jax_stage: JAX's ``Traced``, ``Lowered`` or ``Compiled``.
        function: name of the user's function.
    """

    def __init__(self, jax_stage: Any, function: str) -> None:
        self._jax_stage = jax_stage
        self._function = function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._jax_stage, name)

    @property
    def args_info(self) -> Any:
        """Pytree ``(args, kwargs)`` of the dynamic arguments, with JAX's ``ArgInfo`` as leaves."""
        return _user_arguments_info(self._jax_stage.args_info)

    @property
    def in_avals(self) -> Any:
        """Pytree ``(args, kwargs)`` with the types of the dynamic arguments."""
        return _user_arguments_info(self._jax_stage.in_avals)

    @property
    def in_tree(self) -> Any:
        """``PyTreeDef`` of the dynamic arguments ``(args, kwargs)``."""
        return jax.tree.structure(self.args_info)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._function}>"


def _user_arguments_info(arguments: Any) -> Any:
    """Remove the callback table from JAX's description of a stage's arguments.

    Converts ``((table, *args), kwargs)``, where each argument is a ``FlatTree``, to
    ``(args, kwargs)`` with the user's pytrees.
    """
    (_, *args), kwargs = arguments
    return unflatten_call(args, kwargs)


class Compiled(_Stage):
    """A compiled program for one signature, which never recompiles.

    ``f.lower(...).compile()`` returns it.

    Args:
        jax_stage: JAX's ``Compiled``.
        function: name of the user's function.
        run: takes the dynamic arguments, and runs the executable.
    """

    def __init__(self, jax_stage: Any, function: str, run: Callable[..., Any]) -> None:
        super().__init__(jax_stage, function)
        self._run = run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program with dynamic arguments of its types."""
        return self._run(*args, **kwargs)


class Lowered(_Stage):
    """A program for one signature as a module for XLA; ``f.lower(...)`` returns it.

    Args:
        jax_stage: JAX's ``Lowered``.
        function: name of the user's function.
        pinned: takes JAX's ``Compiled``, and the XLA options that the user passed to `compile` or
            None; returns a function of the user's dynamic arguments that runs this executable.
        compiler_options: XLA options by name from ``qjit``; None for defaults.
    """

    def __init__(
        self,
        jax_stage: Any,
        function: str,
        pinned: Callable[[Any, Any], Callable[..., Any]],
        compiler_options: dict[str, Any] | None,
    ) -> None:
        super().__init__(jax_stage, function)
        self._pinned = pinned
        self._compiler_options = compiler_options

    @public_function
    def compile(self, compiler_options: Mapping[str, Any] | None = None) -> Compiled:
        """Compile this lowered program with XLA.

        Args:
            compiler_options: XLA options by name, as in JAX's ``Lowered.compile``; they are added
                to ``qjit(compiler_options=...)`` and take precedence over it. None for no more.

        Returns:
            a callable program for arguments of the lowered types.

        Raises:
            BaseException: of a callback that XLA calls during compilation, else XLA's error.
        """
        options = None if compiler_options is None else dict(compiler_options)
        merged = {**(self._compiler_options or {}), **(options or {})} or None
        executable = run_with_failures(lambda: self._jax_stage.compile(merged))
        return Compiled(executable, self._function, self._pinned(executable, options))


class Traced(_Stage):
    """A traced program for one signature; ``f.trace(...)`` returns it.

    Args:
        jax_stage: JAX's ``Traced``.
        function: name of the user's function.
        jaxpr: closed jaxpr of the user's function.
        lower: function without arguments that returns the program as `Lowered`.
        lower_as_jit: lowers the function as a plain ``jax.jit``; has the parameters of the method
            ``lower`` of `jax_stage`, and returns JAX's ``Lowered``.

    Attributes:
        jaxpr: closed jaxpr of the user's function.
    """

    def __init__(
        self,
        jax_stage: Any,
        function: str,
        jaxpr: Any,
        lower: Callable[[], Lowered],
        lower_as_jit: Callable[..., jax.stages.Lowered],
    ) -> None:
        super().__init__(jax_stage, function)
        self.jaxpr = jaxpr
        self._lower = lower
        self._lower_as_jit = lower_as_jit

    @public_function
    def lower(self, **options: Any) -> Any:
        """Lower this traced program for XLA.

        Args:
            options: options of ``jax.stages.Traced.lower``, such as ``lowering_platforms`` from
                ``jax.export``; with options, the function is lowered as a plain ``jax.jit``.

        Returns:
            Bellhop's `Lowered`; with options, JAX's ``Lowered``.
        """
        return self._lower_as_jit(**options) if options else self._lower()


class PinnedRunner(Runner):
    """Runs one given executable for all calls, for ``f.lower(...).compile()``.

    Args:
        runner: the function's runner, whose attributes are shared.
        where: the function and its line, for errors.
        names: names of the positional parameters that are not static.
        static: values of the static arguments that the executable was compiled for.
        operands: indices of the argument leaves that the executable uses; None for all.
        executable: JAX's ``Compiled``.
        compiler_options: XLA options by name that the user passed to ``Lowered.compile``, or None.
    """

    def __init__(
        self,
        runner: Runner,
        where: str,
        names: Sequence[str],
        static: Static,
        operands: tuple[int, ...] | None,
        executable: Any,
        compiler_options: dict[str, Any] | None,
    ) -> None:
        vars(self).update(vars(runner))
        self._where = where
        self._names = names
        self._static = static
        self._operands_used = operands
        self._uncompiled = None
        self._executable = executable
        self._compile_options = compiler_options

    has_fast_calls = False

    def run(
        self, call: CallArgs, fast_result: Any = None, fast_error: BaseException | None = None
    ) -> Any:
        """Run the executable with the arguments of a call, as `run_uncached` does.

        `fast_result` and `fast_error`, the outcome of a call that C++ began, are always None here.
        """
        return self.run_uncached(call)

    def run_uncached(self, call: CallArgs, device: jax.Device | None = None) -> Any:
        """Run the pinned executable; on another CPU device, compile and run a copy of it.

        `device` is the CPU device of the copy; None for the executable itself.

        Returns:
            the function's result, or `PendingResults`.

        Raises:
            TypeError: if the arguments do not have the executable's types.
        """
        where = f"a compiled call of {self._where}"
        check_arrays(
            where,
            self._names,
            *call.caller_arguments,
            are_values=True,
            describe_types=self._describe_types,
        )
        call = replace(call.flattened, static=self._static)
        self._check(call.args, call.kwargs)
        if device is not None:
            return super().run_uncached(call, device)
        call = self._gather_call(call)
        run = lambda handle: run_compiled(
            self._executable,
            None,
            pack_first_input(handle, call.static),
            *call.args,
            **call.kwargs,
        )
        return self._run_on_handle(run, self.current_handle, call)

    def _operand_indices(self, call: CallArgs) -> tuple[int, ...] | None:
        """Return the indices of the argument leaves that the executable uses; None for all."""
        return self._operands_used

    def _describe_types(self) -> str:
        """Return a sentence with the executable's argument types, for an error."""
        (_, *others), named = self._executable.args_info
        return f"It was compiled for ({describe_arguments(self._names, others, named)})."

    def _check(self, args: Args, kwargs: Kwargs) -> None:
        """Raise an error if arguments do not have the executable's types.

        Raises:
            TypeError: naming the first difference.
        """
        (_, *others), named = self._executable.args_info
        mismatch = find_mismatch(self._names, (others, named), (args, kwargs))
        if mismatch is not None:
            static = ", and leave out static arguments" if self._static != NO_STATIC else ""
            raise TypeError(
                f"a compiled call of {self._where}: {mismatch}. It was compiled for "
                f"({describe_arguments(self._names, others, named)}): pass arguments of these "
                f"types{static}, or call the function itself, which compiles new programs."
            )
