"""to_torch: a traced function that PyTorch calls and differentiates."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop._source import function_name
from bellhop.frameworks.torch_tensors import import_torch, to_array, to_tensor
from bellhop.qjit import qjit


class _ArrayFunction:
    """A function of flat arrays that returns a list of them, compiled."""

    def __init__(self, function: Callable[..., list[Any]], name: str) -> None:
        self._function = function
        self._name = name
        function.__name__ = name
        self._compiled = qjit(function)
        self._pullbacks: dict[tuple[bool, ...], _ArrayFunction] = {}

    def __call__(self, tensors: Sequence[Any]) -> list[Any]:
        results = self._compiled(*map(to_array, tensors))
        # Copies: PyTorch may write into what it gets, and JAX's arrays do not change.
        return [to_tensor(np.array(result)) for result in results]

    def pullback(self, active: tuple[bool, ...]) -> "_ArrayFunction":
        """Return the function of arguments and cotangents that returns active cotangents."""
        if active not in self._pullbacks:

            def pull(*leaves: Any) -> list[Any]:
                args, cotangents = leaves[: len(active)], leaves[len(active) :]
                places = [i for i, yes in enumerate(active) if yes]

                def of_active(*moving: Any) -> list[Any]:
                    all_args = list(args)
                    for place, arg in zip(places, moving, strict=True):
                        all_args[place] = arg
                    return [out for out in self._function(*all_args) if _is_inexact(out)]

                _, transpose = jax.vjp(of_active, *(args[place] for place in places))
                # PyTorch's cotangents are the conjugates of JAX's.
                return list(map(jnp.conj, transpose(list(map(jnp.conj, cotangents)))))

            self._pullbacks[active] = _ArrayFunction(pull, f"vjp_{self._name}")
        return self._pullbacks[active]


def _is_inexact(array: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(array), jnp.inexact)


@functools.cache
def _graph_node() -> Any:
    function_type: Any = import_torch().autograd.Function

    class Node(function_type):
        """A call of an ``_ArrayFunction`` in PyTorch's graph; its pullback is one again."""

        @staticmethod
        def forward(context: Any, function: _ArrayFunction, *tensors: Any) -> tuple[Any, ...]:
            context.function = function
            context.save_for_backward(*tensors)
            return tuple(function(tensors))

        @staticmethod
        def backward(context: Any, *cotangents: Any) -> tuple[Any, ...]:
            tensors = context.saved_tensors
            active = context.needs_input_grad[1:]
            inexact = [ct for ct in cotangents if ct.is_floating_point() or ct.is_complex()]
            found = iter(Node.apply(context.function.pullback(active), *tensors, *inexact))
            return None, *(next(found) if yes else None for yes in active)

    return Node


def to_torch(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of JAX's, a QNode or a qjit function callable from PyTorch.

    It is compiled by ``qjit``.  PyTorch differentiates it to any order in reverse, by JAX's
    derivatives, so it can be a part of a ``torch.nn.Module`` that PyTorch trains.

    Args:
        fn: the function, of pytrees of arrays.

    Returns:
        a function of pytrees of tensors on the CPU, and of numbers, that returns tensors.

    Raises:
        ImportError: without PyTorch, which is the extra ``torch``.
        TypeError: where ``fn`` is no function.

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
    by_structure: dict[Any, tuple[_ArrayFunction, list[Any]]] = {}

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = jax.tree.flatten((args, kwargs))
        if in_tree not in by_structure:
            out_trees: list[Any] = []

            def flat(*leaves: Any) -> list[Any]:
                args, kwargs = jax.tree.unflatten(in_tree, leaves)
                results, out_tree = jax.tree.flatten(fn(*args, **kwargs))
                out_trees[:] = [out_tree]
                return [jnp.asarray(result) for result in results]

            by_structure[in_tree] = _ArrayFunction(flat, function_name(fn)), out_trees
        function, out_trees = by_structure[in_tree]
        # Numbers are as wide as JAX takes them.
        tensors = [
            leaf if isinstance(leaf, torch.Tensor) else to_tensor(np.array(leaf)) for leaf in leaves
        ]
        results = _graph_node().apply(function, *tensors)
        return jax.tree.unflatten(out_trees[0], results)

    return call
