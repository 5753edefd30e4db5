"""What is public: the names that users are told of, and the objects behind them."""

import inspect
import types
from typing import Any

import bellhop


def documented() -> dict[str, Any]:
    """Return every public function and class, and what is no object with a docstring, by name.

    What a submodule only repeats of ``bellhop`` itself stands under the shorter name.
    """
    found = {f"bellhop.{name}": getattr(bellhop, name) for name in bellhop.__all__}
    modules = {name: value for name, value in found.items() if inspect.ismodule(value)}
    for name in modules:
        del found[name]
    for name, module in modules.items():
        for member in module.__all__:
            value = getattr(module, member)
            if not any(value is known for known in found.values()):
                found[f"{name}.{member}"] = value
    return found


def with_examples() -> dict[str, Any]:
    """Return what a user calls: public functions, classes, and the public methods of these."""
    found = {}
    for name, value in documented().items():
        if not callable(value):
            continue
        found[name] = value
        if inspect.isclass(value) and not issubclass(value, Exception):
            methods = {
                f"{name}.{method}": member
                for base in value.__mro__
                if base.__module__.startswith("bellhop.")
                for method, member in vars(base).items()
                if not method.startswith("_") and isinstance(member, types.FunctionType)
            }
            found |= methods
    return found
