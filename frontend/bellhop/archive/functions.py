"""Functions and classes by name in files, and the policy for resolving them."""

import contextlib
import dataclasses
import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import jax

from bellhop.archive.format_strings import verify_format
from bellhop.archive.schema import Malformed
from bellhop.base.option_checks import check_mapping
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.native_target import NativeSymbol, find_symbol
from bellhop.errors import CompileError


@dataclass(frozen=True)
class Named:
    """A function or class of user code or a library.

    Attributes:
        name: ``module:qualname``.
        wrapped: whether to use ``__wrapped__`` of the object with this name.
    """

    kind: Literal["named"]
    name: str
    wrapped: bool


@dataclass(frozen=True)
class Ours:
    """A function of Bellhop, or ``print``, which needs no trust.

    Attributes:
        name: ``module:qualname`` of a ``BuiltinFunction`` subclass, or of ``print``.
        arguments: its constructor's arguments; None for ``print``.
    """

    kind: Literal["bellhop"]
    name: str
    arguments: tuple[str, ...] | None


@dataclass(frozen=True)
class CFunction:
    """A C function of a shared library.

    Attributes:
        library: name that the system's loader finds.
        symbol: name of the function.
    """

    kind: Literal["C"]
    library: str
    symbol: str


Function: TypeAlias = Named | Ours | CFunction

# Python's print needs no trust.
_PRINT = "builtins:print"
_LINALG_PREFIX = "jax.numpy.linalg:"


@functools.cache
def _get_linalg_types() -> dict[str, type[Any]]:
    """Return the named tuple classes that JAX's linear algebra returns, by name."""
    matrix = jax.ShapeDtypeStruct((1, 1), float)
    linalg = jax.numpy.linalg
    functions = (linalg.eig, linalg.eigh, linalg.qr, linalg.slogdet, linalg.svd)
    types = [type(jax.eval_shape(function, matrix)) for function in functions]
    return {_LINALG_PREFIX + type_.__name__: type_ for type_ in types}


def _find_linalg_type(name: str) -> type[Any] | None:
    """Return a named tuple class of ``jax.numpy.linalg`` by name, or None."""
    # Checked first, since finding the classes is slow.
    is_one = name.startswith(_LINALG_PREFIX) and name.endswith("Result")
    return _get_linalg_types().get(name) if is_one else None


class Allowed:
    """Policy for names in a file: which functions and classes may be used.

    Args:
        functions: allowed functions and classes by name.
        trust: whether other names are imported.
    """

    def __init__(self, functions: Mapping[str, Any], *, trust: bool) -> None:
        check_mapping("load", "functions", functions, "{'name': function}")
        for name, function in functions.items():
            if not callable(function):
                raise TypeError(
                    f"load takes functions and classes by name, but '{name}' is {function!r}. "
                    "Pass the function itself."
                )
        self._given = functions
        self.trust = trust

    def find_missing(self, record: Any) -> list[str]:
        """Return the names in a file's data that are not allowed."""
        if self.trust:
            return []
        names = {named.name for named in _iterate_names(record)} - self._given.keys()
        return sorted(name for name in names if _find_linalg_type(name) is None)

    def function(self, function: Function) -> Callable[..., Any]:
        """Return the function that ``encode_function`` described."""
        if isinstance(function, Ours):
            return _make_builtin(function, trust=self.trust)
        if isinstance(function, CFunction):
            return self._find_c_function(function)
        found = self._object(function.name)
        return getattr(found, "__wrapped__", found) if function.wrapped else found

    def _find_c_function(self, function: CFunction) -> NativeSymbol:
        """Load the library of a C function; return the function."""
        name = f"the C function {function.symbol} of {function.library}"
        if not self.trust:
            raise CompileError(
                f"it calls {name}, which is supported in trusted files only. Pass "
                "trust=True to load if you trust the file like a script that you run."
            )
        try:
            return find_symbol(function.library, function.symbol)
        except (OSError, AttributeError) as error:
            raise CompileError(
                f"it calls {name}, which cannot be loaded here: {error} Install the library."
            ) from error

    def get_tuple_class(self, named: Named) -> type[Any]:
        """Return a class of named tuples.

        Raises:
            CompileError: if the name refers to another object.
        """
        found = self._object(named.name)
        if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
            raise CompileError(
                f"the saved program has values of {named.name}, which is {found!r} here. Pass the "
                "class of named tuples of that name."
            )
        return found

    def _object(self, name: str) -> Any:
        """Return the object with a name, if it is allowed."""
        if name in self._given:
            return self._given[name]
        known = _find_linalg_type(name)
        if known is not None:
            return known
        if not self.trust:
            raise CompileError(
                f"the saved program calls {name}. Pass it to load, or trust the file."
            )
        try:
            return import_by_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise CompileError(
                f"the saved program calls {name}, which cannot be imported here: {error}. Put its "
                "module where Python finds it."
            ) from error


