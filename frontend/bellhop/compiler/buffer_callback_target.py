"""The Python side of a callback that writes its results into arrays that it is given."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.experimental.buffer_callback import ExecutionStage

from bellhop.base.types import Operand
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.errors import DifferentiableCompileError


class ExecutionContext:
    """What a buffer callback that runs on the CPU is told of its run.

    On a GPU it gets JAX's ``jax.experimental.buffer_callback.ExecutionContext`` instead.
    """

    @property
    def stage(self) -> ExecutionStage:
        """Always ``ExecutionStage.EXECUTE``."""
        return ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """The stream of the GPU: on the CPU there is none, and this raises RuntimeError."""
        raise RuntimeError(
            "a buffer_callback that runs on the CPU has no stream. Read it on a GPU only."
        )


_CONTEXT = ExecutionContext()


@dataclass(frozen=True, repr=False)
class BufferCallbackTarget(CallbackTarget):
    """A function ``fn(context, out, *args, **kwargs)`` that writes into ``out``.

    Attributes:
        command_buffer_compatible: whether a GPU may record the call once and replay it.
        in_place: whether the arrays are the program's own memory.
    """

    command_buffer_compatible: bool = False
    in_place: bool = False

    writes = True

    # The context, and what it writes into.
    n_first = 2

    # A dataclass would make another one.
    __hash__ = CallbackTarget.__hash__

    def _leaf_function(self) -> Callable[..., Any]:
        one_leaf_out = self.out_tree == jax.tree.structure(0)
        function = self.function if self._takes_leaves and one_leaf_out else self._call_with_leaves
        return functools.partial(function, _CONTEXT)

    def _call_with_leaves(self, context: Any, *leaves: Operand) -> Any:
        results = self.out_tree.num_leaves
        out = jax.tree.unflatten(self.out_tree, leaves[:results])
        args, kwargs = jax.tree.unflatten(self.in_tree, leaves[results:])
        return self.function(context, out, *args, **kwargs)

    def write(self, context: Any, out: Sequence[Any], args: Sequence[Any]) -> None:
        """Call the function with buffers of JAX's, on their device.

        Raises:
            TypeError: naming the function, where it returns something.
        """
        result = self._call_with_leaves(context, *out, *args)
        if result is not None:
            raise TypeError(
                f"callback '{self.name}' returned a value of type {type(result).__name__}. Its "
                "results are what it writes into its outputs, and it must return None."
            )

    def derivative_error(self) -> DifferentiableCompileError:
        """Return the error for a derivative that nobody defined."""
        return DifferentiableCompileError(
            f"{self.name_and_site} is differentiated but has no "
            "derivative. Give it one with jax.custom_jvp or jax.custom_vjp."
        )
