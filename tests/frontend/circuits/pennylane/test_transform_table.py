"""Every transform of PennyLane's works as it does uncompiled, or is refused."""

import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.pennylane.transform_table import (
    ARGUMENTS,
    CIRCUITS,
    OPTIONS,
    PASSES,
    REFUSED,
    REFUSED_BY_PENNYLANE,
    WITHOUT_OUTCOMES,
    measuring,
    straight,
    transforms,
)

import bellhop

# Some transforms warn, of what they leave as it is or of what PennyLane changes next.
pytestmark = pytest.mark.filterwarnings("ignore")

ALL = transforms()
WORKING = [name for name in ALL if name not in (*REFUSED, *REFUSED_BY_PENNYLANE, *PASSES)]
PAGE = Path(__file__).parents[4] / "doc" / "how-to" / "pennylane-transforms.md"


def changed(name: str, circuit: Any, device: str) -> Any:
    qnode = qml.QNode(circuit, qml.device(device, wires=5))
    return ALL[name](qnode, **OPTIONS.get(name, {}))


def check_values(name: str, circuit: Any) -> None:
    argument = ARGUMENTS.get(name, 0.7)
    found = bellhop.qjit(changed(name, circuit, "lightning.qubit"))(argument)
    x = qml.numpy.array(argument, requires_grad=name != "batch_input")
    expected = changed(name, circuit, "default.qubit")(x)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, np.asarray(other), atol=1e-6)


@pytest.mark.matrix
@pytest.mark.parametrize("name", WORKING)
def test_values(name: str) -> None:
    check_values(name, CIRCUITS.get(name, straight))


@pytest.mark.matrix
@pytest.mark.parametrize("name", [each for each in WORKING if each not in WITHOUT_OUTCOMES])
def test_values_where_outcomes_decide(name: str) -> None:
    check_values(name, measuring)


@pytest.mark.matrix
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        bellhop.qjit(changed(name, straight, "lightning.qubit"))(0.7)


@pytest.mark.matrix
@pytest.mark.parametrize("name", REFUSED_BY_PENNYLANE)
def test_what_pennylane_refuses(name: str) -> None:
    error, message = REFUSED_BY_PENNYLANE[name]
    with pytest.raises(error, match=message):
        changed(name, straight, "default.qubit")(qml.numpy.array(0.7, requires_grad=True))
    with pytest.raises(error, match=message):
        bellhop.qjit(changed(name, straight, "lightning.qubit"))(0.7)


def test_the_page_has_every_transform() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|", PAGE.read_text(), re.MULTILINE)

    def row(name: str) -> tuple[str, str, str]:
        if name in (*REFUSED, *REFUSED_BY_PENNYLANE):
            return name, "PennyLane's error" if name in REFUSED_BY_PENNYLANE else "refused", ""
        return name, "works", "" if name in (*WITHOUT_OUTCOMES, *PASSES) else "works"

    assert rows == [row(name) for name in ALL]


def outcomes(x: Any) -> Any:
    qml.RX(x, 0)
    first = qml.measure(0)
    qml.cond(first, qml.RY)(2 * x, 1)
    second = qml.measure(1, reset=True)
    qml.cond(first + second == 1, lambda: qml.RX(x, 2), lambda: qml.RY(x, 2))()
    qml.RX(x, 1)
    observable = qml.X(1) @ qml.Y(2)
    return (
        qml.expval(qml.Z(1)),
        qml.expval(observable),
        qml.expval(first),
        qml.probs(op=[first, second]),
    )


@pytest.mark.parametrize("name", ["defer_measurements", "split_non_commuting"])
def test_measurements_in_the_middle_are_on_the_tape(name: str) -> None:
    qnode = qml.QNode(outcomes, qml.device("lightning.qubit", wires=5))
    found = bellhop.qjit(ALL[name](qnode))(0.7)
    for one, other in zip(
        found, qml.QNode(outcomes, qml.device("default.qubit"))(0.7), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_an_angle_by_an_outcome_is_on_no_tape() -> None:
    @qml.transforms.undo_swaps
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit() -> Any:
        qml.RX(0.5 * bellhop.measure(0), 0)
        return qml.expval(qml.Z(0))

    with pytest.raises(bellhop.CompileError, match="RX with a mid-circuit outcome as a parameter"):
        bellhop.qjit(circuit)()


def test_coefficients_that_sign_expand_cannot_see() -> None:
    @qml.transforms.sign_expand
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x: Any) -> Any:
        return qml.expval(qml.Hamiltonian([x, 1.5], [qml.Z(0) @ qml.Z(1), qml.Z(0)]))

    with pytest.raises(bellhop.CompileError, match="transform sign_expand converts parameters"):
        bellhop.qjit(circuit)(0.7)
