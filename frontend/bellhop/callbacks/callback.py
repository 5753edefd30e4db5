"""`callback`: a Python function that a program calls for its side effect alone."""

import functools
from collections.abc import Callable
from typing import Any, overload

import jax

from bellhop.arguments.accepted_arguments import check_call
from bellhop.arguments.declared_types import MISSING
from bellhop.arguments.mutable_references import check_no_references
from bellhop.base.public_function import public_function
from bellhop.base.source import function_name
from bellhop.base.types import Operand, PyTree
from bellhop.callbacks.callback_type import DebugCall
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import describe_call, is_array_like

CALLBACK = DebugCall("callback")


def call_for_effect(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    callback_type: DebugCall,
    *,
    asynchronous: bool = False,
    partitioned: bool = False,
) -> None:
    """Call ``function`` as a callback for its side effect, and drop its result.

    While JAX traces, the call is added to the program; outside of tracing it is made at once.

    Args:
        function: the user's function.
        args: positional arguments, pytrees; leaves that are not arrays are static.
        kwargs: keyword arguments, treated as `args`.
        callback_type: type of the call, such as ``CALLBACK``: its primitive is bound, and its name
            is the public function's name in errors.
        asynchronous: whether the program continues without waiting for the call.
        partitioned: whether each device of a partitioned program calls the function with its shard;
            False for one call with whole arrays.
    """
    function, leaves, in_tree = bind_static_arguments(callback_type.name, function, args, kwargs)
    target = callback_type.target(
        function, in_tree, asynchronous=asynchronous, partitioned=partitioned
    )
    callback_type.bind(target, leaves)


def bind_static_arguments(
    callback_name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], list[Any], Any]:
    """Bind the leaves of a call's arguments that are not arrays to the function.

    ``bind_static_arguments("callback", f, ("text", x), {})`` returns a function ``g`` with
    ``g(x) == f("text", x)``, the leaves ``[x]`` and the structure of ``((x,), {})``.

    Args:
        callback_name: name of the public function, for errors.
        function: the user's function.
        args: its positional arguments, pytrees.
        kwargs: its keyword arguments, pytrees.

    Returns:
        If all leaves are arrays: `function`, the leaves, and the structure of ``(args, kwargs)``.
        Otherwise a function that takes the array leaves as positional arguments, the list of array
        leaves, and the structure of ``((leaf, ...), {})``.

    Raises:
        TypeError: if a leaf is a mutable reference; if there are static leaves, and the function's
            signature does not accept the arguments.
    """
    describe = functools.partial(describe_call, callback_name, function)
    check_no_references(describe, args, kwargs)
    leaves, in_tree = jax.tree.flatten((args, kwargs))
    static = tuple((i, leaf) for i, leaf in enumerate(leaves) if not is_array_like(leaf))
    if not static:
        return function, leaves, in_tree
    if not isinstance(function, BuiltinFunction):
        check_call(describe(), function, len(args), kwargs)
    arrays = [leaf for leaf in leaves if is_array_like(leaf)]
    structure = jax.tree.structure((tuple(arrays), {}))
    return _StaticArgumentsFunction(function, in_tree, static), arrays, structure


class _StaticArgumentsFunction:
    """A function with static values bound to some leaves of its arguments.

    `bind_static_arguments` makes it. It is called with the other leaves, which are arrays, as
    positional arguments. Two objects are equal if their functions are equal and their static values
    are identical, so that their programs can share one callback.

    Args:
        function: the user's function.
        tree: structure of its ``(args, kwargs)``, with arrays and static values as leaves.
        static: pairs of leaf index in `tree` and value, in increasing order of the index.
    """

    def __init__(
        self, function: Callable[..., Any], tree: PyTree, static: tuple[tuple[int, Any], ...]
    ) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = function_name(function)
        self._function = function
        self._tree = tree
        self._static = static

    def __call__(self, *arrays: Operand) -> Any:
        """Call the function with the arrays and the static values."""
        leaves = list(arrays)
        for index, value in self._static:
            leaves.insert(index, value)
        args, kwargs = jax.tree.unflatten(self._tree, leaves)
        return self._function(*args, **kwargs)

    def _key(self) -> tuple[Any, ...]:
        """Return function, tree and identities of the static values, for ``==`` and hash."""
        # By identity: a user's `__eq__` may return anything.
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
@public_function
def callback(
    callback_fn: Any = MISSING,
    *args: Any,
    ordered: bool = False,
    asynchronous: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Make a Python function that compiled programs call for its side effect.

    The program calls the function each time that it reaches the call: once for each batch element
    under ``vmap``, and with primal values under ``grad``. Calls keep program order. All calls have
    finished when the compiled function returns, except asynchronous calls. The function gets NumPy
    arrays, which it may keep.

    Args:
        callback_fn: the function, of pytrees of arrays of any shapes and dtypes; its result is
            dropped.  Arguments that are not arrays, such as strings, are static.
        args: if present, the function is called with them at once, as in ``jax.debug.callback``.
        ordered: accepted for compatibility with ``jax.debug.callback``; calls always keep program
            order.
        asynchronous: whether the program continues without waiting for the calls.  Another thread
            then makes them, in order with the calls of ``bellhop.tap``; ``bellhop.barrier_wait``
            waits for them and raises their exceptions.
        partitioned: whether each device of a partitioned ``jax.jit`` calls the function with its
            shard, in any order; otherwise there is one call with whole arrays.  A ``qjit`` program
            runs on one device.
        kwargs: keyword arguments for the function, used like ``args``.  ``callback`` is JAX's name
            for ``callback_fn``; with it, the function is called at once.

    Returns:
        a function of pytrees of arrays that returns None; with arguments, None; without
        ``callback_fn``, a decorator with these options.

    Raises:
        TypeError: if ``callback_fn`` is not callable, or missing although there are ``kwargs``.

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
                f"callback: got arguments ({', '.join(kwargs)}) and no function. Pass the "
                "function first."
            )
        return functools.partial(callback, asynchronous=asynchronous, partitioned=partitioned)
    if not callable(callback_fn):
        raise TypeError(
            f"callback takes a function, got {callback_fn!r} of type {type(callback_fn).__name__}."
        )

    @functools.wraps(callback_fn)
    def call(*args: Any, **kwargs: Any) -> None:
        """Call the user's function for its side effect: when the program runs, or now.

        While JAX traces, the call is added to the program; outside of tracing it is made at once.
        Leaves of the arguments that are not arrays are static.
        """
        call_for_effect(
            callback_fn,
            args,
            kwargs,
            CALLBACK,
            asynchronous=asynchronous,
            partitioned=partitioned,
        )

    return call(*args, **kwargs) if is_call else call
