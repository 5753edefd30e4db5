"""`to_torch`: traced functions that PyTorch calls, maps and differentiates."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bellhop.base.public_function import hide_internal_frames, public_function
from bellhop.base.source import function_name
from bellhop.base.types import Operand
from bellhop.compiled.flat_function import FlatFunction
from bellhop.compiled.qjit import qjit
from bellhop.frameworks.torch_tensors import import_torch, is_traced_tensor, to_array, to_tensor


@functools.cache
def _graph_node() -> Any:
    """Return a subclass of ``torch.autograd.Function`` for compiled functions.

    It is defined at the first call, not at import, since its base class needs PyTorch.
    """
    function_type: Any = import_torch().autograd.Function

    class Node(function_type):
        """Operation in PyTorch's graph that calls a compiled function.

        ``Node.apply(f, *tensors)`` calls ``f``, a ``FlatFunction``: it takes and returns lists of
        arrays. Its derivatives and its batched form are ``FlatFunction`` objects too, which
        ``Node`` calls in turn, so derivatives can be differentiated again. PyTorch calls the
        methods.
        """

        @staticmethod
        def forward(function: FlatFunction, *tensors: Any) -> tuple[Any, ...]:
            """Call the compiled function with CPU tensors; return a tensor for each result.

            Raises:
                NotImplementedError: if the tensors have no data, or PyTorch is tracing.
            """
            if is_traced_tensor(tensors):
                raise NotImplementedError(
                    f"to_torch: '{function.name}' does not support tensors without data, as in "
                    "torch.export, torch.func.linearize, make_fx and the device 'meta'. Call it "
                    "with data, and use torch.func.jvp in place of linearize."
                )
            results = function(list(map(to_array, tensors)))
            # Copies, since PyTorch may write into tensors, and JAX's arrays are immutable.
            return tuple(to_tensor(np.array(result)) for result in results)

        @staticmethod
        def setup_context(context: Any, inputs: Any, outputs: Any) -> None:
            """Save the function and its arguments for the derivatives of a call.

            Args:
                context: PyTorch's object for a call, which `backward` and `jvp` get.
                inputs: the arguments of `forward`: the function, then the tensors.
                outputs: the results of `forward`.
            """
            context.function, *tensors = inputs
            context.save_for_backward(*tensors)
            context.save_for_forward(*tensors)
            context.is_inexact = tuple(map(_is_differentiable, outputs))

        @staticmethod
        def backward(context: Any, *cotangents: Any) -> tuple[Any, ...]:
            """Return the cotangents of the arguments, for PyTorch's reverse mode.

            Takes a cotangent for each result; PyTorch fills in zeros.

            Returns:
                None for the function, then for each argument its cotangent, or None if it is not
                needed.
            """
            active = context.needs_input_grad[1:]
            # PyTorch cotangents are complex conjugates of JAX cotangents.
            inexact = [ct.conj() for ct in cotangents if _is_differentiable(ct)]
            pullback = context.function.pullback(active)
            found = iter(Node.apply(pullback, *context.saved_tensors, *inexact))
            return None, *(next(found).conj() if yes else None for yes in active)

        @staticmethod
        def jvp(context: Any, *tangents: Any) -> tuple[Any, ...]:
            """Return the tangents of the results, for PyTorch's forward mode.

            Takes None for the function, then for each argument its tangent or None.

            Returns:
                for each result its tangent; None for integers and booleans.
            """
            active = tuple(tangent is not None for tangent in tangents[1:])
            active_tangents = [tangent for tangent in tangents if tangent is not None]
            pushforward = context.function.pushforward(active)
            found = iter(Node.apply(pushforward, *context.saved_tensors, *active_tangents))
            return tuple(next(found) if yes else None for yes in context.is_inexact)

        @staticmethod
        def vmap(
            info: Any, axes: Any, function: FlatFunction, *tensors: Any
        ) -> tuple[tuple[Any, ...], tuple[int, ...]]:
            """Call the batched function, for ``torch.func.vmap``.

            Args:
                info: PyTorch's object with the batch size.
                axes: None for the function, then for each tensor its batch axis, or None.
                function: the function that is not batched.
                *tensors: its arguments, with batch axes.

            Returns:
                the results, and their batch axes, which are all 0.
            """
            mapped = function.vmap(tuple(axes[1:]), info.batch_size)
            results = Node.apply(mapped, *tensors)
            return results, (0,) * len(results)

    # PyTorch reads the signature at every call; caching it saves a third of a call's time.
    Node.forward.__signature__ = inspect.signature(Node.forward)  # type: ignore[attr-defined]
    return Node


def _is_differentiable(tensor: Any) -> bool:
    """Return whether a tensor's dtype is floating-point or complex."""
    return tensor.is_floating_point() or tensor.is_complex()


@public_function
def to_torch(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Make a JAX function, QNode or qjit function callable from PyTorch.

    ``qjit`` compiles it. PyTorch differentiates it to any order in reverse and forward mode, by
    JAX's derivatives, so it can be a part of a ``torch.nn.Module``. ``torch.func`` transforms it.
    ``torch.compile`` breaks its graph at the call.

    Args:
        fn: the function, of pytrees of arrays.

    Returns:
        a function of pytrees of tensors on the CPU, and of numbers, that returns tensors.

    Raises:
        ImportError: without PyTorch, which is in the extra ``torch``.
        TypeError: if ``fn`` is not callable.
        NotImplementedError: when called with tensors without data, as in ``torch.export``.

    Example:
        >>> import bellhop, jax.numpy as jnp, torch
        >>> f = bellhop.to_torch(lambda x: jnp.sum(jnp.sin(x)))
        >>> x = torch.zeros(2, dtype=torch.float64, requires_grad=True)
        >>> f(x).backward()
        >>> x.grad
        tensor([1., 1.], dtype=torch.float64)
    """
    torch = import_torch("to_torch")
    if not callable(fn):
        raise TypeError(f"to_torch takes a function, got {fn!r} of type {type(fn).__name__}.")
    by_structure: dict[Any, FlatFunction] = {}

    def run(*args: Any, **kwargs: Any) -> Any:
        """Call `fn` with tensors, by one qjit function for each argument structure.

        Returns:
            the result of `fn`, with tensors as leaves.
        """
        leaves, in_tree = jax.tree.flatten((args, kwargs))
        if in_tree not in by_structure:

            def flat(*leaves: Operand) -> Any:
                """Call `fn` with the leaves of ``(args, kwargs)``."""
                args, kwargs = jax.tree.unflatten(in_tree, leaves)
                return fn(*args, **kwargs)

            by_structure[in_tree] = FlatFunction(flat, function_name(fn), qjit)
        # Python numbers have JAX's default width.
        tensors = [
            leaf if isinstance(leaf, torch.Tensor) else to_tensor(np.array(leaf)) for leaf in leaves
        ]
        function = by_structure[in_tree]
        results = _graph_node().apply(function, *tensors)
        return jax.tree.unflatten(function.latest.tree, results)

    @functools.wraps(fn)
    @hide_internal_frames
    def call(*args: Any, **kwargs: Any) -> Any:
        """Call `run`, outside of the graph of ``torch.compile`` if that is tracing.

        This is the function that `to_torch` returns.
        """
        if torch.compiler.is_compiling():
            # Imported late, since it imports PyTorch's compiler.
            return torch.compiler.disable(run, reason="to_torch runs its own program")(
                *args, **kwargs
            )
        return run(*args, **kwargs)

    return call
