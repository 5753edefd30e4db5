"""Make PennyLane's circuit inspection functions accept qjit functions.

    qml.specs(bellhop.qjit(circuit))(0.3)    without this patch: no attribute of a QNode

Replaced: ``qml.specs``, ``qml.estimator.estimate``, ``construct_tape``, ``construct_batch``,
``iterative_qpe`` and ``execute``, which calls a device from a traced program without a derivative.
Versions: 0.45.
Upstream: tools that accept any class with a ``user_function``, as other functions do.
Issue: none reported.
Installed: when the first function is compiled.
Test: ``tests/frontend/circuits/pennylane``.
"""

import sys
from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._patching import original, patch, replace

Tool = Callable[..., Any]


@patch("qml.specs and other tools", "they take qjit functions")
def patch_introspection(
    wrap_circuit_tool: Callable[[Tool], Tool],
    wrap_loop_tool: Callable[[Tool], Tool],
    wrap_tape_tool: Callable[[Tool], Tool],
) -> None:
    """Replace PennyLane functions that do not support qjit functions or traces.

    ``qml.specs``, ``construct_tape``, ``construct_batch`` and ``estimate`` then accept qjit
    functions; ``iterative_qpe`` and ``execute`` work in traced programs.

    Args:
        wrap_circuit_tool: takes a function whose first argument is a circuit, such as
            ``qml.specs``; returns a function that accepts qjit functions too.
        wrap_loop_tool: takes ``qml.iterative_qpe``, which appends to a list in a loop; returns the
            replacement.
        wrap_tape_tool: takes ``qml.execute``, which executes tapes; returns the replacement.
    """
    for modules, name in (
        ((qml, qml.resource), "specs"),
        ((qml.workflow,), "construct_tape"),
        ((qml.workflow,), "construct_batch"),
    ):
        tool = wrap_circuit_tool(original(modules[0], name))
        for module in modules:
            replace(module, name, tool)
    _replace_estimate(wrap_circuit_tool)
    replace(qml, "iterative_qpe", wrap_loop_tool(original(qml, "iterative_qpe")))
    execute = wrap_tape_tool(original(qml, "execute"))
    # Replaced only where transforms execute tapes; QNodes keep the original.
    for module in (qml, qml.workflow, qml.gradients.fisher):
        replace(module, "execute", execute)


def _replace_estimate(wrap_circuit_tool: Callable[[Tool], Tool]) -> None:
    """Make ``qml.estimator.estimate`` accept qjit functions.

    The private function that ``estimate`` calls is replaced, so an earlier import of ``estimate``
    works too.

    Args:
        wrap_circuit_tool: takes a function whose first argument is a circuit; returns a function
            that accepts qjit functions too.
    """
    module: Any = sys.modules[original(qml.estimator, "estimate").__module__]
    dispatch = original(module, "_estimate_resources_dispatch")

    def estimate(workflow: Any, *args: Any, **options: Any) -> Any:
        """Call PennyLane's private function, with its dispatch on the type of `workflow`."""
        return dispatch(workflow, *args, **options)

    replace(module, "_estimate_resources_dispatch", wrap_circuit_tool(estimate))
