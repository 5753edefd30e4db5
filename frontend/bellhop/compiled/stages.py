"""The stages of a compiled function: traced, lowered, and compiled for one signature."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from bellhop._jax.slow_dispatch import run_compiled
from bellhop.arguments.argument_mismatch import describe_arguments, find_mismatch
from bellhop.arguments.flat_tree import unflatten_call
from bellhop.arguments.signature import check_arrays
from bellhop.arguments.static_arguments import NO_STATIC, Static
from bellhop.base.types import Args, Kwargs
from bellhop.compiler.failures import run_with_failures
from bellhop.execution.call_args import CallArgs
from bellhop.execution.runner import Runner


class _Stage:
    """A stage of JAX's, of which ours is a view: what is not here is JAX's.

    Args:
        of_jax: JAX's own, whose first argument is the table of callbacks.
        function: what the user's is called.
    """

    def __init__(self, of_jax: Any, function: str) -> None:
        self._jax_stage = of_jax
        self._function = function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._jax_stage, name)

    @property
    def args_info(self) -> Any:
        """What JAX says of each argument, those that are not static."""
        return _user_arguments_info(self._jax_stage.args_info)

    @property
    def in_avals(self) -> Any:
        """The types of the arguments."""
        return _user_arguments_info(self._jax_stage.in_avals)

    @property
    def in_tree(self) -> Any:
        """The structure of the arguments."""
        return jax.tree.structure(self.args_info)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._function}>"


def _user_arguments_info(arguments: Any) -> Any:
    """Return what is said of all arguments as the user wrote them, without the table's."""
    (_, *args), kwargs = arguments
    return unflatten_call(args, kwargs)


class Compiled(_Stage):
    """A program for one signature: it runs, and compiles nothing.

    Args:
        of_jax: JAX's ``Compiled``.
        function: what the user's is called.
        run: calls the function by this program.
    """

    def __init__(self, of_jax: Any, function: str, run: Callable[..., Any]) -> None:
        super().__init__(of_jax, function)
        self._run = run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program with arguments of its types, those that are not static."""
        return self._run(*args, **kwargs)


class Lowered(_Stage):
    """A program for one signature, as XLA gets it.

    Args:
        of_jax: JAX's ``Lowered``.
        function: what the user's is called.
        pinned: returns what calls the function by an executable, which was compiled with
            options of its own, or with None.
        compiler_options: XLA's options for the program; None for the defaults.
    """

    def __init__(
        self,
        of_jax: Any,
        function: str,
        pinned: Callable[[Any, Any], Callable[..., Any]],
        compiler_options: dict[str, Any] | None,
    ) -> None:
        super().__init__(of_jax, function)
        self._pinned = pinned
        self._compiler_options = compiler_options

    def compile(self, compiler_options: Mapping[str, Any] | None = None) -> Compiled:
        """Compile the program.

        Args:
            compiler_options: XLA options by name, beside those of ``qjit(compiler_options=...)``,
                as JAX's ``Lowered.compile`` takes them.
        """
        options = None if compiler_options is None else dict(compiler_options)
        every = {**(self._compiler_options or {}), **(options or {})} or None
        executable = run_with_failures(lambda: self._jax_stage.compile(every))
        return Compiled(executable, self._function, self._pinned(executable, options))


class Traced(_Stage):
    """A program for one signature, as it was traced.

    Args:
        of_jax: JAX's ``Traced``.
        function: what the user's is called.
        jaxpr: the traced function.
        lower: returns the next stage.
        lower_as_jit: returns that of a ``jax.jit`` of the function, with JAX's options.

    Attributes:
        jaxpr: the traced function.
    """

    def __init__(
        self,
        of_jax: Any,
        function: str,
        jaxpr: Any,
        lower: Callable[[], Lowered],
        lower_as_jit: Callable[..., jax.stages.Lowered],
    ) -> None:
        super().__init__(of_jax, function)
        self.jaxpr = jaxpr
        self._lower = lower
        self._lower_as_jit = lower_as_jit

    def lower(self, **options: Any) -> Any:
        """Lower the program.

        Args:
            options: those of JAX's, such as ``lowering_platforms``, which ``jax.export`` gives;
                then it is lowered as a ``jax.jit`` of the function is, and is JAX's.
        """
        return self._lower_as_jit(**options) if options else self._lower()


class PinnedRunner(Runner):
    """Runs one executable, whatever the arguments are.

    Args:
        runner: the function's runner.
        where: the function and its line, for errors.
        names: names of the positional parameters that are not static.
        static: the static arguments that the executable is for.
        operands: the numbers of the arguments that it takes; None for all.
        executable: JAX's ``Compiled``.
        compiler_options: the options of ``Lowered.compile``.
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
        self._taken = operands
        self._uncompiled = None
        self._executable = executable
        self._compile_options = compiler_options

    has_fast_calls = False

    def run(self, call: CallArgs, begun: Any = None, failed: BaseException | None = None) -> Any:
        """Run it."""
        return self.run_uncached(call)

    def run_uncached(self, call: CallArgs, device: jax.Device | None = None) -> Any:
        """Run it, or one like it on another CPU device."""
        where = f"a compiled call of {self._where}"
        check_arrays(where, self._names, *call.caller_arguments, are_values=True)
        call = replace(call.flattened, static=self._static)
        self._check(call.args, call.kwargs)
        if device is not None:
            return super().run_uncached(call, device)
        call = self._gather_call(call)
        run = lambda first: run_compiled(self._executable, None, first, *call.args, **call.kwargs)
        return self._run_on_handle(run, self.given_handle, call)

    def _operand_indices(self, call: CallArgs) -> tuple[int, ...] | None:
        return self._taken

    def _check(self, args: Args, kwargs: Kwargs) -> None:
        (_, *others), named = self._executable.args_info
        mismatch = find_mismatch(self._names, (others, named), (args, kwargs))
        if mismatch is not None:
            static = ", and leave out static arguments" if self._static != NO_STATIC else ""
            raise TypeError(
                f"a compiled call of {self._where}: {mismatch}. It was compiled for "
                f"({describe_arguments(self._names, others, named)}): pass such arguments{static}, "
                "or call the function itself, which compiles a program for others."
            )
