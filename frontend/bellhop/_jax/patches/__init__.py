"""Parts of JAX that are replaced: a file for each, put in when a program first needs it.

Importing bellhop replaces nothing.  Each file says what is replaced and why, in which versions,
what of JAX would make it needless, when it is put in, and which test tells that it can go.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

import jax

from bellhop.errors import CompileError

_in_force: dict[str, str] = {}
# One may put in another.
_lock = threading.RLock()


def patch(replaced: str, reason: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator of what puts a patch in: it does at its first call, and never again.

    Args:
        replaced: the part of JAX.
        reason: what for.
    """

    def decorate(install: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(install)
        def put_in(*arguments: Any) -> None:
            if replaced in _in_force:
                return
            with _lock:
                if replaced not in _in_force:
                    install(*arguments)
                    _in_force[replaced] = reason

        return put_in

    return decorate


def original(owner: Any, name: str) -> Any:
    """Return the part of JAX that a patch is to replace.

    Raises:
        CompileError: naming it, where this JAX has it no more.
    """
    try:
        return getattr(owner, name)
    except AttributeError as error:
        raise CompileError(
            f"jax {jax.__version__} has no {owner.__name__}.{name}, which bellhop has to replace. "
            "Install jax>=0.10,<0.12."
        ) from error


def in_force() -> dict[str, str]:
    """Return what is replaced so far, and what for."""
    return dict(_in_force)
