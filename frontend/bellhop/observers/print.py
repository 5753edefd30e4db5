"""print: show values when the program runs."""

import builtins
import functools
import json
import string
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from bellhop.arguments.declared_types import MISSING
from bellhop.base.source import user_site
from bellhop.callbacks.callback import call_for_effect
from bellhop.callbacks.callback_type import Report
from bellhop.callbacks.infer import make_zeros
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import describe_value, is_array_like
from bellhop.concurrency.caller_context import call_in_caller_context
from bellhop.tracing.state import trace_state

PRINT = Report("print")
PRINT_MEMREF = Report("print_memref")


def print(
    fmt: Any = MISSING,
    *args: Any,
    asynchronous: bool = False,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Print when the program gets here, in program order.

    Args:
        fmt: a format string, filled with the values of ``args`` and ``kwargs`` as
            ``str.format`` does; or any object, printed with ``args`` after it as the
            builtin ``print`` does.
        args: pytrees of arrays of any shapes and dtypes, and of what is known when the
            program is traced, such as strings.
        asynchronous: whether the program goes on while another thread prints.  All is printed
            when the call of a ``qjit`` function returns; elsewhere ``bellhop.barrier_wait``
            waits for it.
        ordered: taken because ``jax.debug.print`` takes it; what is printed keeps program
            order either way.
        partitioned: whether, in a ``jax.jit`` partitioned over devices, each device prints
            its own part, in any order; without it whole arrays are printed, once.  A ``qjit``
            program runs on one device.
        skip_format_check: whether fields and values may differ; what is too much is left out.
        kwargs: for named fields of the format string.

    Returns:
        None; without ``fmt``, a function that takes it, and the values, with the options given
        here.

    A ``numpy.printoptions`` around the print in a ``qjit`` function holds for that print; other
    options are those where the program is called.

    Raises:
        ValueError: when traced, where the fields of the format string and the values differ, in
            number or type.

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
            check_format("print", fmt, args, kwargs)
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


def print_memref(x: Any) -> None:
    """Print an array and how it lies in memory, when the program gets here.

    Args:
        x: one array or number.

    Example:
        >>> import bellhop, jax.numpy as jnp
        >>> @bellhop.qjit
        ... def f(x):
        ...     bellhop.debug.print_memref(x)
        >>> f(jnp.array([0.5, 1.5]))
        MemRef: dtype = float64 rank = 1 offset = 0 sizes = [2] strides = [1] data =
        [0.5 1.5]

    The interface is that of Catalyst's ``debug.print_memref``.  There is no address: what is
    printed is a copy, since the buffer may be gone by then.
    """
    if not hasattr(x, "dtype") and not isinstance(x, bool | int | float | complex):
        raise TypeError(f"print_memref takes one array or number, got a {type(x).__name__}.")
    call_for_effect(_MemrefPrinter(), (x,), {}, PRINT_MEMREF)


class _MemrefPrinter(BuiltinFunction):
    """Prints an array, and how it lies in memory."""

    __name__ = "print_memref"
    prints = True

    def __call__(self, x: Any) -> None:
        strides = [stride // x.itemsize for stride in x.strides]
        data = call_in_caller_context(str, x)
        _print_line(
            f"MemRef: dtype = {x.dtype} rank = {x.ndim} offset = 0 sizes = {list(x.shape)} "
            f"strides = {strides} data =\n{data}"
        )


class _Formatter(BuiltinFunction):
    """Prints through a format string, with print options of NumPy as JSON if there are any."""

    __name__ = "print"
    prints = True
    is_formatter = True

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        fmt, *options = self.arguments
        show = fmt.format if not options else functools.partial(_format, fmt, options[0])
        _print_line(call_in_caller_context(show, *args, **kwargs))


def _format(fmt: str, options: str, *args: Any, **kwargs: Any) -> str:
    with np.printoptions(**json.loads(options)):
        return fmt.format(*args, **kwargs)


def _print_line(text: str) -> None:
    """Print a line by one write, which lines of other devices do not break."""
    builtins.print(f"{text}\n", end="")


@functools.lru_cache(maxsize=16)
def _make_formatter(fmt: str, options: tuple[str, ...], site: str) -> _Formatter:
    """Return what prints at a line: for a loop that Python unrolls, one function in the program."""
    del site
    return _Formatter(fmt, *options)


def _options_of_program() -> tuple[str, ...]:
    """Return NumPy's print options that the traced function has set, as JSON.

    Options that the function leaves alone are those of the caller of the program.

    Raises:
        ValueError: for options that are functions, which no program holds.
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
        raise ValueError(
            "print: numpy.printoptions around it, in a compiled function, sets "
            f"{', '.join(sorted(changed))}, expected numbers and strings. Set functions around the "
            "call of the compiled function."
        ) from None


def check_format(label: str, fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise an error if the fields of a format string do not fit the values.

    Args:
        label: the function that the user called, for the error.
        fmt: the format string.
        args: values of the positional fields, with abstract values for arrays that are traced.
        kwargs: values of the named fields.

    Raises:
        ValueError: if the numbers or names of fields and values differ, or if a field cannot show
            values of a type.
    """
    _check_fields(label, fmt, args, kwargs)
    _check_formats(label, fmt, args, kwargs)


def _check_fields(label: str, fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        fields = list(_field_names(fmt))
    except ValueError as error:
        raise ValueError(
            f"{label}({fmt!r}) is not a format string: {error}. Write '{{{{' for a brace."
        ) from None
    automatic = sum(name == "" for name in fields)
    numbered = [int(name) for name in fields if name.isdigit()]
    named = {name for name in fields if name and not name.isdigit()}
    if automatic and numbered:
        raise ValueError(
            f"{label}({fmt!r}) has fields with numbers and fields without. Use one kind."
        )
    needed = max([automatic, *(number + 1 for number in numbered)])
    if needed != len(args):
        raise ValueError(
            f"{label}({fmt!r}) has fields for {needed} positional values and got {len(args)}."
        )
    if missing := sorted(named - set(kwargs)):
        raise ValueError(
            f"{label}({fmt!r}) has no value for {', '.join(missing)}. Pass it by name."
        )
    if unused := sorted(set(kwargs) - named):
        raise ValueError(
            f"{label}({fmt!r}) has no field for {', '.join(unused)}. Put it into the "
            "text, or leave the value out."
        )


def _check_formats(label: str, fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse fields that cannot show values of such types, by a try with zeros."""
    fields = [
        (name, spec or "") for _, name, spec, _ in string.Formatter().parse(fmt) if name is not None
    ]
    if not any(spec or "." in name or "[" in name for name, spec in fields):
        # Everything can be shown as it is.
        return
    if any("{" in spec for _, spec in fields):
        # What a field in a field asks for depends on its value.
        return
    sample = jax.tree.map(
        lambda leaf: make_zeros(jax.typeof(leaf)) if is_array_like(leaf) else leaf, (args, kwargs)
    )
    try:
        fmt.format(*sample[0], **sample[1])
    except Exception as error:
        # Of whatever kind: what a field asks for, of objects too, is the user's.
        types = [describe_value(leaf) for leaf in jax.tree.leaves(sample)]
        raise ValueError(
            f"{label}({fmt!r}) cannot show values of such types ({', '.join(types)}): {error}. "
            "Use a format that they have, or convert them; {{}} shows everything."
        ) from error


def _field_names(fmt: str) -> Iterator[str]:
    """Yield the names of the fields, and of those in their format specifications."""
    for _, name, specification, conversion in string.Formatter().parse(fmt):
        if name is None:
            continue
        if conversion not in (None, "r", "s", "a"):
            raise ValueError(f"unknown conversion '{conversion}', expected 'r', 's' or 'a'")
        yield name.split(".")[0].split("[")[0]
        yield from _field_names(specification or "")
