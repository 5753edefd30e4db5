"""Lookup of the C function for ``native_callback``: its address and declared types."""

import ctypes
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bellhop.base.option_checks import check_option
from bellhop.base.source import user_site
from bellhop.compiler.callback_target import describe_value
from bellhop.compiler.native_target import NativeSymbol, find_symbol


def find_c_function(
    function: Any, library: str | None, symbol: str | None, argument_types: Any
) -> NativeSymbol:
    """Find the C function that the arguments of ``native_callback`` specify.

    Args:
        function: a ``ctypes`` function or a ``cfunc`` of Numba; None with `library`.
        library: name or path of a shared library; None with `function`.
        symbol: the name of a function in `library`.
        argument_types: the dtypes declared by the user; allowed with `library` alone.

    Returns:
        the function's address, with the types of its parameters as far as they are known.

    Raises:
        TypeError: if neither or both of `function` and `library` are passed, if `symbol` is missing
            or passed without `library`, if `argument_types` is passed with `function`, or if
            `function` is not a C function with an address.
        OSError: if the library cannot be loaded.
        AttributeError: if the library has no such symbol.
    """
    where = f"native_callback (called from {user_site()})"
    if (function is None) == (library is None) or (library is None) != (symbol is None):
        options = {"a function": function, "library=": library, "symbol=": symbol}
        given = [name for name, value in options.items() if value is not None]
        raise TypeError(
            f"{where}: expected either a function or library= and symbol=, got "
            f"{' and '.join(given) or 'none of them'}. Pass a function alone, or library= and "
            "symbol= together."
        )
    if library is not None and symbol is not None:
        check_option(where, "library", library, str | os.PathLike, "the name of a shared library")
        check_option(where, "symbol", symbol, str, "the name of a function in the library")
        return find_symbol(library, symbol)
    if argument_types is not None:
        raise TypeError(
            f"{where}: argument_types is supported with library= and symbol= only. Leave it out, "
            "and set the argtypes of a ctypes function instead; a cfunc of Numba has them."
        )
    ctypes_function = getattr(function, "ctypes", function)
    if not isinstance(ctypes_function, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        raise TypeError(
            f"{where}: got {describe_value(function)}, expected a ctypes function or a cfunc of "
            "Numba. Pass one of them, or library= and symbol=; for a Python function use "
            "bellhop.pure_callback."
        )
    return _from_ctypes(ctypes_function, function)


def _from_ctypes(function: Any, owner: Callable[..., Any]) -> NativeSymbol:
    """Describe the C function of a ``ctypes`` function: its name, address and types.

    The description has no types if the function's ``argtypes`` are not set.

    Args:
        function: the ``ctypes`` function.
        owner: object that keeps the code loaded, and whose ``__name__`` is used: Numba's ``cfunc``,
            or the ``ctypes`` function itself.

    Raises:
        TypeError: if the function is a null pointer.
    """
    address = ctypes.cast(function, ctypes.c_void_p).value
    if not address:
        raise TypeError(
            "native_callback: the ctypes function is a null pointer. Pass a function with an "
            "address."
        )
    name = getattr(owner, "__name__", None) or f"function at {address:#x}"
    declared = function.argtypes
    if declared is None:
        return NativeSymbol(name, address, owner=owner)
    types = tuple(map(_dtype_of_ctype, declared))
    returned = None if function.restype is None else _dtype_of_ctype(function.restype)
    pointees = tuple(map(_dtype_of_pointee, declared))
    return NativeSymbol(name, address, None, types, returned, pointees, owner)


def _dtype_of_ctype(ctype: Any) -> np.dtype | None:
    """Return the dtype of a ``ctypes`` type that is a boolean or a real number.

    ``ctypes.c_double`` gives ``float64``; addresses and all other types give None.
    """
    try:
        dtype = np.dtype(ctype)
    except TypeError:
        return None
    is_address = issubclass(ctype, ctypes.c_void_p | ctypes.c_char_p | ctypes._Pointer)
    return None if is_address or dtype.kind not in "biuf" else dtype


def _dtype_of_pointee(ctype: Any) -> np.dtype | None:
    """Return the dtype of the elements to which a C pointer type points.

    `ctype` is a ``ctypes`` type, or a type of ``numpy.ctypeslib.ndpointer``. The result is None if
    it is not a pointer, or the dtype is not known.
    """
    if getattr(ctype, "_dtype_", None) is not None:  # np.ctypeslib.ndpointer
        return np.dtype(ctype._dtype_)
    if not issubclass(ctype, ctypes._Pointer):
        return None
    try:
        dtype = np.dtype(ctype._type_)
    except TypeError:
        return None
    return dtype if dtype.kind in "biuf" else None
