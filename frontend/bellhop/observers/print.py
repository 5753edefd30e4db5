"""`print`: print values of a running program."""

import builtins
import functools
import json
import string
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray

from bellhop.arguments.declared_types import MISSING
from bellhop.base.public_function import public_function
from bellhop.base.source import user_site
from bellhop.callbacks.callback import call_for_effect
from bellhop.callbacks.callback_type import DebugCall
from bellhop.callbacks.infer import make_zeros
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import describe_value, is_array_like
from bellhop.concurrency.caller_context import call_in_caller_context
from bellhop.errors import suggest_name
from bellhop.tracing.state import trace_state

_OPTIONS = ("asynchronous", "ordered", "partitioned", "skip_format_check")
PRINT = DebugCall("print")
PRINT_MEMREF = DebugCall("print_memref")


@public_function
def print(
    fmt: Any = MISSING,
    *args: Any,
    asynchronous: bool = False,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Print values each time that the program reaches this call, in program order.

    Args:
        fmt: a format string, filled with the values of ``args`` and ``kwargs`` by ``str.format``;
            or any object, printed together with ``args`` as by the builtin ``print``.
        args: pytrees of arrays of any shapes and dtypes, or static values such as strings.
        asynchronous: whether the program continues while another thread prints.  Everything is
            printed when the call of a ``qjit`` function returns; for other programs
            ``bellhop.barrier_wait`` waits for it.
        ordered: accepted for compatibility with ``jax.debug.print``; prints always keep program
            order.
        partitioned: whether each device of a partitioned ``jax.jit`` prints its shard, in any
            order; otherwise whole arrays are printed, once.  A ``qjit`` program runs on one device.
        skip_format_check: whether to accept a format string whose fields do not match the values;
            surplus values are not printed.
        kwargs: values of the named fields of the format string.

    Returns:
        None; without ``fmt``, a function of ``fmt`` and values with these options.

    A ``numpy.printoptions`` context around the print in a ``qjit`` function applies to this print;
    all other options are read when the program is called.

    Raises:
        ValueError: when traced, if fields of the format string and values differ in number, name or
            type, for named values without a format string, and for ``numpy.printoptions`` whose
            values are functions.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit
        ... def f(x):
        ...     bellhop.debug.print("x = {x:.3f}", x=x)
        ...     return x
        >>> _ = f(0.5)
        x = 0.500
    """
    del ordered
    if fmt is MISSING:
        return functools.partial(
            print,
            asynchronous=asynchronous,
            partitioned=partitioned,
            skip_format_check=skip_format_check,
            **kwargs,
        )
    if isinstance(fmt, str):
        if not skip_format_check:
            check_format("print", fmt, args, kwargs, _OPTIONS)
    elif kwargs:
        raise ValueError(
            f"print takes keyword arguments ({', '.join(kwargs)}) for a format string only, and "
            f"its first argument is {describe_value(fmt)}. Put a format string first."
        )
    else:
        fmt, args = " ".join(["{}"] * (1 + len(args))), (fmt, *args)
    call_for_effect(
        _make_formatter(fmt, _options_of_program(), user_site()),
        args,
        kwargs,
        PRINT,
        asynchronous=asynchronous,
        partitioned=partitioned,
    )
    return None


@public_function
def print_memref(x: Any) -> None:
    """Print an array and its memory layout when the program reaches this call.

    Args:
        x: one array or number.

    Raises:
        TypeError: if `x` is neither.

    Example:
        >>> import bellhop, jax.numpy as jnp
        >>> @bellhop.qjit
        ... def f(x):
        ...     bellhop.debug.print_memref(x)
        >>> f(jnp.array([0.5, 1.5]))
        MemRef: dtype = float64 rank = 1 offset = 0 sizes = [2] strides = [1] data =
        [0.5 1.5]

    Same interface as Catalyst's ``debug.print_memref``.  No address is printed, since the printed
    array is a copy.
    """
    if not hasattr(x, "dtype") and not isinstance(x, bool | int | float | complex):
        raise TypeError(f"print_memref takes one array or number, got a {type(x).__name__}.")
    call_for_effect(_MemrefPrinter(), (x,), {}, PRINT_MEMREF)


class _MemrefPrinter(BuiltinFunction):
    """Function that a running program calls to print an array's memory layout.

    Its argument is a NumPy array. Strides are printed as numbers of elements, not bytes.
    """

    __name__ = "print_memref"
    prints = True

    @staticmethod
    def check_init_args() -> None:  # type: ignore[override]
        """Accept no strings: the constructor has no arguments."""

    def accepts_types(
        self, arguments: Sequence[ShapedArray], results: Sequence[ShapedArray]
    ) -> bool:
        """Return whether a call has one argument and no result, as the function requires."""
        return len(arguments) == 1 and not results

    def __call__(self, x: Any) -> None:
        """Print dtype, shape, strides and elements of an array."""
        strides = [stride // x.itemsize for stride in x.strides]
        data = call_in_caller_context(str, x)
        _print_line(
            f"MemRef: dtype = {x.dtype} rank = {x.ndim} offset = 0 sizes = {list(x.shape)} "
            f"strides = {strides} data =\n{data}"
        )


class _Formatter(BuiltinFunction):
    """Function that a running program calls, which prints values with a format string.

    Args:
        *arguments: the format string and, optionally, NumPy print options as JSON.
    """

    __name__ = "print"
    prints = True
    is_formatter = True
    has_print_options = True

    @staticmethod
    def check_init_args(fmt: str, options: str = "{}") -> None:  # type: ignore[override]
        """Raise an error unless NumPy accepts the print options.

        Args:
            fmt: the format string, which is not checked.
            options: arguments of ``np.printoptions`` as JSON.

        Raises:
            TypeError, ValueError: if the options are not JSON, or NumPy does not accept them.
        """
        del fmt
        with np.printoptions(**json.loads(options)):
            pass

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Print the values, in the caller's context variables."""
        _print_line(call_in_caller_context(self._show, args, kwargs))

    def _show(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Fill the format string with values, under the NumPy print options if there are any."""
        fmt, *options = self.arguments
        if not options:
            return self.format(fmt, args, kwargs)
        with np.printoptions(**json.loads(options[0])):
            return self.format(fmt, args, kwargs)


def _print_line(text: str) -> None:
    """Print a line in one write, so that other threads cannot print inside of it."""
    builtins.print(f"{text}\n", end="")


@functools.lru_cache(maxsize=16)
def _make_formatter(fmt: str, options: tuple[str, ...], site: str) -> _Formatter:
    """Return the function that a running program calls to print with a format string.

    The function is cached, so that the iterations of a loop that Python unrolls share one function.

    Args:
        fmt: the format string.
        options: one string, NumPy print options as JSON; or an empty tuple.
        site: ``file:line`` of the user's call; only a part of the cache key.
    """
    del site
    return _Formatter(fmt, *options)


def _options_of_program() -> tuple[str, ...]:
    """Return the NumPy print options that the function being traced has set, as JSON.

    All other print options are read when the program is called.

    Returns:
        a tuple of one string; an empty tuple if the function has set none, and outside of tracing.

    Raises:
        ValueError: for options whose values are functions, which a program cannot hold.
    """
    before = trace_state().print_options
    if before is None:
        return ()
    options = np.get_printoptions()
    changed = {name: value for name, value in options.items() if value != before[name]}
    if not changed:
        return ()
    try:
        return (json.dumps(changed),)
    except TypeError:
        functions = sorted(
            name
            for name, value in changed.items()
            if value is not None and not isinstance(value, str | int | float)
        )
        raise ValueError(
            f"print: numpy.printoptions in a compiled function sets {', '.join(functions)}, "
            "expected only options whose values are numbers or strings. Set "
            f"{', '.join(functions)} around the call of the compiled function."
        ) from None


def check_format(
    label: str,
    fmt: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Sequence[str],
) -> None:
    """Raise an error if the fields of a format string do not fit the values.

    Args:
        label: name of the public function that the user called, for the error.
        fmt: the format string.
        args: values of the positional fields, pytrees; traced arrays count by their types.
        kwargs: values of the named fields.
        options: names of the function's options; a misspelled option comes as a named value.

    Raises:
        ValueError: if the numbers or names of fields and values differ, or if a field cannot show
            values of a type.
    """
    _check_fields(label, fmt, args, kwargs, options)
    _check_formats(label, fmt, args, kwargs)


def _check_fields(
    label: str,
    fmt: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Sequence[str],
) -> None:
    """Raise an error unless the fields of a format string match the values.

    Args:
        label: name of the public function that the user called, for the error.
        fmt: the format string.
        args: values of the positional fields, of which only the number is used.
        kwargs: values of the named fields, of which only the names are used.
        options: names of the function's options; the error suggests an option for a surplus named
            value with a similar name.

    Raises:
        ValueError: if numbers or names differ, or `fmt` is not a format string.
    """
    try:
        fields = list(_field_names(fmt))
    except ValueError as error:
        raise ValueError(
            f"{label}({fmt!r}) is not a format string: {error}. Correct the field, or write "
            "'{{' and '}}' for literal braces."
        ) from None
    automatic = sum(name == "" for name in fields)
    numbered = [int(name) for name in fields if name.isdigit()]
    named = {name for name in fields if name and not name.isdigit()}
    if automatic and numbered:
        raise ValueError(
            f"{label}({fmt!r}) has fields with numbers and fields without. Use one kind: "
            "{0} {1}, or {} {}."
        )
    needed = max([automatic, *(number + 1 for number in numbered)])
    if needed != len(args):
        remedy = "Pass one value for each field."
        if "%" in fmt and not fields:
            remedy = "Write fields as {} or {:.4f}, not %f."
        raise ValueError(
            f"{label}({fmt!r}) has fields for {needed} positional values and got {len(args)}. "
            f"{remedy}"
        )
    if missing := sorted(named - set(kwargs)):
        raise ValueError(
            f"{label}({fmt!r}) has no value for {', '.join(missing)}. Pass each by name."
        )
    if unused := sorted(set(kwargs) - named):
        raise ValueError(
            f"{label}({fmt!r}) has no field for {', '.join(unused)}. Write a field "
            "{name} for each, or leave the value out."
            f"{''.join(suggest_name(name, options) for name in unused)}"
        )


def _check_formats(label: str, fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise an error unless a format string can show values of these types.

    The format string is tried with zeros, such as ``"{:.2f}".format(0.0)``. Nothing is checked if
    no field has a format specification, attribute or index, such as in ``"{} {x}"``, or if a
    specification has a nested field, whose value is not known, such as in ``"{:{width}}"``.

    Args:
        label: name of the public function that the user called, for the error.
        fmt: the format string.
        args: values of the positional fields, pytrees; traced arrays count by their types.
        kwargs: values of the named fields.

    Raises:
        ValueError: if formatting fails.
    """
    fields = [
        (name, spec or "") for _, name, spec, _ in string.Formatter().parse(fmt) if name is not None
    ]
    if not any(spec or "." in name or "[" in name for name, spec in fields):
        # Fields without a specification can show all values.
        return
    if any("{" in spec for _, spec in fields):
        # The format of a nested field depends on its value, which is not known.
        return
    sample = jax.tree.map(
        lambda leaf: make_zeros(jax.typeof(leaf)) if is_array_like(leaf) else leaf, (args, kwargs)
    )
    try:
        fmt.format(*sample[0], **sample[1])
    except Exception as error:
        # Any exception: `__format__` of a user's object may raise it.
        types = [describe_value(leaf) for leaf in jax.tree.leaves(sample)]
        raise ValueError(
            f"{label}({fmt!r}) cannot show values of the types {', '.join(types)}: {error}. Use a "
            "format that these types support, convert the values, or use {}."
        ) from error


def _field_names(fmt: str) -> Iterator[str]:
    """Yield the names of a format string's fields, nested fields included.

    ``"{x.shape}, {:{width}}"`` gives ``"x"``, ``""`` and ``"width"``.

    Raises:
        ValueError: if it is not a format string.
    """
    for _, name, specification, conversion in string.Formatter().parse(fmt):
        if name is None:
            continue
        if conversion not in (None, "r", "s", "a"):
            raise ValueError(f"unknown conversion '{conversion}', expected 'r', 's' or 'a'")
        yield name.split(".")[0].split("[")[0]
        yield from _field_names(specification or "")
