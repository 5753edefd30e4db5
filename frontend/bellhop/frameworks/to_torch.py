"""to_torch: a traced function that PyTorch calls, maps and differentiates."""

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop._source import function_name
from bellhop.frameworks.torch_tensors import import_torch, is_only_traced, to_array, to_tensor
from bellhop.qjit import qjit


class _ArrayFunction:
    """A function of arrays, compiled; its derivatives and its mapped one are such again.

    Attributes:
        latest: in ``tree``, the structure of what the last call in this thread returned, by
            whichever of the functions that are this one with other axes mapped.
    """

    def __init__(self, function: Callable[..., Any], name: str, latest: Any = None) -> None:
        self.latest = latest or threading.local()
        self._function = function
        self._name = name
        function.__name__ = name
        self._compiled = qjit(function)
        self._derived: dict[Any, _ArrayFunction] = {}

    def __call__(self, tensors: Sequence[Any]) -> list[Any]:
        if is_only_traced(tensors):
            raise NotImplementedError(
                f"to_torch: '{self._name}' cannot be part of a graph of PyTorch's, which "
                "torch.export, torch.func.linearize, make_fx and the device 'meta' ask for: it is "
                "a program of its own. Call it with data, and use torch.func.jvp for linearize."
            )
        results, self.latest.tree = jax.tree.flatten(self._compiled(*map(to_array, tensors)))
        # Copies: PyTorch may write into what it gets, and JAX's arrays do not change.
        return [to_tensor(np.array(result)) for result in results]

    def pullback(self, active: tuple[bool, ...]) -> "_ArrayFunction":
        """Return the function of arguments and cotangents that returns active cotangents."""

        def pull(*leaves: Any) -> list[Any]:
            args, cotangents = leaves[: len(active)], leaves[len(active) :]
            _, transpose = jax.vjp(*self._at(args, active))
            # PyTorch's cotangents are the conjugates of JAX's.
            return list(map(jnp.conj, transpose(list(map(jnp.conj, cotangents)))))

        return self._derive("vjp", active, pull)

    def pushforward(self, active: tuple[bool, ...]) -> "_ArrayFunction":
        """Return the function of arguments and active tangents that returns tangents."""

        def push(*leaves: Any) -> list[Any]:
            args, tangents = leaves[: len(active)], leaves[len(active) :]
            function, *primals = self._at(args, active)
            return jax.jvp(function, primals, list(tangents))[1]

        return self._derive("jvp", active, push)

    def mapped(self, axes: tuple[int | None, ...], size: int) -> "_ArrayFunction":
        """Return the function of arguments with mapped axes; its results have theirs first."""
        each = jax.vmap(self._function, in_axes=axes, axis_size=size)
        return self._derive("vmap", (axes, size), lambda *leaves: each(*leaves), self.latest)

    def _at(self, args: Sequence[Any], active: tuple[bool, ...]) -> tuple[Any, ...]:
        """Return the function of active arguments that returns inexact results, and these."""

        def of_active(*moving: Any) -> list[Any]:
            found = iter(moving)
            both = [next(found) if yes else arg for arg, yes in zip(args, active, strict=True)]
            return [out for out in jax.tree.leaves(self._function(*both)) if _is_inexact(out)]

        return of_active, *(arg for arg, yes in zip(args, active, strict=True) if yes)

    def _derive(
        self, kind: str, key: Any, function: Callable[..., Any], latest: Any = None
    ) -> "_ArrayFunction":
        # Always the same one, which is compiled once.
        if (kind, key) not in self._derived:
            self._derived[kind, key] = _ArrayFunction(function, f"{kind}_{self._name}", latest)
        return self._derived[kind, key]


def _is_inexact(array: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(array), jnp.inexact)


