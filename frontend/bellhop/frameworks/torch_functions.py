"""Functions of flat tensors, closed under derivatives."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bellhop.frameworks.torch_modes import TorchModes, disable_ambient_modes
from bellhop.frameworks.torch_tensors import import_torch, to_array, to_tensor


class TensorFunction:
    """A PyTorch function of tensors, not pytrees, which compiled programs call.

    Subclasses are the user's function, and derivatives of any `TensorFunction`. Calling the object
    converts NumPy arrays to tensors and back; `apply` takes and returns tensors.

    Attributes:
        name: name for errors.
        mutates: whether it changes its arguments in place: then its derivatives pass copies to it.
            If false, a call that changes an argument raises `RuntimeError`.
    """

    def __init__(self, name: str, mutates: bool) -> None:
        self.name = name
        self.mutates = mutates
        self._derivatives: dict[Any, TensorFunction] = {}

    @property
    def __name__(self) -> str:
        return self.name

    def apply(self, *tensors: Any) -> list[Any]:
        """Compute the results, a list of tensors or numbers, from tensors."""
        raise NotImplementedError

    def vjp(self, active: tuple[bool, ...], results: tuple[bool, ...]) -> "TensorFunction":
        """Return the function that computes argument cotangents from result cotangents.

        This pullback takes all arguments, then the cotangents of the selected results, and returns
        the cotangents of the active arguments. The same object is returned for the same selection,
        so that equal calls can be merged.

        Args:
            active: for each argument, whether to return its cotangent.
            results: for each result, whether its cotangent is an argument.
        """
        return self._derivative(_Pullback, active, results)

    def jvp(self, active: tuple[bool, ...], results: tuple[bool, ...]) -> "TensorFunction":
        """Return the function that computes result tangents from argument tangents.

        This pushforward takes all arguments, then the tangents of the active arguments, and returns
        the tangents of the selected results. The same object is returned for the same selection, so
        that equal calls can be merged.

        Args:
            active: for each argument, whether its tangent is an argument.
            results: for each result, whether to return its tangent.
        """
        return self._derivative(_Pushforward, active, results)

    def _derivative(
        self, kind: "type[_DerivativeFunction]", active: tuple[bool, ...], results: tuple[bool, ...]
    ) -> "TensorFunction":
        """Return a derivative of the function; equal arguments give the same object.

        Args:
            kind: class of the derivative, `_Pullback` or `_Pushforward`.
            active: for each argument, whether it is differentiated.
            results: for each result, whether it is differentiated.
        """
        # Cached, so that equal calls can be merged.
        key = kind, active, results
        if key not in self._derivatives:
            self._derivatives[key] = kind(self, active, results)
        return self._derivatives[key]

    def __call__(self, *arrays: np.ndarray) -> Any:
        """Call the function with NumPy arrays; return an array, or a tuple of arrays.

        Compiled programs call it. Raises `RuntimeError` if an argument changes and `mutates` is
        false.
        """
        with disable_ambient_modes():
            tensors = [to_tensor(array) for array in arrays]
            before = [tensor._version for tensor in tensors]
            results = [to_array(value) for value in self.apply(*tensors)]
            after = [tensor._version for tensor in tensors]
        if not self.mutates and after != before:
            raise RuntimeError(
                f"call_torch: '{self.name}' changed an argument in place, which was not known when "
                "the program was traced: the result type is declared, or the change depends on "
                "values. Change a copy, x.clone()."
            )
        return results[0] if len(results) == 1 else tuple(results)


class PrimalFunction(TensorFunction):
    """The user's PyTorch function, called with flattened tensors.

    It is made once for each signature and lives as long as the ``TorchFunction``.

    Args:
        name: the function's name in errors.
        function: takes the leaves of the arguments and returns the leaves of the result, tensors.
        modes: PyTorch's modes in which it runs.
        mutates: whether it changes its arguments in place.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., list[Any]],
        modes: TorchModes,
        *,
        mutates: bool = False,
    ) -> None:
        super().__init__(name, mutates)
        self._function = function
        self._modes = modes

    def apply(self, *tensors: Any) -> list[Any]:
        """Call the user's function in the modes in which it was traced."""
        with self._modes.enter():
            return self._function(*tensors)


