"""Raise an error where an optimizer of PennyLane would return traced arguments unchanged.

    bellhop.qjit(lambda x: qml.GradientDescentOptimizer(0.1).step(circuit, x))(0.3)
    without this patch: 0.3, as a traced value has no ``requires_grad``

Replaced: ``step``, ``step_and_cost``, ``compute_grad`` and ``apply_grad`` of the optimizers in
``qml.optimize``, except ``QNGOptimizerQJIT`` and ``MomentumQNGOptimizerQJIT``.
Versions: 0.45.
Upstream: optimizers that raise an error if no argument is trainable.
Issue: none reported.
Installed: when the first function is compiled.
Test: ``test_optimizers.py``.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from bellhop._patching import original, patch, replace

Method = Callable[..., Any]

_METHODS = {"step", "step_and_cost", "compute_grad", "apply_grad"}
# They take any JAX array, and do not read ``requires_grad``.
_FOR_PROGRAMS = ("QNGOptimizerQJIT", "MomentumQNGOptimizerQJIT")


@patch("the steps of qml.optimize", "optimizers reject traced arguments")
def patch_optimizers(module: ModuleType, wrap: Callable[[str, Method], Method]) -> None:
    """Replace the methods of optimizers that take the circuit's arguments.

    The methods are ``step``, ``step_and_cost``, ``compute_grad`` and ``apply_grad``.

    Args:
        module: the module ``qml.optimize``.
        wrap: takes the name ``Class.method`` and the method, or the function of a static method;
            returns the replacement.
    """
    for class_name in set(original(module, "__all__")) - set(_FOR_PROGRAMS):
        optimizer = original(module, class_name)
        # Inherited methods are replaced in the class that defines them.
        for name in _METHODS & vars(optimizer).keys():
            method = vars(optimizer)[name]
            full_name = f"{class_name}.{name}"
            if isinstance(method, staticmethod):
                replace(optimizer, name, staticmethod(wrap(full_name, method.__func__)))
            else:
                replace(optimizer, name, wrap(full_name, method))
