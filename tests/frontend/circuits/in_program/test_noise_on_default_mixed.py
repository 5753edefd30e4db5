"""Noise on default.mixed: noise models, mitigation and readout errors."""

from typing import Any

import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.in_program.mixed_circuits import assert_as_uncompiled, bell, on_mixed

import bellhop

X, P = 0.4, 0.1


def noise_model(p: Any) -> qml.NoiseModel:
    on_each = lambda op, **_: [qml.DepolarizingChannel(p, wire) for wire in op.wires]
    damped = qml.noise.partial_wires(qml.AmplitudeDamping, p)
    flipped = {qml.noise.meas_eq(qml.expval): qml.noise.partial_wires(qml.PhaseFlip, 0.1)}
    return qml.NoiseModel(
        {qml.noise.op_eq(qml.RX): damped, qml.noise.op_eq(qml.CNOT): on_each}, meas_map=flipped
    )


@pytest.mark.parametrize(
    "with_noise",
    [
        lambda node, p: qml.add_noise(node, noise_model(p)),
        lambda node, p: qml.noise.insert(node, qml.AmplitudeDamping, p, position="end"),
    ],
    ids=["add_noise", "insert"],
)
def test_noise_models(with_noise: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RX(x, 0)
        qml.CNOT([0, 1])
        return qml.expval(qml.X(0) + qml.Z(1))

    program = lambda x, p: with_noise(on_mixed(circuit), p)(x)
    assert_as_uncompiled(bellhop.qjit(program), program, X, P)


@pytest.mark.parametrize("folding", ["global", "local-all"])
def test_mitigation_folds_before_noise(folding: str) -> None:
    def circuit(x: Any) -> Any:
        qml.BasisState([1, 0], wires=[0, 1])
        qml.RX(x, 0)
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(1))

    def by_hand(scale: int) -> Any:
        gates, undone = [qml.RX(X, 0), qml.CNOT([0, 1])], [qml.RX(-X, 0), qml.CNOT([0, 1])]
        if folding == "global":
            pieces = gates + (undone[::-1] + gates) * (scale // 2)
        else:
            pieces = [
                g
                for one, back in zip(gates, undone, strict=True)
                for g in [one] + [back, one] * (scale // 2)
            ]

        def function() -> Any:
            qml.BasisState([1, 0], wires=[0, 1])
            for gate in pieces:
                qml.apply(gate)
            return qml.expval(qml.Z(1))

        return qml.add_noise(on_mixed(function), noise_model(P))()

    noisy = qml.add_noise(on_mixed(circuit), noise_model(P))
    mitigated = bellhop.mitigate_with_zne(noisy, scale_factors=[1, 3], folding=folding)
    expected = 1.5 * by_hand(1) - 0.5 * by_hand(3)
    assert bellhop.qjit(mitigated)(X) == pytest.approx(expected, abs=1e-10)


def read_by_flips(x: Any) -> Any:
    """The readout errors of a device are bit flips behind the gates that lead to the basis."""
    bell(x)
    qml.H(0)
    qml.adjoint(qml.S(1))
    qml.H(1)
    qml.BitFlip(P, 0)
    qml.BitFlip(P, 1)
    return qml.expval(qml.Z(0) @ qml.Z(1)), qml.var(qml.Z(0) @ qml.Z(1)), qml.probs(wires=[1, 0])


def read_with_errors(x: Any) -> Any:
    bell(x)
    word = qml.X(0) @ qml.Y(1)
    return qml.expval(word), qml.var(word), qml.probs(op=qml.Y(1) @ qml.X(0))


def test_readout_errors() -> None:
    """PennyLane 0.45 itself fails with a TypeError here."""
    node = on_mixed(read_with_errors, readout_prob=P)
    assert_as_uncompiled(bellhop.qjit(node), on_mixed(read_by_flips), X)
    sampled = bellhop.qjit(qml.set_shots(on_mixed(read_with_errors, readout_prob=P, seed=3), 20000))
    for one, other in zip(sampled(X), on_mixed(read_by_flips)(X), strict=True):
        np.testing.assert_allclose(one, other, atol=0.03)


def test_states_are_not_read() -> None:
    def circuit(x: Any) -> Any:
        bell(x)
        return qml.state(), qml.purity([0])

    node = on_mixed(circuit, readout_prob=P)
    assert_as_uncompiled(bellhop.qjit(node), on_mixed(circuit), X)


@pytest.mark.parametrize("folding", ["global", "local-all"])
def test_folding_keeps_a_prepared_density_matrix(folding):
    @qml.qnode(qml.device("default.mixed", wires=1))
    def circuit(x):
        qml.QubitDensityMatrix(np.diag([0.8, 0.2]), wires=0)
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    mitigated = bellhop.mitigate_with_zne(circuit, scale_factors=[1, 3], folding=folding)
    np.testing.assert_allclose(bellhop.qjit(mitigated)(0.4), 0.6 * np.cos(0.4))
