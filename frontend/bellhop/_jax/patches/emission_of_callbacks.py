"""JAX's own callbacks in our programs are lowered to calls of our runtime.

Replaced: ``emit_python_callback``, by which JAX lowers them.  It ties their functions to the
executable of the module that is lowered, and our module becomes a part of another executable.
Outside of our programs it is JAX's.
Versions: 0.10 and 0.11.
Upstream: public lowering rules, or functions that are not numbered by the executable.
Installed: when a program is first lowered.
Test: ``test_callbacks_of_jax.py``.
"""

from collections.abc import Callable
from typing import Any

from jax._src import callback  # noqa: TID251
from jax.interpreters import mlir

from bellhop._patching import original, patch


@patch("emit_python_callback", "JAX's own callbacks in our programs are calls of ours")
def emit_callbacks_by(emit: Callable[..., Any], where: Callable[[], bool]) -> None:
    """Lower JAX's own callbacks by ``emit``.

    Args:
        emit: takes and returns what ``emit_python_callback`` does.
        where: tells whether ``emit`` is for the module that is being lowered.
    """
    emit_by_jax = original(callback, "emit_python_callback")

    def chosen(*args: Any, **kwargs: Any) -> Any:
        return (emit if where() else emit_by_jax)(*args, **kwargs)

    # The second is its public name, which other libraries' rules use.
    callback.emit_python_callback = mlir.emit_python_callback = chosen