@functools.cache
def _graph_node() -> Any:
    function_type: Any = import_torch().autograd.Function

    class Node(function_type):
        """A call of an ``_ArrayFunction`` in PyTorch's graph; its derivatives are such again."""

        @staticmethod
        def forward(function: _ArrayFunction, *tensors: Any) -> tuple[Any, ...]:
            return tuple(function(tensors))

        @staticmethod
        def setup_context(context: Any, inputs: Any, outputs: Any) -> None:
            context.function, *tensors = inputs
            context.save_for_backward(*tensors)
            context.save_for_forward(*tensors)
            context.is_inexact = tuple(map(_is_differentiable, outputs))

        @staticmethod
        def backward(context: Any, *cotangents: Any) -> tuple[Any, ...]:
            active = context.needs_input_grad[1:]
            inexact = [ct for ct in cotangents if _is_differentiable(ct)]
            pullback = context.function.pullback(active)
            found = iter(Node.apply(pullback, *context.saved_tensors, *inexact))
            return None, *(next(found) if yes else None for yes in active)

        @staticmethod
        def jvp(context: Any, *tangents: Any) -> tuple[Any, ...]:
            active = tuple(tangent is not None for tangent in tangents[1:])
            moving = [tangent for tangent in tangents if tangent is not None]
            pushforward = context.function.pushforward(active)
            found = iter(Node.apply(pushforward, *context.saved_tensors, *moving))
            return tuple(next(found) if yes else None for yes in context.is_inexact)

        @staticmethod
        def vmap(
            info: Any, axes: Any, function: _ArrayFunction, *tensors: Any
        ) -> tuple[tuple[Any, ...], tuple[int, ...]]:
            mapped = function.mapped(tuple(axes[1:]), info.batch_size)
            results = Node.apply(mapped, *tensors)
            return results, (0,) * len(results)

    # PyTorch looks it up at every call, and would work it out anew: a third of a call's time.
    Node.forward.__signature__ = inspect.signature(Node.forward)  # type: ignore[attr-defined]
    return Node


def _is_differentiable(tensor: Any) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def to_torch(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of JAX's, a QNode or a qjit function callable from PyTorch.

    It is compiled by ``qjit``.  PyTorch differentiates it to any order in reverse and in forward
    mode, by JAX's derivatives, so it can be a part of a ``torch.nn.Module`` that PyTorch trains.
    ``torch.func`` transforms it.  ``torch.compile`` breaks its graph there.

    Args:
        fn: the function, of pytrees of arrays.

    Returns:
        a function of pytrees of tensors on the CPU, and of numbers, that returns tensors.

    Raises:
        ImportError: without PyTorch, which is the extra ``torch``.
        TypeError: where ``fn`` is no function.
        NotImplementedError: when called with tensors that have no data, as ``torch.export`` does.

    Example:
        >>> import bellhop, jax.numpy as jnp, torch
        >>> f = bellhop.to_torch(lambda x: jnp.sum(jnp.sin(x)))
        >>> x = torch.zeros(2, dtype=torch.float64, requires_grad=True)
        >>> f(x).backward()
        >>> x.grad
        tensor([1., 1.], dtype=torch.float64)
    """
    torch = import_torch()
    if not callable(fn):
        raise TypeError(f"to_torch takes a function, got {fn!r} of type {type(fn).__name__}.")
    by_structure: dict[Any, _ArrayFunction] = {}

    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = jax.tree.flatten((args, kwargs))
        if in_tree not in by_structure:

            def flat(*leaves: Any) -> Any:
                args, kwargs = jax.tree.unflatten(in_tree, leaves)
                return fn(*args, **kwargs)

            by_structure[in_tree] = _ArrayFunction(flat, function_name(fn))
        # Numbers are as wide as JAX takes them.
        tensors = [
            leaf if isinstance(leaf, torch.Tensor) else to_tensor(np.array(leaf)) for leaf in leaves
        ]
        function = by_structure[in_tree]
        results = _graph_node().apply(function, *tensors)
        return jax.tree.unflatten(function.latest.tree, results)

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            # Not before: it imports PyTorch's compiler.
            return torch.compiler.disable(run, reason="to_torch runs its own program")(
                *args, **kwargs
            )
        return run(*args, **kwargs)

    return call
