"""Conversion between arrays and PyTorch tensors without copies."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np
from jax.typing import DTypeLike

# ml_dtypes with the same name in PyTorch, converted via integers of the same size.
_BY_BITS = {
    np.dtype(getattr(ml_dtypes, name)): name
    for name in (
        "bfloat16",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    )
}
_BY_NAME = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


@functools.cache
def import_torch(asked_by: str = "call_torch") -> Any:
    """Import and return PyTorch.

    Raises:
        ImportError: if PyTorch is not installed; names ``asked_by``, the function that needs it.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{asked_by} needs PyTorch, which is not installed. Install it with pip install torch."
        ) from error
    return torch


@functools.cache
def _torch_dtypes() -> dict[np.dtype, Any]:
    """Return a dictionary from NumPy's dtypes to the corresponding PyTorch dtypes."""
    torch = import_torch()
    names = {np.dtype(name): name for name in _BY_NAME} | _BY_BITS
    # Older PyTorch versions lack some dtypes.
    return {dtype: getattr(torch, name) for dtype, name in names.items() if hasattr(torch, name)}


@functools.cache
def _numpy_dtypes() -> dict[Any, np.dtype]:
    """Return a dictionary from PyTorch's dtypes to the corresponding NumPy dtypes."""
    return {tensor: array for array, tensor in _torch_dtypes().items()}


def torch_dtype(dtype: DTypeLike) -> Any:
    """Return the PyTorch dtype that corresponds to a dtype of JAX or NumPy.

    Raises:
        TypeError: if PyTorch has no such dtype.
    """
    found = _torch_dtypes().get(np.dtype(dtype))
    if found is None:
        raise TypeError(
            f"PyTorch has no tensors of type {np.dtype(dtype).name}. Cast the array first."
        )
    return found


def numpy_dtype(dtype: DTypeLike) -> np.dtype:
    """Return the NumPy dtype for a PyTorch dtype, such as ``torch.float32``.

    Raises:
        TypeError: if JAX has no such dtype.
    """
    if dtype not in _numpy_dtypes():
        raise TypeError(
            f"JAX has no arrays of type {dtype}. Convert the tensor to another dtype, such as "
            "x.to(torch.float32)."
        )
    return _numpy_dtypes()[dtype]


def to_tensor(array: np.ndarray) -> Any:
    """Return a CPU tensor that shares an array's memory.

    The array may be read-only; the caller must not write into the tensor then. PyTorch must have
    the dtype, as `torch_dtype` checks.
    """
    torch = import_torch()
    dtype = array.dtype
    if dtype in _BY_BITS:
        bits = array.view(np.dtype(f"i{dtype.itemsize}"))
        return _view_tensor(bits).view(getattr(torch, _BY_BITS[dtype]))
    return _view_tensor(array)


def _view_tensor(array: np.ndarray) -> Any:
    """Return a tensor that shares an array's memory.

    The dtype must be built into NumPy: bfloat16 and float8 are not supported.
    """
    torch = import_torch()
    try:
        return torch.from_dlpack(array)
    except (BufferError, RuntimeError):
        # NumPy before 2.1 does not export read-only arrays; PyTorch has no read-only tensors.
        return torch.from_numpy(np.asarray(_WritableArray(array)))


class _WritableArray:
    """View of an array, by NumPy's array interface, that claims to be writable.

    PyTorch has no read-only tensors and warns about read-only arrays. The view keeps the array
    alive.
    """

    def __init__(self, array: np.ndarray) -> None:
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}
        self._array = array


@functools.cache
def _tracing_tools() -> tuple[Any, Any]:
    """Import PyTorch's private tools for tracing.

    Returns:
        the class of tensors without data, and a function without arguments that returns the active
        tracing mode, or None.
    """
    # These have no public names; see below.
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    return FakeTensor, get_proxy_mode


def is_traced_tensor(tensors: Sequence[Any]) -> bool:
    """Return whether PyTorch is tracing a call, so that its tensors have no values.

    True if any of the call's arguments, ``tensors``, has no data, or if PyTorch is tracing a graph.
    """
    fake_type, get_proxy_mode = _tracing_tools()
    have_none = any(tensor.is_meta or isinstance(tensor, fake_type) for tensor in tensors)
    return have_none or get_proxy_mode() is not None


def to_array(value: object) -> Any:
    """Return a NumPy array with a tensor's values; return other values unchanged.

    The array shares the memory of a CPU tensor, unless the tensor is a lazy conjugate or negative;
    a tensor on another device is copied.
    """
    torch = import_torch()
    if not isinstance(value, torch.Tensor):
        return value
    tensor = value.detach().resolve_conj().resolve_neg().cpu()
    dtype = numpy_dtype(tensor.dtype)
    if dtype in _BY_BITS:
        bits = tensor.view(getattr(torch, f"int{8 * dtype.itemsize}"))
        return bits.numpy().view(dtype)
    return tensor.numpy()


def infer_with_fake_tensors(
    function: Callable[..., Any], avals: Sequence[jax.core.ShapedArray], module: Any
) -> tuple[Any, bool]:
    """Run a PyTorch function on tensors without data, to find out its result types.

    Args:
        function: takes the list of tensors, and the module's parameters and buffers by name.
        avals: types of the tensors.
        module: the PyTorch module that the function calls, or None. Its parameters and buffers are
            replaced by tensors without data, so that the call does not change them.

    Returns:
        the function's result, with tensors without data, and whether it changed one of the
        arguments in place.
    """
    torch = import_torch()
    # FakeTensorMode has no public name, but torch.export relies on it. Tensors on the device "meta"
    # would not mix with tensors of the function.
    from torch._subclasses.fake_tensor import FakeTensorMode

    # In inference mode, tensors do not count modifications.
    with (
        torch.inference_mode(False),
        torch.no_grad(),
        FakeTensorMode(allow_non_fake_inputs=True) as mode,
    ):
        # Explicitly on the CPU, since the program's arrays are there.
        tensors = [
            torch.empty(aval.shape, dtype=torch_dtype(aval.dtype), device="cpu") for aval in avals
        ]
        before = [tensor._version for tensor in tensors]
        state = {}
        if module is not None:
            # Copies, since layers with statistics would change the module's buffers.
            named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
            state = {name: mode.from_tensor(tensor) for name, tensor in named.items()}
        result = function(tensors, state)
        changed = [tensor._version for tensor in tensors] != before
    return result, changed
