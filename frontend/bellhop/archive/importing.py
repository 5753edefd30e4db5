"""Import of functions and classes by name."""

import functools
import importlib
from typing import Any


def import_by_name(name: str) -> Any:
    """Return the function or class with a name ``module:qualname``.

    Raises:
        ImportError, AttributeError, ValueError: if there is none.
    """
    module, _, qualname = name.partition(":")
    return resolve(module, qualname)


def resolve(module: str, qualname: str) -> Any:
    """Import a module, and follow a dotted name of attributes from it."""
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))
