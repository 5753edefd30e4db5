"""Python functions and classes by name, as another process finds them, if it is let."""

import contextlib
import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import jax

from bellhop.archive.format_strings import verify_format
from bellhop.archive.schema import Malformed
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.native_target import NativeSymbol, find_symbol
from bellhop.errors import CompileError


@dataclass(frozen=True)
class Named:
    """What is somebody else's: a function or a class.

    Attributes:
        name: ``module:qualname``.
        wrapped: whether it is what the function of that name is a decorated form of.
    """

    kind: Literal["named"]
    name: str
    wrapped: bool


@dataclass(frozen=True)
class Ours:
    """What is part of bellhop, and harmless.

    Attributes:
        name: ``module:qualname`` of an ``BuiltinFunction``, or of Python's ``print``.
        arguments: what it is made of; None for ``print``.
    """

    kind: Literal["bellhop"]
    name: str
    arguments: tuple[str, ...] | None


@dataclass(frozen=True)
class CFunction:
    """A C function of a shared library.

    Attributes:
        library: the name that the system's loader finds.
        symbol: the name of the function.
    """

    kind: Literal["C"]
    library: str
    symbol: str


Function: TypeAlias = Named | Ours | CFunction

# Python's own, which needs no trust either.
_PRINT = "builtins:print"
_OF_LINALG = "jax.numpy.linalg:"


@functools.cache
def _types_of_linalg() -> dict[str, type[Any]]:
    """Return the classes of named tuples that JAX's linear algebra returns, by name."""
    matrix = jax.ShapeDtypeStruct((1, 1), float)
    linalg = jax.numpy.linalg
    functions = (linalg.eig, linalg.eigh, linalg.qr, linalg.slogdet, linalg.svd)
    types = [type(jax.eval_shape(function, matrix)) for function in functions]
    return {_OF_LINALG + type_.__name__: type_ for type_ in types}


def _type_of_linalg(name: str) -> type[Any] | None:
    # To find them takes a while.
    is_one = name.startswith(_OF_LINALG) and name.endswith("Result")
    return _types_of_linalg().get(name) if is_one else None


