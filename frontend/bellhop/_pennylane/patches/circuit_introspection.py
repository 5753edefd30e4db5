"""PennyLane's functions that look into a circuit, and know Catalyst's compiled functions alone.

    qml.specs(bellhop.qjit(circuit))(0.3)    without this patch: no attribute of a QNode

Replaced: ``qml.specs``, ``qml.estimator.estimate``, ``construct_tape``, ``construct_batch``,
``iterative_qpe`` and ``execute``, which calls a device from a program that is traced, where it has
no derivative.
Versions: 0.45.
Upstream: most of them take whatever is named ``QJIT`` and has a ``user_function``; these do not.
Installed: when the first function is compiled.
Test: ``tests/frontend/circuits/pennylane``.
"""

import sys
from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._patching import original, patch

Tool = Callable[..., Any]


@patch("qml.specs and other tools", "they take qjit functions")
def patch_introspection(
    of_circuit: Callable[[Tool], Tool],
    of_loops: Callable[[Tool], Tool],
    of_tapes: Callable[[Tool], Tool],
) -> None:
    """Replace functions that take a circuit, one that fills a list in a loop, and ``execute``."""
    for modules, name in (
        ((qml, qml.resource), "specs"),
        ((qml.workflow,), "construct_tape"),
        ((qml.workflow,), "construct_batch"),
    ):
        tool = of_circuit(original(modules[0], name))
        for module in modules:
            setattr(module, name, tool)
    _replace_estimate(of_circuit)
    qml.iterative_qpe = of_loops(original(qml, "iterative_qpe"))
    execute = of_tapes(original(qml, "execute"))
    # Only the transforms that execute tapes themselves, not QNodes.
    for module in (qml, qml.workflow, qml.gradients.fisher):
        module.execute = execute


def _replace_estimate(of_circuit: Callable[[Tool], Tool]) -> None:
    """Let ``qml.estimator.estimate`` take compiled functions, however users imported it."""
    module: Any = sys.modules[original(qml.estimator, "estimate").__module__]
    dispatch = original(module, "_estimate_resources_dispatch")

    def estimate(workflow: Any, *args: Any, **options: Any) -> Any:
        return dispatch(workflow, *args, **options)

    module._estimate_resources_dispatch = of_circuit(estimate)
