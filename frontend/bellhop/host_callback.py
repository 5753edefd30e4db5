"""Replacement for the module ``jax.experimental.host_callback`` that JAX removed.

Replace ``from jax.experimental import host_callback as hcb`` by ``from bellhop import host_callback
as hcb``.  Taps and prints work like ``bellhop.tap``: another thread makes the calls, in order.

Two differences from JAX's module: taps run even if their results are not used, and the caller
gets the exception object that a function in ``call`` raised.
"""

import enum
import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bellhop.arguments.declared_types import array_type
from bellhop.base.public_function import public_function
from bellhop.base.source import definition_site, function_name
from bellhop.callbacks.callback_type import CallbackType, ordered_effect
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.errors import CallbackException, ResultTypeError
from bellhop.observers import barrier
from bellhop.observers.tap_type import Tap
from bellhop_runtime import wait_for_taps

__all__ = [
    "CallbackException",
    "CallbackFlavor",
    "TapFunctionException",
    "barrier_wait",
    "call",
    "id_print",
    "id_tap",
    "stop_outfeed_receiver",
]


def __dir__() -> list[str]:
    """Return the public names, without the imports of this module."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


TapFunctionException = CallbackException

_WIDTH = 80
_print_lock = threading.Lock()


class CallbackFlavor(enum.Enum):
    """Option in JAX's module, accepted for compatibility; it has no effect.

    Example:
        >>> from bellhop import host_callback as hcb
        >>> y = hcb.id_print(1.5, callback_flavor=hcb.CallbackFlavor.DEBUG); hcb.barrier_wait()
        1.5
    """

    IO_CALLBACK = 1
    PURE = 2
    DEBUG = 3


def _make_unsupported_rule(label: str, remedy: str) -> Callable[..., Any]:
    """Make a transformation rule that raises an error, for ``host_callback.call``.

    Args:
        label: name of the transformation in the error, such as ``"vmap"``.
        remedy: sentence with the alternatives for the user, which ends the error.

    Returns:
        a method of `CallbackType` with the signature of its rules; always raises
        `NotImplementedError`.
    """

    def rule(callback_type: CallbackType, *args: Any, target: CallbackTarget) -> Any:
        """Raise `NotImplementedError`: the callback does not support the transformation."""
        raise NotImplementedError(
            f"{callback_type.name} of '{target.name}' (called from {target.site}) has no rule for "
            f"{label}. {remedy}"
        )

    return rule


class _HostCall(CallbackType):
    """Callback type of ``host_callback.call``: how JAX traces and transforms it.

    The calls happen in program order. Differentiation and ``vmap`` of a call raise
    `NotImplementedError`.
    """

    effects = frozenset({ordered_effect})
    jvp = transpose = _make_unsupported_rule(
        "differentiation",
        "Use bellhop.pure_callback with a derivative rule, or define the derivative of a function "
        "that makes the call by jax.custom_jvp or jax.custom_vjp.",
    )
    batch = _make_unsupported_rule(
        "vmap", "Use bellhop.pure_callback, or jax.lax.map in place of vmap."
    )


_HOST_CALL = _HostCall("host_callback.call", primitive="host_call")
_ID_TAP = Tap("id_tap")


@public_function
def id_tap(
    tap_func: Callable[..., Any],
    arg: Any,
    *,
    result: Any = None,
    tap_with_device: bool = False,
    device_index: int = 0,
    callback_flavor: CallbackFlavor = CallbackFlavor.IO_CALLBACK,
    **kwargs: Any,
) -> Any:
    """Send ``arg`` to a Python function, and return ``arg``.

    Args:
        tap_func: called as ``tap_func(arg, transforms)`` with NumPy arrays, later and on another
            thread; ``barrier_wait`` waits for it.  ``transforms`` are pairs of a name and
            parameters: ``("batch", {"batch_dims": ...})`` under ``vmap``, with the batch axis of
            each leaf or None, and ``("transpose", {})`` for cotangents of a tapped tangent. Under
            differentiation the function gets primal values.
        arg: a pytree of arrays.
        result: value to return instead of ``arg``; it is not tapped.
        tap_with_device: whether the function also gets ``device=``, the device of the value.
        device_index: must be 0.
        callback_flavor: has no effect.
        kwargs: not supported; raises an error, as in JAX's module.

    Returns:
        ``arg``, or ``result`` unless it is None.

    Raises:
        TypeError: if ``tap_func`` is not callable, or there are other keyword arguments.
        ValueError: if ``device_index`` is not 0.

    Example:
        >>> from bellhop import host_callback as hcb
        >>> seen = []
        >>> y = hcb.id_tap(lambda x, transforms: seen.append(x), 2.0)
        >>> hcb.barrier_wait(); seen
        [array(2.)]
    """
    del callback_flavor
    if kwargs:
        raise TypeError(
            f"id_tap takes no keyword arguments for the function, got {', '.join(kwargs)}. Pass "
            "functools.partial(tap_func, ...) or a closure."
        )
    _check_callable("id_tap", tap_func)
    _check_device_index(device_index)
    leaves, in_tree = jax.tree.flatten(((arg,), {}))
    target = _ID_TAP.target(tap_func, in_tree, transforms=(), takes_device=tap_with_device)
    (tapped,), _ = _ID_TAP.bind(target, leaves)
    return tapped if result is None else result


@public_function
def id_print(
    arg: Any,
    *,
    result: Any = None,
    tap_with_device: bool = False,
    device_index: int = 0,
    output_stream: Any = None,
    threshold: int | None = None,
    callback_flavor: CallbackFlavor = CallbackFlavor.IO_CALLBACK,
    **kwargs: Any,
) -> Any:
    """Print ``kwargs``, sorted by name, and then ``arg``; return ``arg``.

    Args:
        arg: a pytree of arrays.
        result: value to return instead of ``arg``.
        tap_with_device: whether to print the device too.
        device_index: must be 0.
        output_stream: object whose method ``write`` gets the text; None for standard output.
        threshold: size above which arrays are abbreviated, as in ``numpy.array2string``.
        callback_flavor: has no effect.
        kwargs: values to print first, as ``name: value``; ``transforms``, the JAX
            transformations of the call, is added if there are any.

    Returns:
        ``arg``, or ``result`` unless it is None.

    Raises:
        ValueError: if ``device_index`` is not 0.

    Example:
        >>> from bellhop import host_callback as hcb
        >>> y = hcb.id_print((1.0, 2.0), what="pair"); hcb.barrier_wait()
        what: pair
        ( 1. 2. )
    """
    return id_tap(
        functools.partial(
            _print_value, output_stream=output_stream, threshold=threshold, values=kwargs
        ),
        arg,
        result=result,
        tap_with_device=tap_with_device,
        device_index=device_index,
        callback_flavor=callback_flavor,
    )


@public_function
def call(
    callback_func: Callable[..., Any],
    arg: Any,
    *,
    result_shape: Any = None,
    call_with_device: bool = False,
    device_index: int = 0,
    callback_flavor: CallbackFlavor = CallbackFlavor.IO_CALLBACK,
) -> Any:
    """Call a Python function, in order with taps; return its result.

    Args:
        callback_func: called as ``callback_func(arg)`` with NumPy arrays.
        arg: a pytree of arrays.
        result_shape: type of the result: a pytree of numbers, or of objects with ``shape`` and
            ``dtype``; None or ``()`` for functions without a result.
        call_with_device: whether the function also gets ``device=``, the device of the call.
        device_index: must be 0.
        callback_flavor: has no effect.

    Returns:
        the function's result, which must have the declared shapes and dtypes.

    Raises:
        ValueError: if ``result_shape`` has leaves without a dtype, or ``device_index`` is not 0.
        NotImplementedError: when traced, under differentiation and ``vmap``.
        TypeError: if ``callback_func`` is not callable, or a dtype of ``result_shape`` is not
            supported; when called, if the result differs from its declaration.

    Example:
        >>> import jax, numpy as np
        >>> from bellhop import host_callback as hcb
        >>> kind = jax.ShapeDtypeStruct((), np.float64)
        >>> jax.jit(lambda x: hcb.call(np.sin, x, result_shape=kind))(0.0)
        Array(0., dtype=float64)
    """
    del callback_flavor
    _check_callable("call", callback_func)
    _check_device_index(device_index)
    shapes, out_tree = jax.tree.flatten(result_shape)
    leaves, in_tree = jax.tree.flatten(((arg,), {}))
    avals = tuple(_result_aval(callback_func, leaf, result_shape) for leaf in shapes)
    target = _HOST_CALL.target(
        _OrderedFunction(callback_func), in_tree, (avals, out_tree), takes_device=call_with_device
    )
    return _HOST_CALL.bind(target, leaves)


@public_function
def barrier_wait(logging_name: str | None = None) -> None:
    """Wait until all earlier taps have finished; see ``bellhop.barrier_wait``.

    Args:
        logging_name: has no effect.

    Raises:
        CallbackException: if tapped functions raised.

    Example:
        >>> from bellhop import host_callback as hcb
        >>> seen = []
        >>> y = hcb.id_tap(lambda x, transforms: seen.append(float(x)), 2.0)
        >>> hcb.barrier_wait("after the tap"); seen
        [2.0]
    """
    del logging_name
    barrier.barrier_wait()


@public_function
def stop_outfeed_receiver() -> None:
    """Do nothing: Bellhop has no outfeed receiver.

    Example:
        >>> from bellhop import host_callback as hcb
        >>> print(hcb.stop_outfeed_receiver())
        None
    """


@dataclass(frozen=True)
class _OrderedFunction:
    """A user's function whose call first waits until all earlier taps have finished.

    ``host_callback.call`` uses it, so that calls and taps run in program order. Objects with equal
    functions are equal, so two calls of one function share a callback.

    Attributes:
        function: the user's function.
    """

    function: Callable[..., Any]

    @property
    def __name__(self) -> str:
        return function_name(self.function)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.function, follow_wrapped=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A tapped function may itself wait for this program.
        wait_for_taps(is_patient=False)
        return self.function(*args, **kwargs)


def _check_callable(name: str, function: Any) -> None:
    """Raise `TypeError` if the function that a user passed is not callable.

    Args:
        name: the called function of this module, such as ``"id_tap"``, for the error.
        function: the user's value.
    """
    if not callable(function):
        raise TypeError(
            f"host_callback.{name} takes a function first, got {function!r} of type "
            f"{type(function).__name__}."
        )


def _check_device_index(device_index: int) -> None:
    """Raise `ValueError` unless the option ``device_index`` of a user is 0."""
    if device_index != 0:
        raise ValueError(
            f"host_callback: device_index is {device_index}, expected 0 on a CPU. Leave it out."
        )


def _result_aval(
    function: Callable[..., Any], leaf: Any, result_shape: Any
) -> jax.core.ShapedArray:
    """Return the abstract value of one leaf of ``result_shape``, in JAX's precision.

    Without 64-bit types, float64 gives float32.

    Args:
        function: the user's function, for errors.
        leaf: a number, a dtype of a scalar, or an object with ``shape`` and ``dtype``.
        result_shape: the whole declaration, for errors.

    Raises:
        ValueError: if the leaf has no dtype.
        ResultTypeError: if the dtype is not supported.
    """
    where = f"host_callback.call '{function_name(function)}' ({definition_site(function)})"
    try:
        dtype = jax.dtypes.canonicalize_dtype(getattr(leaf, "dtype", None) or np.result_type(leaf))
        return array_type(where, np.shape(leaf), dtype)
    except ResultTypeError:
        raise
    except Exception as error:
        raise ValueError(
            f"{where}: result_shape is {result_shape!r}, expected a pytree of numbers or of "
            "objects with shape and dtype. Pass jax.ShapeDtypeStruct(shape, dtype)."
        ) from error


def _print_value(
    arg: Any,
    transforms: Sequence[tuple[str, dict[str, Any]]],
    *,
    device: Any = None,
    output_stream: Any,
    threshold: int | None,
    values: dict[str, Any],
) -> None:
    """Print named values and a pytree of arrays: the function that ``id_print`` taps.

    Args:
        arg: the printed pytree of NumPy arrays.
        transforms: the JAX transformations under which the tap was called: pairs of a name, such
            as ``"batch"``, and its parameters. They are printed as the value named ``transforms``.
        device: device to print as the value named ``device``, or None.
        output_stream: object with a method ``write``; None for standard output.
        threshold: size above which arrays are abbreviated.
        values: named values to print on the first line, sorted by name.
    """
    values = dict(values)
    if transforms:
        values["transforms"] = [(name, params) if params else name for name, params in transforms]
    if device is not None:
        values["device"] = device
    lines = [" ".join(f"{name}: {value}" for name, value in sorted(values.items()))]
    lines = [line for line in lines if line] + [_format_value(arg, threshold)]
    text = "".join(f"{line}\n" for line in lines)
    with _print_lock:
        # One write, so that other threads cannot print between the lines.
        if output_stream is None:
            print(text, end="")
        else:
            output_stream.write(text)


def _format_value(value: Any, threshold: int | None) -> str:
    """Format a pytree of NumPy arrays like JAX's removed ``host_callback`` module.

    Dictionaries are shown sorted in ``{}``, tuples in ``()`` and lists in ``[]``, their parts
    separated by spaces: ``{"a": np.array(1.0)}`` gives ``{ a=1. }``.

    Args:
        value: the pytree, or a part of it.
        threshold: size above which arrays are abbreviated; None for NumPy's setting.
    """
    if isinstance(value, dict):
        parts = [f"{name}={_format_value(each, threshold)}" for name, each in sorted(value.items())]
        return _join_parts("{", parts, "}")
    if isinstance(value, tuple | list):
        ends = "()" if isinstance(value, tuple) else "[]"
        return _join_parts(ends[0], [_format_value(each, threshold) for each in value], ends[1])
    if isinstance(value, np.ndarray):
        return np.array2string(value, threshold=threshold)
    return str(value)


def _join_parts(begin: str, parts: Sequence[str], end: str) -> str:
    """Join formatted elements between brackets, on one line if it fits in 80 columns.

    Spaces separate them: ``("(", ["1", "2"], ")")`` gives ``( 1 2 )``. If that is too long, each
    element has a line: the first follows ``begin`` and a space, all further lines are indented by
    two spaces, and a space and ``end`` follow the last element.
    """
    line = " ".join([begin, *parts, end])
    return line if len(line) <= _WIDTH else begin + " " + "\n  ".join(parts) + " " + end
