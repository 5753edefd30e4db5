"""Examples in PennyLane's docstrings give compiled what they give uncompiled.

A quick selection runs by default, and all of them with ``-m long``.
"""

import tomllib
from pathlib import Path

import pennylane_docstrings as examples
import pytest
from pennylane.compiler.compiler import AvailableCompilers

REASONS = {
    f"pennylane.{name}": reason
    for group in tomllib.loads(
        Path(__file__).with_name("pennylane_docstrings.toml").read_text()
    ).values()
    for name, reason in group.items()
}
DOCSTRINGS = examples.docstrings()
QUICK = {
    "pennylane._grad.grad.jacobian",
    "pennylane._grad.jvp.jvp",
    "pennylane._grad.vjp.vjp",
    "pennylane.control_flow.for_loop.for_loop",
    "pennylane.control_flow.while_loop.while_loop",
    "pennylane.measurements.expval.expval",
    "pennylane.measurements.probs.probs",
    "pennylane.ops.op_math.adjoint.adjoint",
    "pennylane.ops.op_math.condition.cond",
    "pennylane.templates.subroutines.grover.GroverOperator",
    "pennylane.templates.subroutines.qram.SelectOnlyQRAM",
}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(
        AvailableCompilers, "names_entrypoints", AvailableCompilers.names_entrypoints
    )
    examples.prepare()


def test_the_selection_and_the_exceptions_exist():
    assert DOCSTRINGS.keys() >= QUICK
    assert REASONS.keys() <= DOCSTRINGS.keys()
    assert len(DOCSTRINGS) > 150


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.long)
        for name in DOCSTRINGS
        if name not in REASONS
    ],
)
def test_examples(name):
    found, _ = examples.differences(examples.steps_of(DOCSTRINGS[name]))
    assert found == []


def test_a_difference_is_found():
    text = """
    >>> @qml.qjit
    ... @qml.qnode(qml.device("default.qubit", wires=1))
    ... def circuit(x):
    ...     qml.RX(x if isinstance(x, float) else 2 * x, wires=0)
    ...     return qml.expval(qml.Z(0))
    >>> circuit(0.3)
    """
    found, compiled = examples.differences(examples.steps_of(text))
    assert compiled.n_compiled
    assert len(found) == 1
    assert "instead of 0.955" in found[0]
