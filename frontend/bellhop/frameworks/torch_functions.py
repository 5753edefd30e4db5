"""Functions of flat tensors and their derivatives, which are such functions again."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bellhop.frameworks.torch_modes import TorchModes, leave_ambient_modes
from bellhop.frameworks.torch_tensors import import_torch, to_array, to_tensor


class TensorFunction:
    """A function of flat tensors, called by programs with arrays.

    Attributes:
        name: what errors call it.
        mutates: whether it changes its arguments in place.
    """

    def __init__(self, name: str, mutates: bool) -> None:
        self.name = name
        self.mutates = mutates
        self._derivatives: dict[Any, TensorFunction] = {}

    @property
    def __name__(self) -> str:
        return self.name

    def apply(self, *tensors: Any) -> list[Any]:
        """Compute the results, tensors or numbers."""
        raise NotImplementedError

    def vjp(self, active: tuple[bool, ...], results: tuple[bool, ...]) -> "TensorFunction":
        """Return the function of arguments and cotangents that returns cotangents.

        Args:
            active: which arguments it returns cotangents of.
            results: which results it takes cotangents of.
        """
        return self._derivative(_Pullback, active, results)

    def jvp(self, active: tuple[bool, ...], results: tuple[bool, ...]) -> "TensorFunction":
        """Return the function of arguments and tangents that returns tangents.

        Args:
            active: which arguments it takes tangents of.
            results: which results it returns tangents of.
        """
        return self._derivative(_Pushforward, active, results)

    def _derivative(
        self, kind: "type[_DerivativeFunction]", active: tuple[bool, ...], results: tuple[bool, ...]
    ) -> "TensorFunction":
        # Always the same one, so that equal calls of it can be merged.
        key = kind, active, results
        if key not in self._derivatives:
            self._derivatives[key] = kind(self, active, results)
        return self._derivatives[key]

    def __call__(self, *arrays: np.ndarray) -> Any:
        """Call it as a callback is called."""
        with leave_ambient_modes():
            tensors = [to_tensor(array) for array in arrays]
            before = [tensor._version for tensor in tensors]
            results = [to_array(value) for value in self.apply(*tensors)]
            after = [tensor._version for tensor in tensors]
        if not self.mutates and after != before:
            raise RuntimeError(
                f"call_torch: '{self.name}' changed an argument in place, and did not when its "
                "result type was found. Change a copy, x.clone()."
            )
        return results[0] if len(results) == 1 else tuple(results)


class PrimalFunction(TensorFunction):
    """The user's function, called with flattened tensors.

    Args:
        name: the function's name in errors.
        function: takes and returns flattened tensors.
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
    kind: str

    def __init__(
        self, of: TensorFunction, active: tuple[bool, ...], results: tuple[bool, ...]
    ) -> None:
        # What changes its arguments is given copies of them.
        super().__init__(f"{self.kind} of {of.name}", mutates=False)
        self._of = of
        self._active = active
        self._results = results

    def _differentiable(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Run the function; return its active arguments and the results asked for."""
        inputs = []
        for tensor, active in zip(args, self._active, strict=True):
            # One that is part of a graph already stays so, for derivatives of higher order.
            leaf = active and not tensor.requires_grad
            inputs.append(tensor.detach().requires_grad_() if leaf else tensor)
        given = [tensor.clone() for tensor in inputs] if self._of.mutates else inputs
        outputs = self._of.apply(*given)
        return (
            [tensor for tensor, active in zip(inputs, self._active, strict=True) if active],
            [output for output, asked in zip(outputs, self._results, strict=True) if asked],
        )


class _Pullback(_DerivativeFunction):
    """The cotangents of a function's arguments, by automatic differentiation.

    The forward pass is run again: a graph kept between two calls would belong to no program.
    PyTorch's cotangents are the conjugates of JAX's.
    """

    kind = "vjp"

    def apply(self, *tensors: Any) -> list[Any]:
        torch = import_torch()
        args, cotangents = tensors[: len(self._active)], tensors[len(self._active) :]
        is_differentiated = any(tensor.requires_grad for tensor in tensors)
        with torch.enable_grad():
            inputs, outputs = self._differentiable(args)
            gradients = _gradients(
                outputs,
                inputs,
                [cotangent.conj() for cotangent in cotangents],
                create_graph=is_differentiated,
            )
            return [gradient.conj() for gradient in gradients]


class _Pushforward(_DerivativeFunction):
    """The tangents of a function's results.

    The pullback is linear in the cotangents, and its own pullback is the pushforward: every
    function that has a second derivative has this one, whatever it knows of forward mode.
    """

    kind = "jvp"

    def apply(self, *tensors: Any) -> list[Any]:
        torch = import_torch()
        args, tangents = tensors[: len(self._active)], tensors[len(self._active) :]
        is_differentiated = any(tensor.requires_grad for tensor in tensors)
        with torch.enable_grad():
            inputs, outputs = self._differentiable(args)
            cotangents = [torch.zeros_like(output, requires_grad=True) for output in outputs]
            gradients = _gradients(outputs, inputs, cotangents, create_graph=True)
            return _gradients(gradients, cotangents, tangents, create_graph=is_differentiated)


def _gradients(
    outputs: Sequence[Any], inputs: Sequence[Any], cotangents: Sequence[Any], *, create_graph: bool
) -> list[Any]:
    """Return the cotangents of the inputs; zeros where nothing depends on them."""
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
