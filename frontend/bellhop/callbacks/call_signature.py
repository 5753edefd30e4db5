"""Call forms of `pure_callback` and `io_callback`.

Catalyst's form makes a callable, ``pure_callback(f, float)(x)``; JAX's form calls it at once,
``pure_callback(f, float, x)``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from bellhop.arguments.declared_types import MISSING
from bellhop.errors import format_value, suggest_name

# JAX's names of the first two arguments.
_JAX_FUNCTION = "callback"
_JAX_NAME = "result_shape_dtypes"
# Options of callbacks, to suggest the correct spelling of a misspelled option.
_OPTIONS = ("callback_fn", "result_type", "ordered", "partitioned", "sharding", "vmap_method")


@dataclass
class CallSignature:
    """Parsed arguments of a call of `pure_callback` or `io_callback`.

    `parse_call` returns it.

    Attributes:
        function: the user's function; None if the call passed no function, so that a decorator
            must be returned.
        result_type: declared result type of the function, or ``MISSING``.
        args: positional arguments for the function; empty unless `is_call`.
        kwargs: keyword arguments for the function; empty unless `is_call`.
        is_call: whether the function is called at once, as in JAX's form.
    """

    function: Any
    result_type: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_call: bool

    def apply(self, function: Callable[..., Any]) -> Any:
        """Call a callback with the parsed arguments if `is_call` is true; else return it.

        Args:
            function: the callback that calls `self.function`, such as a ``PureCallback``.

        Returns:
            the result of ``function(*args, **kwargs)`` with the parsed `args` and `kwargs` if
            `is_call`; else `function` itself.
        """
        return function(*self.args, **self.kwargs) if self.is_call else function


def parse_call(
    name: str,
    function: Callable[..., Any] | None,
    result_type: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    sharding: Any,
) -> CallSignature:
    """Parse a call of `pure_callback` or `io_callback` in Catalyst's or JAX's form.

    Catalyst's form is ``pure_callback(f, float)``, JAX's form is ``pure_callback(f, float, x)``. If
    there are a function and arguments for it, or JAX's keyword names, it is JAX's form.

    Args:
        name: name of the public function, for errors.
        function: first argument of the call, or None.
        result_type: second argument of the call, or ``MISSING``.
        args: further positional arguments, for the function.
        kwargs: further keyword arguments; may have JAX's names ``callback`` and
            ``result_shape_dtypes`` for the first two arguments.
        sharding: JAX's option, which is only checked; None if it is not passed.

    Returns:
        the function, its result type and its arguments, without JAX's keyword names.

    Raises:
        TypeError: if `function` is not callable, or is missing although there are arguments; if
            the result type is passed twice, or as the function; if `sharding` is not a
            ``jax.sharding.Sharding``.
        NotImplementedError: for a sharding over several devices.
    """
    if sharding is not None:
        check_sharding(name, sharding)
    kwargs = dict(kwargs)
    is_call = bool(args or kwargs)
    if _JAX_NAME in kwargs:
        if result_type is not MISSING:
            raise TypeError(
                f"{name}: got both result_type and result_shape_dtypes. Pass one of them."
            )
        result_type = kwargs.pop(_JAX_NAME)
    if function is None:
        function = kwargs.pop(_JAX_FUNCTION, None)
    if function is None and (args or kwargs):
        given = ", ".join([*map(format_value, args), *kwargs])
        raise TypeError(
            f"{name}: got arguments ({given}) and no function. Pass the function first."
            f"{''.join(suggest_name(each, _OPTIONS) for each in kwargs)}"
        )
    # A class is called back where the result type has its place already.
    is_type = isinstance(function, type) and (
        result_type is MISSING or (callable(result_type) and not isinstance(result_type, type))
    )
    if function is not None and (is_type or not callable(function)):
        advice = f"Pass the function: {name}(fn, result_type)."
        if isinstance(function, type):
            advice = f"Pass the type to a decorator by name: @{name}(result_type=...)."
        raise TypeError(
            f"{name} takes a function first and its result type second, got {function!r}. {advice}"
        )
    return CallSignature(function, result_type, args, kwargs, is_call and function is not None)


def describe_uncalled_callback(described: str) -> str:
    """Return the error text for a callback that is used as an array, before it is called.

    Args:
        described: name of the callback, such as ``"io_callback 'f'"``.
    """
    kind, _, name = described.rpartition(" ")
    kind, name = kind.removeprefix("ordered "), name.strip("'")
    if kind == "native_callback":
        return f"{described} is not called. Call it with the arguments."
    return (
        f"{described} is not called. Call it with the arguments, {kind}({name}, float)(x), or pass "
        "them after the result type, which is the second argument: "
        f"{kind}({name}, jax.ShapeDtypeStruct(shape, dtype), x)."
    )


def check_sharding(name: str, sharding: Any) -> None:
    """Raise an error for JAX's option ``sharding`` unless it names one device.

    Args:
        name: name of the public function, for errors.
        sharding: value of the option.

    Raises:
        TypeError: if the option is not a ``jax.sharding.Sharding``.
        NotImplementedError: if the sharding spans several devices.
    """
    if not isinstance(sharding, jax.sharding.Sharding):
        raise TypeError(f"{name}: sharding must be a jax.sharding.Sharding, got {sharding!r}.")
    if len(sharding.device_set) > 1:
        raise NotImplementedError(
            f"{name}: a sharding over {len(sharding.device_set)} devices is not supported. Leave "
            "sharding out: the function is called once, with whole arrays; inside jax.shard_map "
            "once for each device."
        )