def _make_builtin(ours: Ours, *, trust: bool) -> Callable[..., Any]:
    """Create a function of Bellhop from the strings in a file.

    Args:
        ours: its class and strings.
        trust: whether format strings are unrestricted.

    Raises:
        Malformed: if the class does not exist, or rejects the strings.
    """
    if ours == Ours("bellhop", _PRINT, None):
        return print
    module, _, qualname = ours.name.partition(":")
    package = module.split(".")
    # Importing any other module of bellhop has no side effects.
    if package[0] == "bellhop" and "__main__" not in package and ours.arguments is not None:
        found: Any = None
        with contextlib.suppress(ImportError, AttributeError, ValueError, TypeError):
            found = _resolve(module, qualname)
        is_builtin = isinstance(found, type) and issubclass(found, BuiltinFunction)
        # The base class does not define `__call__`.
        if is_builtin and found is not BuiltinFunction:
            try:
                if found.is_formatter and ours.arguments and not trust:
                    verify_format(ours.arguments[0])
                return found(*ours.arguments)
            except (ValueError, TypeError) as error:
                raise Malformed(
                    f"it has a function '{ours.name}' with invalid arguments: {error}"
                ) from error
    raise Malformed(f"it calls a function '{ours.name}' that bellhop does not have")


def _iterate_names(record: Any) -> Iterator[Named]:
    """Yield all `Named` records in nested data."""
    if isinstance(record, Named):
        yield record
    elif isinstance(record, list | tuple):
        for each in record:
            yield from _iterate_names(each)
    elif isinstance(record, dict):
        yield from _iterate_names(tuple(record.values()))
    elif dataclasses.is_dataclass(record):
        yield from _iterate_names(tuple(vars(record).values()))


def get_importable_name(function: Callable[..., Any], what: str) -> str:
    """Return ``module:qualname`` of a function or class.

    Args:
        function: the function or class.
        what: its description, for errors.

    Raises:
        CompileError: if the name does not lead to it in another process.
    """
    qualname = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    module = getattr(function, "__module__", None) or _find_module(function, qualname)
    if module is None or qualname is None:
        reason = "no imported module contains it under its name"
    elif module == "__main__":
        reason = "it is defined in the main script, which no other process can import"
    else:
        try:
            found = _resolve(module, qualname)
        except (ImportError, AttributeError, ValueError):
            reason = f"{module}.{qualname} cannot be imported"
        else:
            if _is_or_wraps(found, function):
                return f"{module}:{qualname}"
            reason = f"{module}.{qualname} is something else"
    raise CompileError(
        f"{what} cannot be saved: {reason}. Define it at the top level of a module, so that "
        "another process finds it by its name."
    )


def _find_module(function: Callable[..., Any], name: str | None) -> str | None:
    """Return an imported module that has a function under its name, or None.

    Functions of C extensions, such as the ufuncs of SciPy, do not name their modules. A public
    module is preferred to a private one, and a short name to a long one.

    Args:
        function: the function.
        name: its name.
    """
    modules = [
        path
        for path, module in list(sys.modules.items())
        if path != "__main__" and name and getattr(module, "__dict__", {}).get(name) is function
    ]
    is_private = lambda path: any(part.startswith("_") for part in path.split("."))
    return min(modules, key=lambda path: (is_private(path), len(path), path), default=None)


def import_by_name(name: str) -> Any:
    """Return the function or class with a name from ``get_importable_name``."""
    module, _, qualname = name.partition(":")
    return _resolve(module, qualname)


def encode_function(function: Callable[..., Any], what: str) -> Function:
    """Convert a callback's function to data.

    Args:
        function: the function.
        what: its description, for errors.

    Raises:
        CompileError: if another process cannot find the function.
    """
    if isinstance(function, functools.partial):
        raise CompileError(
            f"{what} cannot be saved: it is a functools.partial. Define a function at the top "
            "level of a module."
        )
    if isinstance(function, NativeSymbol):
        if function.library is None:
            raise CompileError(
                f"{what} cannot be saved: functions of ctypes or Numba exist in this process "
                "only. Put it into a shared library, and use native_callback(library=..., "
                "symbol=...)."
            )
        return CFunction("C", function.library, function.name)
    if isinstance(function, BuiltinFunction):
        return Ours("bellhop", get_importable_name(type(function), what), function.arguments)
    name = get_importable_name(function, what)
    if name == _PRINT:
        return Ours("bellhop", name, None)
    # The name of a decorated function refers to the callback.
    return Named("named", name, wrapped=import_by_name(name) is not function)


def encode_type(type_: type[Any], what: str) -> Named:
    """Return the importable name of a class, for a saved file.

    Args:
        type_: the class.
        what: name of the value that contains it, for errors.

    Raises:
        CompileError: if another process cannot import it.
    """
    name = _LINALG_PREFIX + type_.__name__
    if _find_linalg_type(name) is type_:
        return Named("named", name, wrapped=False)
    return Named("named", get_importable_name(type_, what), wrapped=False)


def _resolve(module: str, qualname: str) -> Any:
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))


def _is_or_wraps(found: Any, function: Callable[..., Any]) -> bool:
    return found is function or getattr(found, "__wrapped__", None) is function
