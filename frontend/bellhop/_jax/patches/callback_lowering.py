"""Lower JAX's own callbacks in Bellhop's programs to calls of Bellhop's runtime.

``jax.pure_callback(f, shape, x)`` is lowered to ::

    stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {index = 0}    in a plain jax.jit
    callback.call @f(%x)                                                  in a qjit function

Replaced: ``emit_python_callback``, by which JAX lowers its callbacks.  JAX's custom call finds its
function by an index in the executable of the lowered module.  Bellhop's module becomes a part of
another executable, which does not have the function.  In other programs JAX's lowering is used.
Versions: 0.10 to 0.12.
Upstream: public lowering rules, or callbacks that are independent of the executable.
Issue: none reported.
Installed: when a program is first lowered.
Test: ``test_jax_callbacks.py``.
"""

from collections.abc import Callable
from typing import Any

from jax._src import callback  # noqa: TID251
from jax.interpreters import mlir

from bellhop._patching import original, patch, replace


@patch("emit_python_callback", "JAX's own callbacks in our programs are calls of ours")
def patch_callback_lowering(
    emit: Callable[..., Any], is_bellhop_module: Callable[[], bool]
) -> None:
    """Replace the lowering of ``jax.pure_callback`` etc. in Bellhop's modules.

    Other modules keep JAX's lowering.

    Args:
        emit: replacement with the signature of ``emit_python_callback``.
        is_bellhop_module: returns whether the module that is being lowered belongs to a Bellhop
            program.
    """
    emit_by_jax = original(callback, "emit_python_callback")

    def emit_callback(*args: Any, **kwargs: Any) -> Any:
        """Lower a JAX callback by `emit` in Bellhop's modules, and as JAX does elsewhere."""
        return (emit if is_bellhop_module() else emit_by_jax)(*args, **kwargs)

    # Other libraries' lowering rules use the public alias ``mlir.emit_python_callback``.
    for module in (callback, mlir):
        replace(module, "emit_python_callback", emit_callback)


def unwrap_callback(function: Any) -> Any:
    """Remove one of the wrappers that JAX puts around the user's function of a callback.

    JAX wraps the user's function more than once before a primitive or a lowering rule gets it.

    Args:
        function: a function that JAX passes to a primitive or to ``emit_python_callback``.

    Returns:
        the wrapped function, or `function` if it wraps none.
    """
    if isinstance(function, callback._FlatCallback):
        return function.callback_func
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    return (
        dict(zip(names, cells, strict=True))["callback"].cell_contents
        if "callback" in names
        else function
    )
