"""PennyLane's transforms of circuits with traced wires, which PennyLane takes for other wires."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

ON = functools.partial(qml.QNode, device=qml.device("lightning.qubit", wires=3))
REFERENCE = functools.partial(qml.QNode, device=qml.device("default.qubit", wires=3))
MAPPED = functools.partial(qml.map_wires, wire_map={0: 1, 1: 0})
TRANSPILED = functools.partial(qml.transforms.transpile, coupling_map=[(0, 1), (1, 2)])
PIPELINE = functools.partial(qml.compile, pipeline=[qml.transforms.undo_swaps])
AT_END = functools.partial(qml.noise.insert, op=qml.RX, op_args=0.2, position="end")


def swapped(w):
    qml.X(0)
    qml.SWAP([0, w])
    return qml.probs(wires=[0, 1])


def measured(w):
    qml.RX(0.4, 0)
    m = qml.measure(w)
    qml.RX(1.1, 0)
    qml.cond(m, qml.RY)(0.3, wires=1)
    return qml.expval(qml.Z(0))


def observed(w):
    qml.RX(0.4, 0)
    return qml.expval(qml.X(0)), qml.expval(qml.Z(w))


@qml.transform
def by_a_user(tape):
    wires = set(tape.wires)
    return (tape.copy(operations=[qml.X(w) for w in wires]),), lambda results: results[0]


@pytest.mark.parametrize(
    ("name", "transform", "circuit", "parts"),
    [
        ("defer_measurements", qml.defer_measurements, measured, "measure"),
        ("diagonalize_measurements", None, observed, "expval of PauliZ"),
        ("undo_swaps", qml.transforms.undo_swaps, swapped, "SWAP"),
        ("undo_swaps", PIPELINE, swapped, "SWAP"),
        ("map_wires", MAPPED, swapped, "SWAP"),
        ("transpile", TRANSPILED, swapped, "SWAP"),
        ("insert", AT_END, swapped, "SWAP"),
        ("by_a_user", by_a_user, swapped, "SWAP"),
    ],
)
def test_transforms_that_compare_wires_need_static_wires(name, transform, circuit, parts):
    changed = (transform or bellhop.passes.diagonalize_measurements)(ON(circuit))
    message = rf"'{circuit.__name__}'.*{name} may compare wires, .* traced wires of {parts}\."
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(changed)(1)


@pytest.mark.parametrize(
    "name", ["param_shift", "finite_diff", "param_shift_hessian", "adjoint_metric_tensor"]
)
def test_gradients_need_static_wires(name):
    def circuit(x, w):
        qml.RX(x, 0)
        qml.CNOT([w, 1])
        return qml.expval(qml.Z(1))

    transform = getattr(qml, name, None) or getattr(qml.gradients, name)
    with pytest.raises(
        bellhop.CompileError, match=rf"transform {name} may compare wires, .* CNOT\."
    ):
        bellhop.qjit(transform(ON(circuit)))(0.4, 0)


def test_wires_that_vmap_maps_over():
    def circuit(w):
        qml.X(w)
        return qml.probs(wires=[0, 1])

    mapped = jax.vmap(qml.transforms.undo_swaps(ON(circuit)))
    with pytest.raises(bellhop.CompileError, match="undo_swaps does not support .* wires jax.vmap"):
        bellhop.qjit(mapped)(jnp.array([0, 1]))


def test_transforms_that_do_not_compare_wires():
    # X(1) is measured apart from Z(w), and merging does not move RX(w) past a gate on wire 0.
    def circuit(x, w):
        qml.RX(x, w)
        qml.RY(0.5, 0)
        qml.RX(0.3, w)
        return qml.expval(qml.Z(0) + 0.4 * qml.X(w)), qml.expval(qml.Y(0))

    def transform(node):
        return qml.transforms.split_non_commuting(qml.transforms.merge_rotations(node))

    values = bellhop.qjit(transform(ON(circuit)))(jnp.array(0.4), 0)
    np.testing.assert_allclose(values, REFERENCE(circuit)(0.4, 0), atol=1e-9)
