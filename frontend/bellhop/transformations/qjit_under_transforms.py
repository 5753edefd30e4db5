"""A qjit function under transformations of which none is in a program.

Each such call would trace the function and compile its pieces.  So it is a ``jax.jit`` there, and
JAX finds what it traced, differentiated, batched and compiled before.  It keeps all that for as
long as the ``jax.jit`` is alive, in caches that garbage collection does not look into: where a
callback refers to the function that calls it, they would keep both for ever.  So what was not
called from one full collection to the next is made anew when it is.
"""

import gc
import sysconfig
import weakref
from collections.abc import Callable
from typing import Any

from bellhop._jax.patches.reentrant_jit import patch_jit_evaluation
from bellhop.arguments.static_arguments import Static
from bellhop.base.types import Args, Kwargs
from bellhop.compiler.failures import find_python_failure
from bellhop.compiler.host_placement import default_to_host, gather
from bellhop.compiler.lower_in_jax_jit import has_callbacks
from bellhop.jaxprs.equations import iterate_equations


class TransformedJit:
    """The ``jax.jit`` that a function is where it is transformed outside of programs."""

    def __init__(self, make: Callable[[], Any]) -> None:
        """Begin without one.

        Args:
            make: makes it.
        """
        self._make = make
        self._jit: Any = None
        self._is_used = False

    def __call__(self, static: Static, args: Args, kwargs: Kwargs) -> Any:
        """Call the function."""
        self._is_used = True
        jit = self._jit
        if jit is None:
            patch_jit_evaluation(
                _is_bellhop_jit, has_callbacks, find_python_failure, gather, default_to_host
            )
            jit = self._jit = self._make()
            _keep_in_view(self)
        with default_to_host():
            return jit(static, *args, **kwargs)

    def forget_unless_used(self) -> None:
        """Forget what nobody called since this was asked last."""
        if not self._is_used:
            self._jit = None
        self._is_used = False


# How the name of the ``jax.jit`` ends: that of each of its derivatives does too.
ON_HOST = " on the host"


def _is_bellhop_jit(name: str, jaxpr: Any) -> bool:
    """Tell whether a ``jit`` is one of a function's, or something of ours is in it."""
    ours = "bellhop_", "quantum_"
    return name.endswith(ON_HOST) or any(
        eqn.primitive.name.startswith(ours) for eqn in iterate_equations(jaxpr)
    )


_in_view: set[weakref.ref[TransformedJit]] = set()


def _keep_in_view(transformed: TransformedJit) -> None:
    _in_view.add(weakref.ref(transformed, _in_view.discard))


# A free-threaded Python has no generations: all its collections are full, whatever they say.
_ONLY_FULL = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def _forget_unused(
    phase: str,
    info: dict[str, int],
    # At the end of the process modules have lost their names, and collections still come.
    in_view: set[weakref.ref[TransformedJit]] = _in_view,
    only_full: bool = _ONLY_FULL,
) -> None:
    # At the start, so that this collection finds what is garbage then.
    if phase == "start" and (only_full or info["generation"] == 2):
        # A set is copied in one piece, while other threads add to it.
        for reference in in_view.copy():
            transformed = reference()
            if transformed is not None:
                transformed.forget_unless_used()


gc.callbacks.append(_forget_unused)
