"""Objects that replace a function, as decorators make, are pickled by name, as functions are.

A pickle imports and calls whatever it names, of bellhop's as of anything; what comes from others
is a file that ``bellhop.load`` reads.
"""

import functools
import sys
from typing import Any, Self


class PickledByName:
    """An object that was put in the place of a function, by a decorator for example.

    Where its module and name lead to it, another process finds it there.  Elsewhere it is made
    anew there, as ``__reduce__`` of its class says.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        name = getattr(self, "__qualname__", None)
        if name is not None and _found(self.__module__, name) is self:
            return name
        return super().__reduce_ex__(protocol)

    def _duplicate(self) -> Self:
        """Return another one like it, which ``copy.copy`` does not: it goes by name as well."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other


def _found(module: str | None, name: str) -> Any:
    try:
        return functools.reduce(getattr, name.split("."), sys.modules.get(module or ""))
    except AttributeError:
        return None
