"""host_callback: JAX's former module of that name, for programs written for it.

``from bellhop import host_callback as hcb`` in place of ``from jax.experimental import
host_callback as hcb`` runs them.  Taps and prints are those of ``bellhop.tap``: another thread
makes the calls, in order.  JAX removed the module in favour of the callbacks that ``bellhop``
offers too.

Two things are better than they were: taps run whether or not their results are used, and an
exception in ``call`` reaches the caller as the object that it is.
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

from bellhop.arguments.declared_types import ResultTypeError, array_type
from bellhop.base.source import definition_site, function_name
from bellhop.callbacks.callback_type import CallbackType, ordered_effect
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.errors import CallbackException
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
    """Taken for compatibility, and without effect, as it was by default.

    Example:
        >>> from bellhop import host_callback as hcb
        >>> y = hcb.id_print(1.5, callback_flavor=hcb.CallbackFlavor.DEBUG); hcb.barrier_wait()
        1.5
    """

    IO_CALLBACK = 1
    PURE = 2
    DEBUG = 3


def _refuse(label: str, instead: str) -> Callable[..., Any]:
    def rule(callback_type: CallbackType, *args: Any, target: CallbackTarget) -> Any:
        raise NotImplementedError(
            f"{callback_type.name} of '{target.name}' (called from {target.site}) has no rule for "
            f"{label}; id_tap has. Use bellhop.pure_callback, or {instead}."
        )

    return rule


class _HostCall(CallbackType):
    """Calls in order, which nothing transforms."""

    effects = frozenset({ordered_effect})
    jvp = transpose = _refuse("differentiation", "jax.custom_jvp or custom_vjp")
    batch = _refuse("vmap", "jax.lax.map")


_HOST_CALL = _HostCall("host_callback.call", primitive="host_call")
_ID_TAP = Tap("id_tap")


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
    """Return ``arg``, and leave it to a Python function.

    Args:
        tap_func: called as ``tap_func(arg, transforms)`` with NumPy arrays.  ``transforms`` are
            pairs of a name and parameters: ``("batch", {"batch_dims": ...})`` under ``vmap``,
            with the batched dimension of each leaf or None, and ``("transpose", {})`` for
            cotangents of a tapped tangent.  Under differentiation it sees primal values.
        arg: a pytree of arrays.
        result: what to return instead, if given; it is not tapped.
        tap_with_device: whether the function also gets ``device=``, where the value is from.
        device_index: 0; others never worked on a CPU.
        callback_flavor: without effect.
        kwargs: refused, as they were.

    Returns:
        ``arg``, or ``result`` if given.

    Raises:
        TypeError: where there is no function, or there are other keyword arguments.
        ValueError: where ``device_index`` is not 0.

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
            f"id_tap takes no keyword arguments for the function, got {', '.join(kwargs)}. Give "
            "it functools.partial(tap_func, ...) or a closure."
        )
    _check_callable("id_tap", tap_func)
    _check_device_index(device_index)
    leaves, in_tree = jax.tree.flatten(((arg,), {}))
    target = _ID_TAP.target(tap_func, in_tree, transforms=(), takes_device=tap_with_device)
    (tapped,), _ = _ID_TAP.bind(target, leaves)
    return tapped if result is None else result


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
    """Return ``arg``, and print it: first ``kwargs``, sorted by name, then the value.

    Args:
        arg: a pytree of arrays.
        result: as for ``id_tap``.
        tap_with_device: whether to print the device too.
        device_index: as for ``id_tap``.
        output_stream: what to write to with its method ``write``; None prints.
        threshold: from which size on arrays are abbreviated, as ``numpy.array2string`` takes
            it.
        callback_flavor: without effect.
        kwargs: values to print before, ``name: value``; ``transforms`` is added to them.

    Returns:
        ``arg``, or ``result`` if given.

    Raises:
        ValueError: where ``device_index`` is not 0.

    Example:
        >>> from bellhop import host_callback as hcb
        >>> y = hcb.id_print((1.0, 2.0), what="pair"); hcb.barrier_wait()
        what: pair
        ( 1. 2. )
    """
    return id_tap(
        functools.partial(_show, output_stream=output_stream, threshold=threshold, values=kwargs),
        arg,
        result=result,
        tap_with_device=tap_with_device,
        device_index=device_index,
        callback_flavor=callback_flavor,
    )


