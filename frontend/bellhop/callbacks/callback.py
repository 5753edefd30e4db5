"""callback: a Python function that is called for its effect alone."""

import functools
from collections.abc import Callable
from typing import Any, overload

import jax

from bellhop.arguments.declared_types import MISSING
from bellhop.arguments.signature import check_call
from bellhop.base.source import function_name, user_site
from bellhop.base.types import Operand, PyTree
from bellhop.callbacks.callback_type import Report
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import is_array_like

CALLBACK = Report("callback")


def call_for_effect(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    callback_type: Report,
    *,
    asynchronous: bool = False,
    partitioned: bool = False,
) -> None:
    """Call ``function`` when the program gets here; what it returns is dropped.

    Arguments that are no arrays are known when the program is traced, and stay as they are.
    """
    function, leaves, in_tree = bind_static_arguments(callback_type.name, function, args, kwargs)
    target = callback_type.target(
        function, in_tree, asynchronous=asynchronous, partitioned=partitioned
    )
    callback_type.bind(target, leaves)


def bind_static_arguments(
    callback_name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], list[Any], Any]:
    """Return a function of the arrays among the arguments, these, and their structure."""
    leaves, in_tree = jax.tree.flatten((args, kwargs))
    static = tuple((i, leaf) for i, leaf in enumerate(leaves) if not is_array_like(leaf))
    if not static:
        return function, leaves, in_tree
    if not isinstance(function, BuiltinFunction):
        called = f"{callback_name} '{function_name(function)}' (called from {user_site()})"
        check_call(called, function, len(args), kwargs)
    arrays = [leaf for leaf in leaves if is_array_like(leaf)]
    structure = jax.tree.structure((tuple(arrays), {}))
    return _StaticArgumentsFunction(function, in_tree, static), arrays, structure


class _StaticArgumentsFunction:
    """A function some of whose arguments are no arrays; equal ones are equal callbacks."""

    def __init__(
        self, function: Callable[..., Any], tree: PyTree, static: tuple[tuple[int, Any], ...]
    ) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = function_name(function)
        self._function = function
        self._tree = tree
        self._static = static

    def __call__(self, *arrays: Operand) -> Any:
        leaves = list(arrays)
        for index, value in self._static:
            leaves.insert(index, value)
        args, kwargs = jax.tree.unflatten(self._tree, leaves)
        return self._function(*args, **kwargs)

    def _key(self) -> tuple[Any, ...]:
        # By identity: what users compare with == may be anything.
        return self._function, self._tree, tuple((i, id(value)) for i, value in self._static)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StaticArgumentsFunction) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@overload
def callback(
    callback_fn: Callable[..., Any],
    *args: Any,
    ordered: bool = False,
    asynchronous: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Callable[..., None]: ...
@overload
def callback(
    *, ordered: bool = False, asynchronous: bool = False, partitioned: bool = False
) -> Callable[..., Callable[..., None]]: ...
def callback(
    callback_fn: Any = MISSING,
    *args: Any,
    ordered: bool = False,
    asynchronous: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Make a Python function that compiled programs call for its effect.

    It runs as the program does: once for each time the program gets there, once for each
    mapped element under ``vmap``, on primal values under ``grad``; calls keep program order,
    and all are finished when the compiled function returns, but for asynchronous ones.  It
    gets NumPy arrays that it may keep.

    Args:
        callback_fn: the function, of pytrees of arrays of any shapes and dtypes; what it
            returns is dropped.  What is no array, such as a string, is an argument too: it is
            the same in all calls.
        args: where there are any, the function is called with them at once, as
            ``jax.debug.callback`` does.
        ordered: taken because ``jax.debug.callback`` takes it; calls keep program order
            either way.
        asynchronous: whether the program goes on without waiting for the calls, which then
            are made by another thread, in order, as those of ``bellhop.tap`` are;
            ``bellhop.barrier_wait`` waits for them and raises what they raised.
        partitioned: whether, in a ``jax.jit`` partitioned over devices, each device calls
            it with its own part, in any order; without it one call is made, with whole arrays.
            A ``qjit`` program runs on one device.
        kwargs: as ``args``.  ``callback`` among them is JAX's name for ``callback_fn``, and asks
            for a call, with or without arguments.

    Returns:
        a function of pytrees of arrays that returns None; with arguments, None; without
        ``callback_fn``, a function that takes it, and arguments, with the options given here.

    Raises:
        TypeError: where ``callback_fn`` is no function.

    Example:
        >>> import bellhop
        >>> seen = []
        >>> @bellhop.qjit
        ... def f(x):
        ...     bellhop.debug.callback(seen.append)(x)
        ...     return 2 * x
        >>> f(1.5)
        Array(3., dtype=float64, weak_type=True)
        >>> seen
        [array(1.5)]
    """
    del ordered
    is_call = bool(args or kwargs)
    if callback_fn is MISSING:
        callback_fn = kwargs.pop("callback", MISSING)
    if callback_fn is MISSING:
        if kwargs:
            raise TypeError(
                f"callback has arguments ({', '.join(kwargs)}) and no function to call."
            )
        return functools.partial(callback, asynchronous=asynchronous, partitioned=partitioned)
    if not callable(callback_fn):
        raise TypeError(
            f"callback takes a function, got {callback_fn!r} of type {type(callback_fn).__name__}."
        )

    @functools.wraps(callback_fn)
    def call(*args: Any, **kwargs: Any) -> None:
        call_for_effect(
            callback_fn,
            args,
            kwargs,
            CALLBACK,
            asynchronous=asynchronous,
            partitioned=partitioned,
        )

    return call(*args, **kwargs) if is_call else call
