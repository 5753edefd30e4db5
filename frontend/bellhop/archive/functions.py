"""Functions and classes by name in files, and the policy for resolving them."""

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import jax

from bellhop.archive.importing import import_by_name, resolve
from bellhop.archive.own_functions import make_own_function
from bellhop.base.option_checks import check_mapping
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.native_target import NativeSymbol, find_symbol
from bellhop.errors import CompileError


@dataclass(frozen=True)
class ImportedRecord:
    """A function or class in a file, stored as the name by which it can be imported.

    Attributes:
        kind: ``"named"``, which distinguishes the kinds of functions in JSON.
        name: ``module:qualname``.
        wrapped: whether the function is ``__wrapped__`` of the object with this name, as for the
            user's function under a decorator.
    """

    kind: Literal["named"]
    name: str
    wrapped: bool


@dataclass(frozen=True)
class BuiltinRecord:
    """A function of Bellhop, or ``print``, in a file: its class and arguments.

    ``load`` accepts it without ``trust=True``.

    Attributes:
        kind: ``"bellhop"``, which distinguishes the kinds of functions in JSON.
        name: ``module:qualname`` of a subclass of ``BuiltinFunction``, or of ``print``.
        arguments: strings that its constructor takes, such as a format string; None for ``print``.
    """

    kind: Literal["bellhop"]
    name: str
    arguments: tuple[str, ...] | None


@dataclass(frozen=True)
class CFunction:
    """A C function in a file, stored as the names of its library and its symbol.

    Attributes:
        kind: ``"C"``, which distinguishes the kinds of functions in JSON.
        library: name that the system's loader finds.
        symbol: name of the function in the library.
    """

    kind: Literal["C"]
    library: str
    symbol: str


Function: TypeAlias = ImportedRecord | BuiltinRecord | CFunction

# Python's print needs no trust.
_PRINT = "builtins:print"
_LINALG_PREFIX = "jax.numpy.linalg:"


@functools.cache
def _get_linalg_types() -> dict[str, type[Any]]:
    """Return the named tuple classes that functions of ``jax.numpy.linalg`` return.

    Files may contain these classes without trust. JAX does not export them, so they are found by
    abstract evaluation.

    Returns:
        the classes by their names in a file, such as ``"jax.numpy.linalg:EighResult"``.
    """
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


class NameResolver:
    """Resolves the names of functions and classes in a file, if ``load`` allows them.

    JAX's named tuples and Bellhop's own functions are always allowed.

    Args:
        functions: allowed functions and classes, by their names in the file.
        trust: whether all other names are imported too.

    Attributes:
        trust: as the argument.

    Raises:
        TypeError: if `functions` is not a mapping, or a value in it is not callable.
    """

    def __init__(self, functions: Mapping[str, Any], *, trust: bool) -> None:
        check_mapping("load", "functions", functions, "{'name': function}")
        for name, function in functions.items():
            if not callable(function):
                raise TypeError(
                    f"load: functions['{name}'] is {function!r}, expected a function or a class. "
                    "Pass the function itself."
                )
        self._given = functions
        self.trust = trust

    def find_missing(self, record: Any) -> list[str]:
        """List the functions and classes that a file names, but may not use.

        It may use functions and classes that the user passed to ``load``, and classes of JAX.

        Args:
            record: data of the file: nested dictionaries, sequences and dataclasses.

        Returns:
            the names that are not allowed, sorted; empty for a trusted file.
        """
        if self.trust:
            return []
        names = {named.name for named in _iterate_names(record)} - self._given.keys()
        return sorted(name for name in names if _find_linalg_type(name) is None)

    def resolve_function(self, function: Function) -> Callable[..., Any]:
        """Find the Python or C function that a callback in a file calls.

        Args:
            function: the function as `encode_function` stored it.

        Raises:
            CompileError: if the function is not allowed, or cannot be imported or loaded.
            Malformed: for a function of Bellhop that does not exist, or has invalid arguments.
        """
        if isinstance(function, BuiltinRecord):
            if function == BuiltinRecord("bellhop", _PRINT, None):
                return print
            return make_own_function(function.name, function.arguments, trust=self.trust)
        if isinstance(function, CFunction):
            return self._find_c_function(function)
        found = self._object(function.name)
        return getattr(found, "__wrapped__", found) if function.wrapped else found

    def _find_c_function(self, function: CFunction) -> NativeSymbol:
        """Find a C function that a saved program calls, in its shared library.

        Raises:
            CompileError: if the saved program is not trusted, or the function cannot be loaded.
        """
        name = f"the C function {function.symbol} of {function.library}"
        if not self.trust:
            raise CompileError(
                f"the saved program calls {name}, which is supported in trusted files only. Pass "
                "trust=True to load if you trust the file like a script that you run."
            )
        try:
            return find_symbol(function.library, function.symbol)
        except (OSError, AttributeError) as error:
            problem = str(error).rstrip(".")
            raise CompileError(
                f"the saved program calls {name}, which cannot be loaded here: {problem}. Install "
                "a version of the library that has this function."
            ) from error

    def get_tuple_class(self, named: ImportedRecord) -> type[Any]:
        """Find the class of named tuples that a file names.

        Args:
            named: the class, by name.

        Raises:
            CompileError: if the name is not allowed, or does not refer to a class of named tuples.
        """
        found = self._object(named.name)
        if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
            raise CompileError(
                f"the saved program has values of the class {named.name}, which is {found!r} here, "
                "expected a class of named tuples. Pass the class, load(path, "
                f"functions={{'{named.name}': ...}})."
            )
        return found

    def _object(self, name: str) -> Any:
        """Find the function or class with a name in a file.

        It is an object that the user passed to ``load``, or a class of JAX; for a trusted file,
        any other name is imported.

        Args:
            name: ``module:qualname``.

        Raises:
            CompileError: if the name is not allowed or cannot be imported.
        """
        if name in self._given:
            return self._given[name]
        known = _find_linalg_type(name)
        if known is not None:
            return known
        if not self.trust:
            raise CompileError(
                f"the saved program uses {name}, which was not passed to load. Pass the function "
                f"or class, load(path, functions={{'{name}': ...}}), or use trust=True."
            )
        try:
            return import_by_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise CompileError(
                f"the saved program uses {name}, which cannot be imported here: {error}. Put a "
                "module that defines it on Python's path (sys.path), or pass the function or "
                f"class: load(path, functions={{'{name}': ...}}, trust=True)."
            ) from error


