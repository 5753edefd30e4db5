"""Two ways to call: make a callable first, as Catalyst does, or call at once, as JAX does."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from bellhop.arguments.declared_types import MISSING
from bellhop.errors import suggest_name

# What JAX calls the first argument, and the second.
_JAX_FUNCTION = "callback"
_JAX_NAME = "result_shape_dtypes"
# Options of callbacks, to find what a misspelled one was meant to be.
_OPTIONS = ("callback_fn", "result_type", "ordered", "partitioned", "sharding", "vmap_method")


@dataclass
class CallSignature:
    """How a function that makes callables was called.

    Attributes:
        function: what is called back, or None.
        result_type: what the callable returns.
        args: of the call.
        kwargs: of the call.
        is_call: whether it is to be called at once.
    """

    function: Any
    result_type: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_call: bool

    def apply(self, function: Callable[..., Any]) -> Any:
        """Return the callable, or what it returns where it is to be called."""
        return function(*self.args, **self.kwargs) if self.is_call else function


def parse_call(
    name: str,
    function: Callable[..., Any] | None,
    result_type: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    sharding: Any,
) -> CallSignature:
    """Tell the two ways apart: arguments, or names that only JAX's has, ask for a call.

    Args:
        name: what the user called.
        function: what is called back, or None.
        result_type: what stands in its place.
        args: what follows.
        kwargs: what has a name.
        sharding: what JAX's interface takes.

    Raises:
        TypeError: where there is no function, or there are arguments without one.
        NotImplementedError: for a sharding over several devices.
    """
    if sharding is not None:
        check_sharding(name, sharding)
    kwargs = dict(kwargs)
    is_call = bool(args or kwargs)
    if _JAX_NAME in kwargs:
        if result_type is not MISSING:
            raise TypeError(f"{name} is given the result type twice. Give it once.")
        result_type = kwargs.pop(_JAX_NAME)
    if function is None:
        function = kwargs.pop(_JAX_FUNCTION, None)
    if function is None and (args or kwargs):
        raise TypeError(
            f"{name} has arguments ({', '.join(kwargs)}) and no function to call."
            f"{''.join(suggest_name(each, _OPTIONS) for each in kwargs)}"
        )
    # A class is called back where the result type has its place already.
    is_type = isinstance(function, type) and (
        result_type is MISSING or (callable(result_type) and not isinstance(result_type, type))
    )
    if function is not None and (is_type or not callable(function)):
        raise TypeError(
            f"{name} takes a function first and its result type second, got {function!r}. To "
            f"give the type to a decorator: @{name}(result_type=...)."
        )
    return CallSignature(function, result_type, args, kwargs, is_call and function is not None)


def check_sharding(name: str, sharding: Any) -> None:
    """Refuse what JAX's ``sharding`` asks for, but for one device: calls are made once.

    Raises:
        TypeError: for what is no sharding.
        NotImplementedError: for one over several devices.
    """
    if not isinstance(sharding, jax.sharding.Sharding):
        raise TypeError(f"{name}: sharding must be a jax.sharding.Sharding, got {sharding!r}.")
    if len(sharding.device_set) > 1:
        raise NotImplementedError(
            f"{name}: a sharding over {len(sharding.device_set)} devices is not supported. A call "
            "is made once, with whole arrays; inside jax.shard_map once for each device."
        )
