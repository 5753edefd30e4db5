"""accelerate: run a jax.jit-compatible function on a device of choice."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax

from bellhop._jax_compat import trace_state_clean
from bellhop._source import definition_site, function_name
from bellhop.errors import CompileError

# What JAX raises where Python needs the value of a tracer.
_NOT_TRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.UnexpectedTracerError,
)


class Accelerated:
    """A function whose calls are regions on a device; see ``accelerate``."""

    def __init__(self, function: Callable[..., Any], dev: Any) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._dev = dev
        self._regions: dict[jax.Device, Callable[..., Any]] = {}
        resolve_device(dev)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function on its device."""
        device = resolve_device(self._dev)
        region = self._regions.get(device)
        if region is None:
            region = self._regions[device] = _region(self._function, device)
        if trace_state_clean():
            args, kwargs = jax.device_put((args, kwargs), device)
        try:
            return region(*args, **kwargs)
        except TypeError as error:
            if "is not a valid JAX type" not in str(error):
                raise
            raise _not_jittable(self._function, error) from error

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _region(function: Callable[..., Any], device: jax.Device) -> Callable[..., Any]:
    """Return ``function`` as a ``jax.jit`` whose name says that it is a region, and where.

    JAX keeps the rules of ``jit`` complete and the name through all of them, so the pass
    outline-regions finds every piece that differentiation and batching make of it.
    """

    def region(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except _NOT_TRACEABLE as error:
            raise _not_jittable(function, error) from error

    stem = "".join(c if c.isalnum() else "_" for c in function_name(function))
    region.__name__ = region.__qualname__ = f"accelerate_{device.platform}_{device.id}__{stem}"
    return jax.jit(region)


def _not_jittable(function: Callable[..., Any], error: Exception) -> CompileError:
    cause = str(error).splitlines()[0]
    return CompileError(
        f"accelerate: '{function_name(function)}' ({definition_site(function)}) cannot be traced "
        f"by jax.jit: {cause} Write it with jax.numpy, or call it as it is with pure_callback."
    )


def resolve_device(dev: Any) -> jax.Device:
    """Return the device that a user's ``dev`` means now.

    Raises:
        ValueError: naming the devices that there are.
        TypeError: where ``dev`` is no device at all.
    """
    if dev is None:
        default = jax.config.jax_default_device
        if default is None:
            return jax.local_devices()[0]
        dev = default
    if isinstance(dev, jax.Device):
        return dev
    if not isinstance(dev, str):
        raise TypeError(
            f"accelerate takes dev=None, a jax.Device or the name of a platform, got {dev!r}."
        )
    platform, _, number = dev.partition(":")
    try:
        # JAX takes the empty name for its default.
        devices = {device.id: device for device in jax.devices(platform or "''")}
        return devices[int(number)] if number else devices[min(devices)]
    except (RuntimeError, KeyError, ValueError) as error:
        there_are = ", ".join(f"{device.platform}:{device.id}" for device in jax.devices())
        raise ValueError(
            f"accelerate: there is no device '{dev}'; there are {there_are}."
        ) from error


def accelerate(fn: Callable[..., Any] | None = None, *, dev: Any = None) -> Any:
    """Run a ``jax.jit``-compatible function on a chosen device.

    Shapes are inferred by abstract evaluation and derivatives are JAX's own: no rules are
    needed.  On the program's own device the function becomes part of the program; on another
    it is compiled when the program is, and called at run time.  It nests and composes as
    ``jax.jit`` does.  In a plain ``jax.jit`` it runs where that program runs.

    Args:
        fn: the function of pytrees of arrays.
        dev: a ``jax.Device``, ``"platform"`` or ``"platform:id"``; None is JAX's default
            device when the program is compiled.

    Returns:
        a function with the signature of ``fn``; without ``fn``, a decorator.

    Raises:
        CompileError: when traced, if ``fn`` cannot be traced by JAX; names it.
        ValueError: if there is no such device; names those there are.

    Example:
        >>> import bellhop, jax, jax.numpy as jnp
        >>> @bellhop.qjit
        ... @bellhop.grad
        ... def f(x):
        ...     return jnp.sum(bellhop.accelerate(jax.scipy.linalg.expm)(jnp.sin(x)) ** 2)
        >>> f(jnp.array([[0.1, 0.2], [0.3, 0.4]]))
        Array([[2.80120452, 1.67518663],
               [1.61605839, 4.42856163]], dtype=float64)

    The interface is that of Catalyst's ``accelerate``.
    """
    if fn is None:
        return functools.partial(accelerate, dev=dev)
    if not callable(fn) or inspect.isclass(fn):
        raise TypeError(
            f"accelerate takes a function, got {fn!r}. To choose a device: accelerate(dev=...)."
        )
    return Accelerated(fn, dev)
