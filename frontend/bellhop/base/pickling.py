"""Pickling of objects that replace a function, such as decorated functions.

``pickle`` stores a module-level function by name, and the other process imports it. cloudpickle
(used by joblib, dask and ray) stores functions of scripts and notebooks by value, since other
processes cannot import them. An object cannot detect which of the two pickles it. But `pickle` and
cloudpickle treat *functions* differently, so the object is pickled as two functions, which are
attributes of it: `here`, whose identity shows if the name was resolved, and `parts`, whose
default argument holds the object's contents.

Unpickling can import and call anything, for Bellhop's objects as for all pickles. Use
`bellhop.load` for files that are not trusted.
"""

import functools
import pickle
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, Self

# First pickle protocol that can store attributes of objects, such as methods, by name.
_MIN_ATTRIBUTE_PROTOCOL = 4


class _PickledFunctions(NamedTuple):
    """Two functions that are found as attributes of an object's name.

    Attributes:
        here: marker; the same function object in the process that created it.
        parts: returns ``(constructor, args, state)`` of the object.
    """

    here: Callable[[], None]
    parts: Callable[[], tuple[Any, Any, Any]]


_named: weakref.WeakKeyDictionary["PickledByName", _PickledFunctions] = weakref.WeakKeyDictionary()


class PickledByName:
    """Base class of objects that replace a function, for example by a decorator.

    If the object's module and name lead to it, another process looks it up there, or receives its
    contents. Otherwise it is pickled as its class's ``__reduce__`` defines.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        named = self._pickled
        if named is None:
            return super().__reduce_ex__(protocol)
        if protocol < _MIN_ATTRIBUTE_PROTOCOL:
            return vars(self)["__qualname__"]
        # The contents may refer to the object, so they are stored as its state, after the object.
        return _find_or_allocate, (type(self), named.here), named.parts

    @property
    def _pickled(self) -> _PickledFunctions | None:
        """The object's marker functions; None if its name does not lead to it."""
        name = vars(self).get("__qualname__")
        if name is None or _look_up(self.__module__, name) is not self:
            return None
        return _named.get(self) or _named.setdefault(self, _make_functions(self, name))

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
        """Return ``(constructor, args, state)`` as ``__reduce_ex__`` does."""
        reduced: Any = super().__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        make, args, *state = reduced
        return make, args, state[0] if state else None

    def _duplicate(self) -> Self:
        """Return a shallow copy; ``copy.copy`` would return the object itself."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other


class _LazyContents:
    """Contents of an object, which are determined only when it is pickled.

    Args:
        whole: the object.
    """

    def __init__(self, whole: PickledByName) -> None:
        # A weak reference, since `_named` must not keep the object alive.
        self._whole = weakref.ref(whole)

    def __reduce__(self) -> Any:
        whole = self._whole()
        assert whole is not None
        return tuple, (whole._parts(),)


def _make_functions(whole: PickledByName, name: str) -> _PickledFunctions:
    """Return the marker functions of an object, named as its attributes.

    Args:
        whole: the object.
        name: its qualified name.
    """

    def here() -> None:
        """Do nothing."""

    contents: Any = _LazyContents(whole)

    def parts(contents: Any = contents) -> Any:
        return contents

    for function in (here, parts):
        function.__module__ = whole.__module__
        function.__qualname__ = f"{name}._pickled.{function.__name__}"
    return _PickledFunctions(here, parts)


def _find_or_allocate(kind: type[PickledByName], here: Callable[[], None]) -> PickledByName:
    """Return the object that `here` belongs to, or a new uninitialised object.

    Args:
        kind: class of a new object.
        here: unpickled marker function.
    """
    name = here.__qualname__.removesuffix("._pickled.here")
    found = _look_up(here.__module__, name)
    if isinstance(found, PickledByName) and found._pickled and found._pickled.here is here:
        return found
    return object.__new__(kind)


def _look_up(module: str | None, name: str) -> Any:
    """Return the object with a module and a qualified name, or None."""
    try:
        return functools.reduce(getattr, name.split("."), sys.modules.get(module or ""))
    except AttributeError:
        return None
