"""What measurements in the middle of a circuit cannot be, or do."""

from typing import Any

import jax
import pennylane as qml
import pytest

import bellhop


@pytest.mark.parametrize("wire", [2, -1, -7])
def test_wire_that_is_not_there(lightning: Any, wire: int) -> None:
    circuit = bellhop.qjit(lightning(lambda i: bellhop.measure(i), wires=2))
    assert not circuit(1)
    message = rf"measurement of wire {wire} \(.*: wire {wire} is not in the circ"
    with pytest.raises(bellhop.CircuitError, match=message):
        circuit(wire)
    assert not circuit(0)


COMPILE_ERRORS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "two wires": (lambda: bellhop.measure([0, 1]), {}, "expected one wire, got 2"),
    "postselect of 2": (
        lambda: bellhop.measure(0, postselect=2),
        {},
        "expected postselect to be 0, 1 or None, got 2",
    ),
    "state": (
        lambda: (bellhop.measure(0), qml.state())[1],
        {},
        "state after mid-circuit measurements, which give a mixture",
    ),
    "one-shot without shots": (
        lambda: qml.expval(bellhop.measure(0)),
        {"mcm_method": "one-shot"},
        "mcm_method='one-shot' needs shots, and the QNode has none. Use mcm_method='tree-",
    ),
    "values of several runs": (
        lambda: bellhop.measure(0),
        {"mcm_method": "tree-traversal"},
        "the quantum function returns values that are not measurements",
    ),
    "sample without shots": (lambda: qml.sample(bellhop.measure(0)), {}, "sample needs shots"),
    "in an adjoint": (
        lambda: (bellhop.adjoint(lambda: bellhop.measure(0))(), qml.state())[1],
        {},
        "is not supported in a function that qml.adjoint or qml.ctrl transforms",
    ),
}


@pytest.mark.parametrize("name", COMPILE_ERRORS)
def test_what_cannot_be_compiled(lightning: Any, name: str) -> None:
    body, options, message = COMPILE_ERRORS[name]
    with pytest.raises(bellhop.CompileError, match=message.replace("(", r"\(")):
        bellhop.qjit(lightning(body, wires=2, **options))()


def test_outside_a_circuit() -> None:
    with pytest.raises(bellhop.CompileError, match="outside of a QNode"):
        bellhop.measure(0)
    with pytest.raises(bellhop.CompileError, match="outside of a QNode"):
        bellhop.qjit(lambda: bellhop.measure(0))()


def test_who_asks_for_the_truth_of_outcomes_is_told_of_their_operators():
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x):
        qml.RX(x, 0)
        if bellhop.measure(0) and bellhop.measure(1):
            qml.X(1)
        return qml.expval(qml.Z(1))

    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        circuit(0.3)
    [note] = [each for each in caught.value.__notes__ if each.startswith("bellhop: in qjit of")]
    assert note.index(
        "&, | and ~ in place of and, or and not, also for mid-circuit outcomes"
    ) < note.index("static_argnums")
