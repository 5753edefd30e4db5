"""Quantum functions that return measurements under conditions of the program."""

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pennylane as qml
import pytest

import bellhop

DEVICES = ["lightning.qubit", "default.qubit"]


def compiled(function: Callable[..., Any], device: str = "lightning.qubit") -> Any:
    return bellhop.qjit(qml.QNode(function, qml.device(device, wires=2)), autograph=True)


def the_same(x: Any) -> Any:
    if x > 0.5:
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0)), qml.probs(wires=0)
    qml.RX(2 * x, wires=0)
    return qml.expval(qml.Z(0)), qml.probs(wires=0)


def others(x: Any) -> Any:
    if x > 2:
        return qml.expval(2 * x * qml.Z(0))
    if x > 0.5:
        qml.RX(x, wires=0)
        return qml.expval(qml.Y(0))
    qml.RX(2 * x, wires=0)
    return qml.expval(x * qml.Y(0) @ qml.Z(1))


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_measurements(device: str) -> None:
    program = compiled(the_same, device)
    for x, angle in ((0.3, 0.6), (0.7, 0.7)):
        probabilities = np.array([np.cos(angle / 2) ** 2, np.sin(angle / 2) ** 2])
        mean, found = program(x)
        np.testing.assert_allclose(mean, np.cos(angle), atol=1e-12)
        np.testing.assert_allclose(found, probabilities, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_expectation_values_of_others(device: str) -> None:
    program = compiled(others, device)
    for x, expected in ((2.5, 5.0), (0.7, -np.sin(0.7)), (0.3, -0.3 * np.sin(0.6))):
        np.testing.assert_allclose(program(x), expected, atol=1e-12)


def test_measurements_of_other_kinds() -> None:
    def circuit(x: Any) -> Any:
        if x > 0.5:
            return qml.expval(qml.Z(0))
        qml.RX(x, wires=0)
        return qml.probs(wires=[0])

    words = r"is expval\(Z\(0\)\) after one branch and probs\(wires=\[0\]\) after the other"
    with pytest.raises(bellhop.AutoGraphError, match=words):
        compiled(circuit)(0.3)


def test_a_path_without_a_result() -> None:
    def circuit(x: Any) -> Any:  # noqa: RET503
        if x > 0.5:
            return qml.expval(qml.Z(0))
        qml.RX(x, wires=0)

    words = (
        f"the function at {re.escape(__file__)}:.* returns a value only under a traced condition"
    )
    with pytest.raises(bellhop.AutoGraphError, match=words):
        compiled(circuit)(0.3)


def test_warnings_name_the_line() -> None:
    def function(x: Any) -> Any:
        warnings.warn("take care", stacklevel=1)
        return x

    with pytest.warns(UserWarning, match="take care") as caught:
        bellhop.qjit(function, autograph=True)(0.3)
    assert (caught[0].filename, caught[0].lineno) == (
        __file__,
        function.__code__.co_firstlineno + 1,
    )
