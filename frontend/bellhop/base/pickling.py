"""Objects that replace a function, as decorators make, are pickled as functions are.

``pickle`` names a function, and another process imports it.  What sends functions to workers
(cloudpickle, and with it joblib, dask and ray) sends those of a script or notebook whole, which
nobody can import.  Which of the two pickles an object, nothing tells it; but a function is named by
the one and taken apart by the other.  So the object goes as two functions, which its attributes
name: one tells whether they were named, the other has for its default argument what the object is
made of.

A pickle imports and calls whatever it names, of bellhop's as of anything; what comes from others
is a file that ``bellhop.load`` reads.
"""

import functools
import pickle
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, Self

# The first protocol that names attributes of objects, such as methods.
_OF_ATTRIBUTES = 4


class _PickledFunctions(NamedTuple):
    """Two functions that are found by the name of an object.

    Attributes:
        here: where it is itself, it is the one that it was.
        parts: returns what the object is made of.
    """

    here: Callable[[], None]
    parts: Callable[[], tuple[Any, Any, Any]]


_named: weakref.WeakKeyDictionary["PickledByName", _PickledFunctions] = weakref.WeakKeyDictionary()


class PickledByName:
    """An object that was put in the place of a function, by a decorator for example.

    Where its module and name lead to it, another process finds it there, or gets it whole.
    Elsewhere it is made anew there, as ``__reduce__`` of its class says.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        named = self._pickled
        if named is None:
            return super().__reduce_ex__(protocol)
        if protocol < _OF_ATTRIBUTES:
            return vars(self)["__qualname__"]
        # What it is made of may name it, and so comes after it.
        return _begun, (type(self), named.here), named.parts

    @property
    def _pickled(self) -> _PickledFunctions | None:
        """Those of an object that its name leads to, in a process that only unpickles it too."""
        name = vars(self).get("__qualname__")
        if name is None or _found(self.__module__, name) is not self:
            return None
        return _named.get(self) or _named.setdefault(self, _functions_of(self, name))

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, types.FunctionType):
            vars(self).update(state)
        elif self._pickled is None or state is not self._pickled.parts:
            make, args, attributes = state()
            if make is type(self):
                type(self).__init__(self, *args)
            else:
                vars(self).update(attributes)

    def _parts(self) -> tuple[Any, Any, Any]:
        """Return what it is made of: what makes it, of what, and the state."""
        reduced: Any = super().__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        make, args, *state = reduced
        return make, args, state[0] if state else None

    def _duplicate(self) -> Self:
        """Return another one like it, which ``copy.copy`` does not: it goes by name as well."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other


class _Parts:
    """What an object is made of, asked for where it is pickled."""

    def __init__(self, whole: PickledByName) -> None:
        # It is held by what holds the functions.
        self._whole = weakref.ref(whole)

    def __reduce__(self) -> Any:
        whole = self._whole()
        assert whole is not None
        return tuple, (whole._parts(),)


def _functions_of(whole: PickledByName, name: str) -> _PickledFunctions:
    def here() -> None:
        """Nothing."""

    made_of: Any = _Parts(whole)

    def parts(made_of: Any = made_of) -> Any:
        return made_of

    for function in (here, parts):
        function.__module__ = whole.__module__
        function.__qualname__ = f"{name}._pickled.{function.__name__}"
    return _PickledFunctions(here, parts)


def _begun(kind: type[PickledByName], here: Callable[[], None]) -> PickledByName:
    """Return the object that a function was named by, or a new one that is not made yet."""
    name = here.__qualname__.removesuffix("._pickled.here")
    found = _found(here.__module__, name)
    if isinstance(found, PickledByName) and found._pickled and found._pickled.here is here:
        return found
    return object.__new__(kind)


def _found(module: str | None, name: str) -> Any:
    try:
        return functools.reduce(getattr, name.split("."), sys.modules.get(module or ""))
    except AttributeError:
        return None