def call(
    callback_func: Callable[..., Any],
    arg: Any,
    *,
    result_shape: Any = None,
    call_with_device: bool = False,
    device_index: int = 0,
    callback_flavor: CallbackFlavor = CallbackFlavor.IO_CALLBACK,
) -> Any:
    """Call a Python function and return its result, in order with taps and other calls.

    Args:
        callback_func: called as ``callback_func(arg)`` with NumPy arrays.
        arg: a pytree of arrays.
        result_shape: a pytree of numbers, or of what has ``shape`` and ``dtype``, as the
            function returns it; None or ``()`` for none.
        call_with_device: whether the function also gets ``device=``, where it is called from.
        device_index: 0; others never worked on a CPU.
        callback_flavor: without effect.

    Returns:
        what the function returned, of the declared shapes and dtypes.

    Raises:
        ValueError: where ``result_shape`` says no shapes, or ``device_index`` is not 0.
        NotImplementedError: when traced, under differentiation and ``vmap``.
        TypeError: when called, where the result is not as declared.

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


def barrier_wait(logging_name: str | None = None) -> None:
    """Wait until all taps so far are over; see ``bellhop.barrier_wait``.

    Args:
        logging_name: without effect.

    Raises:
        CallbackException: where tapped functions raised.

    Example:
        >>> from bellhop import host_callback as hcb
        >>> seen = []
        >>> y = hcb.id_tap(lambda x, transforms: seen.append(float(x)), 2.0)
        >>> hcb.barrier_wait("after the tap"); seen
        [2.0]
    """
    del logging_name
    barrier.barrier_wait()


def stop_outfeed_receiver() -> None:
    """Do nothing: there is no such receiver.

    Example:
        >>> from bellhop import host_callback as hcb
        >>> print(hcb.stop_outfeed_receiver())
        None
    """


@dataclass(frozen=True)
class _OrderedFunction:
    """Calls a function after the taps before it; equal functions are equal callbacks."""

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
    if not callable(function):
        raise TypeError(
            f"host_callback.{name} takes a function first, got {function!r} of type "
            f"{type(function).__name__}."
        )


def _check_device_index(device_index: int) -> None:
    if device_index != 0:
        raise ValueError(f"device_index={device_index} does not work on a CPU; leave it out.")


def _result_aval(
    function: Callable[..., Any], leaf: Any, result_shape: Any
) -> jax.core.ShapedArray:
    where = f"host_callback.call '{function_name(function)}' ({definition_site(function)})"
    try:
        dtype = jax.dtypes.canonicalize_dtype(getattr(leaf, "dtype", None) or np.result_type(leaf))
        return array_type(where, np.shape(leaf), dtype)
    except ResultTypeError:
        raise
    except Exception as error:
        raise ValueError(
            "result_shape is a pytree of numbers, or of what has a shape and a dtype; got "
            f"{result_shape!r}."
        ) from error


def _show(
    arg: Any,
    transforms: Sequence[tuple[str, dict[str, Any]]],
    *,
    device: Any = None,
    output_stream: Any,
    threshold: int | None,
    values: dict[str, Any],
) -> None:
    values = dict(values)
    if transforms:
        values["transforms"] = [(name, params) if params else name for name, params in transforms]
    if device is not None:
        values["device"] = device
    lines = [" ".join(f"{name}: {value}" for name, value in sorted(values.items()))]
    lines = [line for line in lines if line] + [_text(arg, threshold)]
    text = "".join(f"{line}\n" for line in lines)
    with _print_lock:
        # One write, which lines of other threads do not break.
        if output_stream is None:
            print(text, end="")
        else:
            output_stream.write(text)


def _text(value: Any, threshold: int | None) -> str:
    if isinstance(value, dict):
        parts = [f"{name}={_text(each, threshold)}" for name, each in sorted(value.items())]
        return _joined("{", parts, "}")
    if isinstance(value, tuple | list):
        ends = "()" if isinstance(value, tuple) else "[]"
        return _joined(ends[0], [_text(each, threshold) for each in value], ends[1])
    if isinstance(value, np.ndarray):
        return np.array2string(value, threshold=threshold)
    return str(value)


def _joined(begin: str, parts: Sequence[str], end: str) -> str:
    line = " ".join([begin, *parts, end])
    return line if len(line) <= _WIDTH else begin + " " + "\n  ".join(parts) + " " + end
