"""Public names that JAX 0.11 removed and PennyLane 0.45 uses.

On jax 0.11::

    jax.core.is_concrete(1.0)     AttributeError; True after restore_removed_names()

Replaced: ``jax.core.is_concrete`` and ``jax.core.concrete_or_error`` are defined again.
Versions: 0.11 and 0.12.
Upstream: a PennyLane that tests for ``jax.core.Tracer`` instead.
Issue: pennylane#9930.
Installed: when a program with PennyLane is first traced.
Test: ``tests/frontend/circuits`` on jax 0.11 and 0.12.
"""

import jax
from jax._src import core  # noqa: TID251

from bellhop._patching import original, patch, replace


def restore_removed_names() -> None:
    """Restore the names in ``jax.core`` that PennyLane uses and JAX 0.11 removed."""
    if jax.__version_info__ >= (0, 11):
        _install()


@patch("jax.core.is_concrete and concrete_or_error", "PennyLane uses them")
def _install() -> None:
    """Define ``is_concrete`` and ``concrete_or_error`` in ``jax.core`` again."""
    for name in ("is_concrete", "concrete_or_error"):
        replace(jax.core, name, original(core, name))
