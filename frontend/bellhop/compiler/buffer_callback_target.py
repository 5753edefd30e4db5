"""Runtime side of callbacks that write their results into output buffers."""

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
    """First argument of a buffer callback that runs on the CPU.

    Its ``stage`` is always ``ExecutionStage.EXECUTE``, and its ``stream`` raises RuntimeError. On a
    GPU the callback receives ``jax.experimental.buffer_callback.ExecutionContext`` instead.
    """

    @property
    def stage(self) -> ExecutionStage:
        """Always ``ExecutionStage.EXECUTE``."""
        return ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """Raise RuntimeError: only GPUs have streams."""
        raise RuntimeError(
            "a buffer_callback that runs on the CPU has no stream. Read context.stream on a GPU "
            "only."
        )


_CONTEXT = ExecutionContext()


@dataclass(frozen=True, repr=False)
class BufferCallbackTarget(CallbackTarget):
    """A user's function ``fn(context, out, *args, **kwargs)`` that fills ``out``.

    ``buffer_callback`` makes it. The runtime calls the function with NumPy arrays on the CPU, and
    JAX calls ``write`` with device buffers on a GPU.

    Attributes:
        command_buffer_compatible: whether a GPU may record the call in a command buffer and replay
            it.
        in_place: whether the arrays are the program's own memory, not copies.
    """

    command_buffer_compatible: bool = False
    in_place: bool = False

    writes = True

    # The context and the output buffers.
    n_first = 2

    # Otherwise the dataclass would generate a new hash.
    __hash__ = CallbackTarget.__hash__

    def _as_leaf_function(self) -> Callable[..., Any]:
        """Return the user's function as a function of flat arrays, for the runtime.

        The returned function takes the output buffers and then the leaves of the arguments. It
        rebuilds the pytree of the outputs and the pytrees of the arguments, and calls the user's
        function with an `ExecutionContext` and these pytrees.
        """
        one_leaf_out = self.out_tree == jax.tree.structure(0)
        function = self.function if self._takes_leaves and one_leaf_out else self._call_with_leaves
        return functools.partial(function, _CONTEXT)

    def _call_with_leaves(self, context: Any, *leaves: Operand) -> Any:
        """Rebuild output and argument pytrees from leaves and call the user's function.

        Args:
            context: first argument of the user's function.
            *leaves: output buffers, then leaves of the arguments.

        Returns:
            the value that the user's function returned, which callers check to be None.
        """
        results = self.out_tree.num_leaves
        out = jax.tree.unflatten(self.out_tree, leaves[:results])
        args, kwargs = jax.tree.unflatten(self.in_tree, leaves[results:])
        return self.function(context, out, *args, **kwargs)

    def write(self, context: Any, out: Sequence[Any], args: Sequence[Any]) -> None:
        """Call the user's function on a GPU, with JAX arrays in the GPU's memory.

        Args:
            context: JAX's execution context of the call.
            out: output buffers, one for each leaf of the result.
            args: leaves of the arguments.

        Raises:
            TypeError: if the function returns anything but None.
        """
        result = self._call_with_leaves(context, *out, *args)
        if result is not None:
            raise TypeError(
                f"callback '{self.name}' returned a value of type {type(result).__name__}, "
                "expected None. Write the results into the outputs."
            )

    def derivative_error(self) -> DifferentiableCompileError:
        """Return the error for the derivative of a buffer callback, which has no rules."""
        return DifferentiableCompileError(
            f"{self.name_and_site} is differentiated but has no "
            "derivative. Define a derivative by jax.custom_jvp or jax.custom_vjp."
        )

    # A buffer callback has no transpose for the same reason.
    transposition_error = derivative_error


@dataclass(frozen=True, repr=False)
class ZeroedBufferCallbackTarget(BufferCallbackTarget):
    """A buffer callback of an untrusted file, with output buffers that are zeroed.

    A file may use any function that the user passes to ``load`` as a buffer callback. If that
    function writes nothing, the program would return data that another program left in the memory.
    """

    __hash__ = CallbackTarget.__hash__

    def _as_leaf_function(self) -> Callable[..., Any]:
        """Return a function of flat arrays that zeroes the output buffers before the call.

        It takes the output buffers and then the leaves of the arguments, and calls the user's
        function. A buffer that reuses the memory of an argument is not zeroed.
        """
        function = super()._as_leaf_function()
        # An output that reuses an argument's memory holds the argument.
        reused = {result for _, result in self.aliases}
        fresh = [i for i in range(self.out_tree.num_leaves) if i not in reused]

        def call_with_zeros(*leaves: Any) -> Any:
            """Zero the output buffers, and call the function."""
            for i in fresh:
                leaves[i][...] = 0
            return function(*leaves)

        return call_with_zeros