class Allowed:
    """What a file may make of the names in it.

    Args:
        functions: functions and classes by name.
        trust: whether others are imported.
    """

    def __init__(self, functions: Mapping[str, Any], *, trust: bool) -> None:
        for name, function in functions.items():
            if not callable(function):
                raise TypeError(
                    f"load takes functions and classes by name, and '{name}' is {function!r}. "
                    "Give the function itself."
                )
        self._given = functions
        self.trust = trust

    def lacks(self, record: Any) -> list[str]:
        """Return the names in what was read of a file that nobody has given."""
        if self.trust:
            return []
        names = {named.name for named in _named(record)} - self._given.keys()
        return sorted(name for name in names if _type_of_linalg(name) is None)

    def function(self, function: Function) -> Callable[..., Any]:
        """Return the function that ``encode_function`` described."""
        if isinstance(function, Ours):
            return _our_function(function, trust=self.trust)
        if isinstance(function, CFunction):
            return self._find_c_function(function)
        found = self._object(function.name)
        return getattr(found, "__wrapped__", found) if function.wrapped else found

    def _find_c_function(self, function: CFunction) -> NativeSymbol:
        """Load the library of a C function."""
        name = f"the C function {function.symbol} of {function.library}"
        if not self.trust:
            raise CompileError(
                f"it calls {name}, and no library is loaded because a file names it. Pass "
                "trust=True to load if you would run any script from where the file is from."
            )
        try:
            return find_symbol(function.library, function.symbol)
        except (OSError, AttributeError) as error:
            raise CompileError(
                f"it calls {name}, which cannot be loaded here: {error} Install the library."
            ) from error

    def type_of(self, named: Named) -> type[Any]:
        """Return a class of tuples."""
        found = self._object(named.name)
        if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
            raise CompileError(
                f"the saved program has values of {named.name}, which is {found!r} here. Give the "
                "class of named tuples that it was."
            )
        return found

    def _object(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        known = _type_of_linalg(name)
        if known is not None:
            return known
        if not self.trust:
            raise CompileError(
                f"the saved program calls {name}. Give it to load, or trust the file."
            )
        try:
            return function_at(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise CompileError(
                f"the saved program calls {name}, which cannot be imported here: {error}. Put its "
                "module where Python finds it."
            ) from error


def _our_function(ours: Ours, *, trust: bool) -> Callable[..., Any]:
    """Make a function of our own, of which a file may hold nothing but strings.

    Args:
        ours: its name and the strings.
        trust: whether the strings may do what they can do in a program of this process.

    Raises:
        Malformed: where there is no such function, or where it refuses the strings.
    """
    if ours == Ours("bellhop", _PRINT, None):
        return print
    module, _, qualname = ours.name.partition(":")
    room = module.split(".")
    # None of these does anything when it is imported.
    if room[0] == "bellhop" and "__main__" not in room and ours.arguments is not None:
        found: Any = None
        with contextlib.suppress(ImportError, AttributeError, ValueError, TypeError):
            found = _at(module, qualname)
        is_builtin = isinstance(found, type) and issubclass(found, BuiltinFunction)
        # The base class has no call of its own.
        if is_builtin and found is not BuiltinFunction:
            try:
                if found.is_formatter and ours.arguments and not trust:
                    verify_format(ours.arguments[0])
                return found(*ours.arguments)
            except (ValueError, TypeError) as error:
                raise Malformed(
                    f"it has a function '{ours.name}' that cannot be: {error}"
                ) from error
    raise Malformed(f"it calls a function '{ours.name}' that bellhop does not have")


def _named(record: Any) -> Iterator[Named]:
    if isinstance(record, Named):
        yield record
    elif isinstance(record, list | tuple):
        for each in record:
            yield from _named(each)
    elif isinstance(record, dict):
        yield from _named(tuple(record.values()))
    elif dataclasses.is_dataclass(record):
        yield from _named(tuple(vars(record).values()))


def name_of(function: Callable[..., Any], what: str) -> str:
    """Return ``module:qualname`` of a function or class.

    Args:
        function: it.
        what: what it is, for errors.

    Raises:
        CompileError: where that name does not lead to it in another process.
    """
    module = getattr(function, "__module__", None)
    qualname = getattr(function, "__qualname__", None)
    if module is None or qualname is None:
        reason = "it has no name"
    elif module == "__main__":
        reason = "it is defined in the main script, which no other process can import"
    else:
        try:
            found = _at(module, qualname)
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


def function_at(name: str) -> Any:
    """Return the function or class that ``name_of`` gave a name."""
    module, _, qualname = name.partition(":")
    return _at(module, qualname)


def encode_function(function: Callable[..., Any], what: str) -> Function:
    """Return how another process makes a callback's function.

    Raises:
        CompileError: where another process cannot.
    """
    if isinstance(function, functools.partial):
        raise CompileError(
            f"{what} cannot be saved: it is a functools.partial. Define a function at the top "
            "level of a module."
        )
    if isinstance(function, NativeSymbol):
        if function.library is None:
            raise CompileError(
                f"{what} cannot be saved: another process does not find a function of ctypes or "
                "Numba. Put it into a shared library, and use native_callback(library=..., "
                "symbol=...)."
            )
        return CFunction("C", function.library, function.name)
    if isinstance(function, BuiltinFunction):
        return Ours("bellhop", name_of(type(function), what), function.arguments)
    name = name_of(function, what)
    if name == _PRINT:
        return Ours("bellhop", name, None)
    # A decorated function is known by the name of the callback that it became.
    return Named("named", name, wrapped=function_at(name) is not function)


def encode_type(type_: type[Any], what: str) -> Named:
    """Return how another process finds a class.

    Raises:
        CompileError: where it cannot.
    """
    name = _OF_LINALG + type_.__name__
    if _type_of_linalg(name) is type_:
        return Named("named", name, wrapped=False)
    return Named("named", name_of(type_, what), wrapped=False)


def _at(module: str, qualname: str) -> Any:
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))


def _is_or_wraps(found: Any, function: Callable[..., Any]) -> bool:
    return found is function or getattr(found, "__wrapped__", None) is function
