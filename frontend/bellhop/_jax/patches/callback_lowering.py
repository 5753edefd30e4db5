"""JAX's own callbacks in our programs are lowered to calls of our runtime.

``jax.pure_callback(f, shape, x)`` is lowered to ::

    stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {index = 0}    in a plain jax.jit
    callback.call @f(%x)                                                  in a qjit function

Replaced: ``emit_python_callback``, by which JAX lowers its callbacks.  JAX's custom call finds its
function by a number in the executable of the module that was lowered.  Our module becomes a part of
another executable, which has no such function.  Outside our programs JAX's own function runs.
Versions: 0.10 to 0.12.
Upstream: public lowering rules, or functions that are not numbered by the executable.
Installed: when a program is first lowered.
Test: ``test_jax_callbacks.py``.
"""

from collections.abc import Callable
from typing import Any

from jax._src import callback  # noqa: TID251
from jax.interpreters import mlir

from bellhop._patching import original, patch


@patch("emit_python_callback", "JAX's own callbacks in our programs are calls of ours")
def patch_callback_lowering(emit: Callable[..., Any], where: Callable[[], bool]) -> None:
    """Lower JAX's own callbacks by ``emit``.

    Args:
        emit: has the arguments and results of ``emit_python_callback``.
        where: returns whether the module that is being lowered is one of ours.
    """
    emit_by_jax = original(callback, "emit_python_callback")

    def chosen(*args: Any, **kwargs: Any) -> Any:
        return (emit if where() else emit_by_jax)(*args, **kwargs)

    # The lowering rules of other libraries use the public name, ``mlir.emit_python_callback``.
    callback.emit_python_callback = mlir.emit_python_callback = chosen


def unwrap_callback(function: Any) -> Any:
    """Return what a function that JAX made for a callback calls; or itself, where that is hidden.

    Both what JAX emits and what it binds are such functions: the one calls the other, and that the
    user's.
    """
    if isinstance(function, callback._FlatCallback):
        return function.callback_func
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    return (
        dict(zip(names, cells, strict=True))["callback"].cell_contents
        if "callback" in names
        else function
    )
