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
    """The two functions by which a pickle stores an object that replaces a function.

    They are attributes of the object, so a pickle stores them by name, as ``f._pickled.here``;
    cloudpickle stores them by value if no other process can import ``f``.

    Attributes:
        here: does nothing. Unpickling compares it with ``f._pickled.here`` of this process: if they
            are the same object, the result is ``f``, otherwise a copy that is made from `parts`.
        parts: returns ``(constructor, args, state)`` of the object, as ``__reduce_ex__`` does.
    """

    here: Callable[[], None]
    parts: Callable[[], tuple[Any, Any, Any]]


_named: weakref.WeakKeyDictionary["PickledByName", _PickledFunctions] = weakref.WeakKeyDictionary()


class PickledByName:
    """Base class of objects that replace a function, for example under a decorator.

    An object that can be imported by its module and qualified name is pickled by name. If
    cloudpickle stores it by value, since other processes cannot import the module, unpickling makes
    a copy. All other objects are pickled as the class's ``__reduce__`` defines.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Return the value that ``pickle`` and cloudpickle store in place of the object.

        If importing the object's qualified name leads to it, the value has the functions `here` and
        `parts`, or is the name for protocols before 4, which cannot pickle such functions.
        Otherwise the class's ``__reduce__`` defines it.

        Args:
            protocol: protocol of the pickle, an integer.
        """
        named = self._pickled
        if named is None:
            return super().__reduce_ex__(protocol)
        if protocol < _MIN_ATTRIBUTE_PROTOCOL:
            return vars(self)["__qualname__"]
        # The contents may refer to the object, so they are stored as its state, after the object.
        return _find_or_allocate, (type(self), named.here), named.parts

    @property
    def _pickled(self) -> _PickledFunctions | None:
        """The functions ``here`` and ``parts``, which are pickled in the object's place.

        ``here`` is stored by its qualified name, which leads to the object; ``parts`` returns
        constructor, arguments and state for a copy. The first access makes both. None if importing
        the object's qualified name does not lead to the object.
        """
        name = vars(self).get("__qualname__")
        if name is None or _look_up(self.__module__, name) is not self:
            return None
        return _named.get(self) or _named.setdefault(self, _make_functions(self, name))

    def __setstate__(self, state: Any) -> None:
        """Restore the contents of an unpickled copy; leave an imported object unchanged.

        Args:
            state: dictionary of attributes; or the pickled function `parts`, which is this object's
                own function if unpickling imported the object.
        """
        if not isinstance(state, types.FunctionType):
            vars(self).update(state)
        elif self._pickled is None or state is not self._pickled.parts:
            make, args, attributes = state()
            if make is type(self):
                type(self).__init__(self, *args)
            else:
                vars(self).update(attributes)

    def _parts(self) -> tuple[Any, Any, Any]:
        """Return ``(constructor, args, state)`` from ``__reduce_ex__`` of the base class."""
        reduced: Any = super().__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        make, args, *state = reduced
        return make, args, state[0] if state else None

    def _duplicate(self) -> Self:
        """Return a shallow copy; ``copy.copy`` would return the object itself."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other


class _LazyContents:
    """Contents of a pickled object: the default argument of its function `parts`.

    The contents are determined only when this object is pickled.

    Args:
        whole: the object that is pickled; it is referenced weakly.
    """

    def __init__(self, whole: PickledByName) -> None:
        # A weak reference, since `_named` must not keep the object alive.
        self._whole = weakref.ref(whole)

    def __reduce__(self) -> Any:
        """Pickle this object as the tuple ``(constructor, args, state)``."""
        whole = self._whole()
        assert whole is not None
        return tuple, (whole._parts(),)


def _make_functions(whole: PickledByName, name: str) -> _PickledFunctions:
    """Make the two functions that are pickled in place of an object.

    Their qualified names say that they are attributes of the object, such as ``f._pickled.here``.

    Args:
        whole: the object.
        name: its qualified name, such as ``f``.
    """

    def here() -> None:
        """Do nothing."""

    contents: Any = _LazyContents(whole)

    def parts(contents: Any = contents) -> Any:
        """Return ``(constructor, args, state)``, to which unpickling sets the default."""
        return contents

    for function in (here, parts):
        function.__module__ = whole.__module__
        function.__qualname__ = f"{name}._pickled.{function.__name__}"
    return _PickledFunctions(here, parts)


def _find_or_allocate(kind: type[PickledByName], here: Callable[[], None]) -> PickledByName:
    """Find the object that a pickle refers to by name, or allocate a new object.

    Unpickling calls this function first, and then ``__setstate__`` of the result. The function
    `here` has the object's module, and the object's qualified name with the suffix
    ``._pickled.here``.

    Args:
        kind: class of a new object.
        here: the function `_PickledFunctions.here` of the object; if it was stored by value, it is
            a copy, which belongs to no object yet.

    Returns:
        the object of this process, or a new uninitialised object.
    """
    name = here.__qualname__.removesuffix("._pickled.here")
    found = _look_up(here.__module__, name)
    if isinstance(found, PickledByName) and found._pickled and found._pickled.here is here:
        return found
    return object.__new__(kind)


def _look_up(module: str | None, name: str) -> Any:
    """Return the object with a qualified name in an imported module, or None."""
    try:
        return functools.reduce(getattr, name.split("."), sys.modules.get(module or ""))
    except AttributeError:
        return None