def _iterate_names(record: Any) -> Iterator[ImportedRecord]:
    """Yield all functions and classes that a file stores by name, in any order.

    C functions and functions of Bellhop are stored in other classes and are left out.

    Args:
        record: data of the file: nested dictionaries, sequences and dataclasses.
    """
    if isinstance(record, ImportedRecord):
        yield record
    elif isinstance(record, list | tuple):
        for each in record:
            yield from _iterate_names(each)
    elif isinstance(record, dict):
        yield from _iterate_names(tuple(record.values()))
    elif dataclasses.is_dataclass(record):
        yield from _iterate_names(tuple(vars(record).values()))


def get_importable_name(function: Callable[..., Any], what: str) -> str:
    """Return the name by which another process can import a function or class.

    Args:
        function: the function or class.
        what: description of the saved object that contains the function, for errors.

    Returns:
        ``module:qualname``; the object with this name is `function`, or wraps it.

    Raises:
        CompileError: if another process could not import `function` by its name.
    """
    qualname = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    module = getattr(function, "__module__", None) or _find_module(function, qualname)
    noun = "class" if isinstance(function, type) else "function"
    if module is None or qualname is None:
        reason = f"no imported module contains the {noun} {function!r} under its name"
    elif module == "__main__":
        reason = (
            f"the {noun} {qualname} is defined in the main script, which no other process can "
            "import"
        )
    else:
        try:
            found = resolve(module, qualname)
        except (ImportError, AttributeError, ValueError):
            reason = f"the {noun} {module}.{qualname} cannot be imported"
        else:
            if _is_or_wraps(found, function):
                return f"{module}:{qualname}"
            reason = f"an import of {module}.{qualname} gives {found!r}, not this {noun}"
    raise CompileError(
        f"{what} cannot be saved: {reason}. Define the {noun} at the top level of a module, so "
        "that another process can import it by name."
    )


def _find_module(function: Callable[..., Any], name: str | None) -> str | None:
    """Find an imported module that contains a function under its name, or None.

    Functions of C extensions, such as the ufuncs of SciPy, do not name their modules. A public
    module is preferred to a private module, and a short name to a long name.
    """
    modules = [
        path
        for path, module in list(sys.modules.items())
        if path != "__main__" and name and getattr(module, "__dict__", {}).get(name) is function
    ]
    is_private = lambda path: any(part.startswith("_") for part in path.split("."))
    return min(modules, key=lambda path: (is_private(path), len(path), path), default=None)


def encode_function(function: Callable[..., Any], what: str) -> Function:
    """Convert a callback's function to data from which another process can find the function.

    Args:
        function: the user's function, a C function, or a function of Bellhop.
        what: description of the callback, for errors.

    Returns:
        an `ImportedRecord`, `CFunction` or `BuiltinRecord` for the saved file.

    Raises:
        CompileError: if another process cannot find the function.
    """
    if isinstance(function, functools.partial):
        raise CompileError(
            f"{what} cannot be saved: a functools.partial has no name for another process to "
            "import. Define a function at the top level of a module."
        )
    if isinstance(function, NativeSymbol):
        if function.library is None:
            raise CompileError(
                f"{what} cannot be saved: functions of ctypes or Numba exist in this process "
                "only. Put the function into a shared library, and use "
                "native_callback(library=..., symbol=...)."
            )
        return CFunction("C", function.library, function.name)
    if isinstance(function, BuiltinFunction):
        return BuiltinRecord(
            "bellhop", get_importable_name(type(function), what), function.arguments
        )
    name = get_importable_name(function, what)
    if name == _PRINT:
        return BuiltinRecord("bellhop", name, None)
    # The name of a decorated function refers to the callback.
    return ImportedRecord("named", name, wrapped=import_by_name(name) is not function)


def encode_type(type_: type[Any], what: str) -> ImportedRecord:
    """Convert a class of named tuples to its name, for a saved file.

    Args:
        type_: the class.
        what: description of the saved object that contains the class, for errors.

    Raises:
        CompileError: if another process cannot import it.
    """
    name = _LINALG_PREFIX + type_.__name__
    if _find_linalg_type(name) is type_:
        return ImportedRecord("named", name, wrapped=False)
    return ImportedRecord("named", get_importable_name(type_, what), wrapped=False)


def _is_or_wraps(found: Any, function: Callable[..., Any]) -> bool:
    """Return whether an object is `function`, or a decorator's wrapper of `function`."""
    return found is function or getattr(found, "__wrapped__", None) is function
