"""Wrap the functions of JAX callbacks when they are traced.

``jax.pure_callback(f, shape, x)``, with ``flat_f`` for ``f`` on lists of arrays, binds ::

    pure_callback_p.bind(x, callback=flat_f, ...)             in JAX
    pure_callback_p.bind(x, callback=change(flat_f), ...)     with this patch

Replaced: ``bind`` of the primitives of ``jax.pure_callback``, ``io_callback``, ``debug.callback``
and ``buffer_callback``.  The wrapper records the program and the circuit, which later steps
(transformations and lowering) cannot determine.
Versions: 0.10 to 0.12.
Upstream: a hook for traced equations.
Issue: none reported.
Installed: when a program is first traced.
Test: ``test_gates_in_callbacks.py`` and ``test_eager_transformations.py``.
"""

from collections.abc import Callable
from typing import Any

from jax._src import buffer_callback, callback, debugging  # noqa: TID251

from bellhop._patching import original, patch, replace

_PRIMITIVES = (
    (callback, "pure_callback_p"),
    (callback, "io_callback_p"),
    (debugging, "debug_callback_p"),
    (buffer_callback, "buffer_callback_p"),
)


@patch("bind of JAX's callbacks", "JAX's own callbacks know the program that they are called in")
def wrap_jax_callbacks(change: Callable[[Callable[..., Any]], Any]) -> None:
    """Make JAX's callbacks call ``change(function)`` instead of ``function``.

    Replaces ``bind`` of the primitives of ``jax.pure_callback``, ``io_callback``,
    ``debug.callback`` and ``buffer_callback``.

    Args:
        change: called when a callback is traced, with JAX's function on flat arrays; returns the
            function to call in its place.
    """
    for module, name in _PRIMITIVES:
        _wrap_primitive(original(module, name), change)


def wrapped_primitives() -> frozenset[Any]:
    """Return the primitives whose functions `wrap_jax_callbacks` wraps."""
    return frozenset(original(module, name) for module, name in _PRIMITIVES)


def _wrap_primitive(primitive: Any, change: Callable[[Callable[..., Any]], Any]) -> None:
    """Replace a callback primitive's ``bind``, to wrap the callback's function.

    Args:
        primitive: a primitive with the parameter ``callback``.
        change: takes the function in that parameter; returns the replacement.
    """
    bind = original(primitive, "bind")

    def bind_wrapped(*args: Any, callback: Callable[..., Any], **params: Any) -> Any:
        """Bind the primitive with ``change(callback)`` in place of ``callback``."""
        return bind(*args, callback=change(callback), **params)

    replace(primitive, "bind", bind_wrapped)
