"""Patches of JAX, one file each, installed when a program first needs them.

A patch is a function that replaces something of JAX, once::

    @patch("the dead-code rule of while", "unused values of loops are not computed")
    def register_dce_rule_of_while(rule): partial_eval.dce_rules.setdefault(while_p, rule)

    register_dce_rule_of_while(rule)      # installed, once per process
    in_force()                            # {"the dead-code rule of while": "unused values ..."}

Importing bellhop installs none.  The docstring of each file says what is replaced and why, in which
versions, what in upstream JAX would make it needless, when it is installed, and the test for it.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

import jax

from bellhop.errors import CompileError

_in_force: dict[str, str] = {}
# A patch may install another one.
_lock = threading.RLock()


def patch(replaced: str, reason: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a function that installs a patch: only its first call does.

    Args:
        replaced: the part of JAX that is replaced.
        reason: what the patch is for.
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
    """Return the part of JAX that a patch replaces.

    Raises:
        CompileError: where this version of JAX does not have it.
    """
    try:
        return getattr(owner, name)
    except AttributeError as error:
        raise CompileError(
            f"jax {jax.__version__} has no {owner.__name__}.{name}, which bellhop has to replace. "
            "Install jax>=0.10,<0.12."
        ) from error


def in_force() -> dict[str, str]:
    """Return the patches that are installed: what each replaces, and its reason."""
    return dict(_in_force)