class _DerivativeFunction(TensorFunction):
    """Base class of the derivatives of a function of flat tensors.

    Args:
        of: the differentiated function.
        active: for each argument, whether it is differentiated.
        results: for each result, whether it is differentiated.

    Attributes:
        kind: ``"vjp"`` or ``"jvp"``, for errors.
    """

    kind: str

    def __init__(
        self, of: TensorFunction, active: tuple[bool, ...], results: tuple[bool, ...]
    ) -> None:
        # A function that mutates its arguments gets copies.
        super().__init__(f"{self.kind} of {of.name}", mutates=False)
        self._base = of
        self._active = active
        self._results = results

    def _run_with_graph(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Run the differentiated function while PyTorch records its graph.

        ``args`` are all its arguments, tensors.

        Returns:
            the differentiated arguments, as tensors of the graph, and the differentiated results.
        """
        inputs = []
        for tensor, active in zip(args, self._active, strict=True):
            # A tensor of an existing graph stays in it, for higher derivatives.
            leaf = active and not tensor.requires_grad
            inputs.append(tensor.detach().requires_grad_() if leaf else tensor)
        given = [tensor.clone() for tensor in inputs] if self._base.mutates else inputs
        outputs = self._base.apply(*given)
        return (
            [tensor for tensor, active in zip(inputs, self._active, strict=True) if active],
            [output for output, asked in zip(outputs, self._results, strict=True) if asked],
        )


class _Pullback(_DerivativeFunction):
    """Vector-Jacobian product: maps result cotangents to argument cotangents.

    The arguments of the differentiated function are arguments too. PyTorch's reverse mode computes
    the product. The forward pass runs again, since a graph cannot be kept between two calls of a
    program. PyTorch's cotangents are complex conjugates of JAX cotangents.
    """

    kind = "vjp"

    def apply(self, *tensors: Any) -> list[Any]:
        """Return the cotangents of the differentiated arguments.

        Args:
            tensors: all arguments, then the cotangents of the differentiated results.

        Returns:
            a tensor for each differentiated argument, in JAX's convention (not conjugated).
        """
        torch = import_torch()
        args, cotangents = tensors[: len(self._active)], tensors[len(self._active) :]
        is_differentiated = any(tensor.requires_grad for tensor in tensors)
        with torch.enable_grad():
            inputs, outputs = self._run_with_graph(args)
            gradients = _gradients(
                outputs,
                inputs,
                [cotangent.conj() for cotangent in cotangents],
                create_graph=is_differentiated,
            )
            return [gradient.conj() for gradient in gradients]


class _Pushforward(_DerivativeFunction):
    """Jacobian-vector product: maps argument tangents to result tangents.

    The arguments of the differentiated function are arguments too. The pullback is linear in the
    cotangents, and the pullback's own pullback is this product. So forward mode works for every
    function with second derivatives, even without forward mode in PyTorch.
    """

    kind = "jvp"

    def apply(self, *tensors: Any) -> list[Any]:
        """Return the tangents of the differentiated results.

        Args:
            *tensors: all arguments, then the tangents of the differentiated arguments.

        Returns:
            a tensor for each differentiated result.
        """
        torch = import_torch()
        args, tangents = tensors[: len(self._active)], tensors[len(self._active) :]
        is_differentiated = any(tensor.requires_grad for tensor in tensors)
        with torch.enable_grad():
            inputs, outputs = self._run_with_graph(args)
            cotangents = [torch.zeros_like(output, requires_grad=True) for output in outputs]
            gradients = _gradients(outputs, inputs, cotangents, create_graph=True)
            return _gradients(gradients, cotangents, tangents, create_graph=is_differentiated)


def _gradients(
    outputs: Sequence[Any], inputs: Sequence[Any], cotangents: Sequence[Any], *, create_graph: bool
) -> list[Any]:
    """Return the cotangents of a graph's inputs, from cotangents of its outputs.

    Args:
        outputs: results of a graph: tensors or numbers.
        inputs: tensors of the graph.
        cotangents: a tensor for each output.
        create_graph: whether PyTorch records a graph of the result, to differentiate it again.

    Returns:
        a tensor for each input; zeros if no output depends on it.
    """
    torch = import_torch()
    pairs = [
        (output, cotangent)
        for output, cotangent in zip(outputs, cotangents, strict=True)
        if isinstance(output, torch.Tensor) and output.requires_grad
    ]
    if not pairs:
        return [torch.zeros_like(tensor) for tensor in inputs]
    reached, given = zip(*pairs, strict=True)
    gradients = torch.autograd.grad(
        reached, inputs, given, create_graph=create_graph, allow_unused=True
    )
    return [
        torch.zeros_like(tensor) if gradient is None else gradient
        for tensor, gradient in zip(inputs, gradients, strict=True)
    ]
