"""Python's containers that a converted statement changes in place.

A converted statement is traced as a function of its own, so a tracer that it puts into a list has
leaked.  That is an error, and the container gets its former contents back.
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
    """Trace a statement, and refuse that it leaves computed values in containers around it.

    Args:
        label: the statement, for errors.
        bodies: its parts, which know by name the containers that they use.

    Raises:
        AutoGraphError: naming the container, which is as it was before.
    """
    known = {name: value for body in bodies for name, value in _closure_containers(body)}
    before = {name: (value, value.copy()) for name, value in known.items()}
    try:
        yield
    except BaseException:
        # Python may run the statement again.
        for value, copy in before.values():
            _restore(value, copy)
        raise
    for name, (value, copy) in before.items():
        if _differ(value, copy) and any(map(is_traced, jax.tree.leaves(_elements(value)))):
            _restore(value, copy)
            raise AutoGraphError(
                f"the {label} at {user_site()} leaves values that the program computes in "
                f"'{name}', a {type(value).__name__} of Python's, which is changed once, when the "
                "program is traced. Put them into an array that is made before, as "
                f"{name} = jnp.zeros(n), by {name}[i] = value."
            )


def _closure_containers(body: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(body.__code__.co_freevars, body.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # A variable without a value.
            if type(cell.cell_contents) in _KINDS:
                yield name, cell.cell_contents


def _elements(container: Any) -> list[Any]:
    return list(container.values() if isinstance(container, dict) else container)


def _differ(one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return True
    pairs = zip(_elements(one), _elements(other), strict=True)
    return any(new is not old for new, old in pairs)


def _restore(container: Any, copy: Any) -> None:
    container.clear()
    getattr(container, "extend" if isinstance(container, list) else "update")(copy)
