"""qjit functions under JAX transformations outside of any program.

Tracing and compiling at each such call would be slow, so the function becomes a ``jax.jit``, whose
traces, derivatives and compiled code JAX caches. JAX keeps them as long as the ``jax.jit`` lives,
in caches that the garbage collector cannot inspect: a callback that references its caller would
keep both alive. So a ``jax.jit`` that is not called between two full garbage collections is dropped
and rebuilt later.
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
    """A ``jax.jit`` of a qjit function, made on demand and dropped if unused.

    Calls of a qjit function ``f`` under an eager JAX transformation, such as ``jax.grad(f)(x)``,
    use it. Each `QJIT` has one; the ``jax.jit`` inside is created at the first call.

    Args:
        make: creates the ``jax.jit``.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        """Start without a ``jax.jit``, which `make` creates at the first call."""
        self._make = make
        self._jit: Any = None
        self._is_used = False

    def __call__(self, static: Static, args: Args, kwargs: Kwargs) -> Any:
        """Call the ``jax.jit`` with JAX's CPU device as default; create it if needed.

        Args:
            static: the values of static arguments, hashable.
            args: dynamic positional arguments, pytrees with tracers among the leaves.
            kwargs: dynamic keyword arguments.
        """
        self._is_used = True
        jit = self._jit
        if jit is None:
            patch_jit_evaluation(
                _is_bellhop_jit, has_callbacks, find_python_failure, gather, default_to_host
            )
            jit = self._jit = self._make()
            _register(self)
        with default_to_host():
            return jit(static, *args, **kwargs)

    def forget_unless_used(self) -> None:
        """Drop the ``jax.jit`` if it was not called since the last call of this method."""
        if not self._is_used:
            self._jit = None
        self._is_used = False


# Suffix of the ``jax.jit``'s name, which the names of its derivatives keep.
ON_HOST = " on the host"


def _is_bellhop_jit(name: str, jaxpr: Any) -> bool:
    """Return whether a ``jit`` belongs to Bellhop, so that it must run on the host.

    True if it contains primitives of Bellhop; also for the ``jax.jit`` of a `TransformedJit` and
    its derivatives, whose names end in `ON_HOST`.

    Args:
        name: name of the jitted function.
        jaxpr: its jaxpr.
    """
    prefixes = "bellhop_", "quantum_"
    return name.endswith(ON_HOST) or any(
        eqn.primitive.name.startswith(prefixes) for eqn in iterate_equations(jaxpr)
    )


_live_jits: set[weakref.ref[TransformedJit]] = set()


def _register(transformed: TransformedJit) -> None:
    """Add a weak reference to `_live_jits`, which `_forget_unused` examines."""
    _live_jits.add(weakref.ref(transformed, _live_jits.discard))


# Free-threaded Python has no generations: all its collections are full.
_ONLY_FULL = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def _forget_unused(
    phase: str,
    info: dict[str, int],
    # Defaults, since collections at the end of the process run after module globals are cleared.
    in_view: set[weakref.ref[TransformedJit]] = _live_jits,
    only_full: bool = _ONLY_FULL,
) -> None:
    """Drop unused ``jax.jit`` functions at the start of a full garbage collection.

    It is an entry of ``gc.callbacks``.

    Args:
        phase: ``"start"`` or ``"stop"``, from ``gc``.
        info: from ``gc``, with the collected generation.
        in_view: weak references to all `TransformedJit` objects with a ``jax.jit``.
        only_full: whether all collections of this Python are full.
    """
    # At the start, so that this collection frees the dropped functions.
    if phase == "start" and (only_full or info["generation"] == 2):
        # Copying a set is atomic, and other threads may add to it.
        for reference in in_view.copy():
            transformed = reference()
            if transformed is not None:
                transformed.forget_unless_used()


gc.callbacks.append(_forget_unused)
