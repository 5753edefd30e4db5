"""Tests for the kinds of operations that backends treat differently from gates."""

import numpy as np
import pennylane as qml
import pytest

from bellhop.circuits.gates.operation_kind import OperationKind


class MyBasisState(qml.BasisState):
    """A subclass, which has the kind of its base class."""


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        (qml.Barrier([0, 1]), OperationKind.IGNORED),
        (qml.Snapshot(), OperationKind.SNAPSHOT),
        (qml.GlobalPhase(0.1), OperationKind.GLOBAL_PHASE),
        (qml.BasisState([1], wires=0), OperationKind.BASIS_STATE),
        (MyBasisState([1], wires=0), OperationKind.BASIS_STATE),
        (qml.BasisEmbedding([1], wires=0), OperationKind.BASIS_STATE),
        (qml.StatePrep([0, 1], wires=0), OperationKind.STATE_PREPARATION),
        (qml.AmplitudeEmbedding([0, 1], wires=0), OperationKind.STATE_PREPARATION),
        (qml.QubitDensityMatrix(np.eye(2) / 2, wires=0), OperationKind.DENSITY_MATRIX),
        (qml.BitFlip(0.1, wires=0), OperationKind.CHANNEL),
        (qml.QutritDepolarizingChannel(0.1, wires=0), OperationKind.CHANNEL),
        (qml.adjoint(qml.Identity(0)), OperationKind.GATE),
        (qml.RX(0.1, wires=0), OperationKind.GATE),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_kinds_of_operations_and_of_subclasses(op, kind):
    assert OperationKind.classify(op) is kind


def test_both_pure_preparations_are_told_from_mixed_ones():
    assert OperationKind.BASIS_STATE.is_pure_preparation
    assert OperationKind.STATE_PREPARATION.is_pure_preparation
    assert not OperationKind.DENSITY_MATRIX.is_pure_preparation
