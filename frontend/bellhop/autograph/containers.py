"""Checks of Python containers that a converted statement mutates.

A converted statement is traced as a separate function, so a tracer that it stores in a list leaks.
This raises an error, and the container's contents are restored.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax

from bellhop.autograph.variables import is_traced
from bellhop.base.source import user_site
from bellhop.errors import AutoGraphError

_KINDS = (list, dict, set)


@contextlib.contextmanager
def check_not_mutated(label: str, *bodies: Callable[..., Any]) -> Iterator[None]:
    """Raise an error if code in a ``with`` block leaves tracers in an outer container.

    The block traces a statement. If it raises an exception, the contents of the containers are
    restored, since Python may run the statement instead.

    Args:
        label: name of the statement, for errors.
        bodies: functions of the statement's parts; the lists, dictionaries and sets in their
            closures, and in global variables that they name, are checked.

    Raises:
        AutoGraphError: names a container that was changed and holds a tracer; its contents are
            restored.
    """
    containers = {name: value for body in bodies for name, value in _find_containers(body)}
    before = {name: (value, value.copy()) for name, value in containers.items()}
    try:
        yield
    except BaseException:
        # Python may run the statement instead.
        for value, copy in before.values():
            _restore(value, copy)
        raise
    for name, (value, copy) in before.items():
        if _differ(value, copy) and any(map(is_traced, jax.tree.leaves(_elements(value)))):
            _restore(value, copy)
            raise AutoGraphError(
                f"the {label} at {user_site()} leaves traced values in "
                f"'{name}', a Python {type(value).__name__}, which would change only while the "
                "program is traced. Assign the values to variables, or to elements of an array: "
                "x = jnp.zeros(n) before the statement, and x[i] = value in it."
            )


def _find_containers(body: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each list, dictionary and set that a function refers to.

    These are the variables in its closure and its global variables. Containers inside of other
    containers are not listed.
    """
    for name in body.__code__.co_names:
        if type(value := body.__globals__.get(name)) in _KINDS:
            yield name, value
    for name, cell in zip(body.__code__.co_freevars, body.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # A variable without a value.
            if type(cell.cell_contents) in _KINDS:
                yield name, cell.cell_contents


def _elements(container: Any) -> list[Any]:
    """List the values of a dictionary, or the elements of a list or set."""
    return list(container.values() if isinstance(container, dict) else container)


def _differ(container: Any, copy: Any) -> bool:
    """Return whether a container has other elements, by identity, than its earlier copy."""
    if len(container) != len(copy):
        return True
    pairs = zip(_elements(container), _elements(copy), strict=True)
    return any(new is not old for new, old in pairs)


def _restore(container: Any, copy: Any) -> None:
    """Replace the contents of a container, in place, by the contents of a copy."""
    container.clear()
    getattr(container, "extend" if isinstance(container, list) else "update")(copy)
