"""The stages of a compiled function: traced, lowered, and compiled for one signature."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax

from bellhop._jax.compiled_runs import run_compiled
from bellhop.base.flat import restored_arguments
from bellhop.base.signature import describe
from bellhop.base.static_arguments import Static
from bellhop.base.types import Args, Kwargs
from bellhop.compiler.failures import with_failures
from bellhop.run.given_call import GivenCall
from bellhop.run.runner import Runner


class _Stage:
    """A stage of JAX's, of which ours is a view: what is not here is JAX's.

    Args:
        of_jax: JAX's own, whose first argument is the table of callbacks.
        function: what the user's is called.
    """

    def __init__(self, of_jax: Any, function: str) -> None:
        self._of_jax = of_jax
        self._function = function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._of_jax, name)

    @property
    def args_info(self) -> Any:
        """What JAX says of each argument, those that are not static."""
        return _of_users(self._of_jax.args_info)

    @property
    def in_avals(self) -> Any:
        """The types of the arguments."""
        return _of_users(self._of_jax.in_avals)

    @property
    def in_tree(self) -> Any:
        """The structure of the arguments."""
        return jax.tree.structure(self.args_info)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._function}>"


def _of_users(arguments: Any) -> Any:
    """Return what is said of all arguments as the user wrote them, without the table's."""
    (_, *args), kwargs = arguments
    return restored_arguments(args, kwargs)


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
        pinned: returns what calls the function by an executable.
        compiler_options: XLA's options for the program; None for the defaults.
    """

    def __init__(
        self,
        of_jax: Any,
        function: str,
        pinned: Callable[[Any], Callable[..., Any]],
        compiler_options: dict[str, bool] | None,
    ) -> None:
        super().__init__(of_jax, function)
        self._pinned = pinned
        self._compiler_options = compiler_options

    def compile(self) -> Compiled:
        """Compile the program."""
        executable = with_failures(lambda: self._of_jax.compile(self._compiler_options))
        return Compiled(executable, self._function, self._pinned(executable))


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
        runner: that of the function.
        static: the static arguments that the executable is for.
        operands: the numbers of the arguments that it takes; None for all.
        executable: JAX's ``Compiled``.
    """

    def __init__(
        self, runner: Runner, static: Static, operands: tuple[int, ...] | None, executable: Any
    ) -> None:
        vars(self).update(vars(runner))
        self._static = static
        self._taken = operands
        self._uncompiled = None
        self._executable = executable

    has_fast_calls = False

    def run(self, call: GivenCall, begun: Any = None, failed: BaseException | None = None) -> Any:
        """Run it."""
        return self.run_aside(call)

    def run_aside(self, call: GivenCall, device: jax.Device | None = None) -> Any:
        """Run it, or one like it on another CPU device."""
        call = replace(call.flat, static=self._static)
        self._check(call.args, call.kwargs)
        if device is not None:
            return super().run_aside(call, device)
        call = self._gathered(call)
        run = lambda first: run_compiled(self._executable, None, first, *call.args, **call.kwargs)
        return self._run_with(run, self.given_handle, call)

    def _operands_of(self, call: GivenCall) -> tuple[int, ...] | None:
        return self._taken

    def _check(self, args: Args, kwargs: Kwargs) -> None:
        leaves, tree = jax.tree.flatten((args, kwargs))
        (_, *others), named = self._executable.args_info
        declared, declared_tree = jax.tree.flatten((tuple(others), named))
        if tree != declared_tree or any(
            (jax.typeof(leaf).shape, jax.typeof(leaf).dtype) != (info.shape, info.dtype)
            for leaf, info in zip(leaves, declared, strict=True)
        ):
            raise TypeError(
                f"a program that was compiled for ({describe(declared)}) is called with "
                f"({describe(leaves)}) of structure {tree}. Call the function, which compiles "
                "another, or lower it for these."
            )
