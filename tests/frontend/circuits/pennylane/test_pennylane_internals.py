"""What PennyLane does inside of its operations, while a circuit of ours is traced."""

import operator

import autoray
import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

LISTS = {
    "IQPEmbedding": (lambda p: qml.IQPEmbedding(p, wires=range(2)), [0.1, 0.2]),
    "AmplitudeEmbedding": (
        lambda p: qml.AmplitudeEmbedding(p, wires=range(2), pad_with=0.0, normalize=True),
        [0.5, 0.5, 0.1],
    ),
    "AngleEmbedding": (lambda p: qml.AngleEmbedding(p, wires=range(2)), [0.5, 0.1]),
    "StatePrep": (lambda p: qml.StatePrep(p, wires=range(2)), [0.5, 0.5, -0.5, 0.5]),
    "BasicEntanglerLayers": (lambda p: qml.BasicEntanglerLayers(p, range(2)), [[0.5, 0.1]]),
    "StronglyEntanglingLayers": (
        lambda p: qml.StronglyEntanglingLayers(p, range(2)),
        [[[0.5, 0.2, 0.3], [0.1, 0.2, 0.3]]],
    ),
    "QubitUnitary": (
        lambda p: qml.QubitUnitary([[p[0], -p[1]], [p[1], p[0]]], wires=0),
        [0.6, 0.8],
    ),
    "a batch": (lambda p: qml.RX((p[0], p[1], 0.3), wires=0), [0.1, 0.2]),
    "wires": (lambda p: qml.CRX(p[0], wires=[0, 1]), [0.1]),
}


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize("name", LISTS)
def test_lists_of_computed_numbers(device, name):
    """NumPy, of which PennyLane makes arrays of lists, cannot hold what is traced."""
    apply, parameters = LISTS[name]

    @qml.qnode(qml.device(device, wires=2))
    def circuit(parameters):
        qml.Hadamard(0)
        apply(parameters)
        return qml.probs()

    expected = circuit(parameters)
    np.testing.assert_allclose(bellhop.qjit(circuit)(parameters), expected, rtol=0, atol=1e-9)


def test_lists_outside_of_programs_stay_what_they_were():
    assert isinstance(qml.math.array([1.0, 2.0]), np.ndarray)
    assert isinstance(qml.RX([0.1, 0.2], wires=0).data[0], np.ndarray)


def test_lists_are_taken_only_while_a_program_is_traced():
    def parts():
        arrays = [autoray.get_lib_fn(kind, "array") for kind in ("builtins", "numpy")]
        return [qml.operation.Operator.__init__, *arrays]

    before, seen = parts(), []

    @bellhop.qjit
    def f(x):
        bellhop.qjit(lambda x: x)(x)  # A program in it ends first.
        seen.append(parts())
        return x

    f(1.0)
    assert not any(map(operator.is_, seen[0], before))
    assert all(map(operator.is_, parts(), before))


class WithLoops(qml.operation.Operation):
    """An operation whose decomposition is written with qml's control flow."""

    num_wires = 3
    num_params = 1

    @staticmethod
    def compute_decomposition(angle, wires):
        angles = np.array([0.1, 0.2, 0.3])
        with qml.queuing.AnnotatedQueue() as queue:

            @qml.for_loop(0, 3)
            def rotate(i):
                # Neither NumPy nor lists take an index that is traced.
                qml.RX(angle * angles[i], wires=wires[i])
                qml.cond(i > 0, lambda: qml.CNOT([wires[i - 1], wires[i]]))()

            rotate()
            qml.adjoint(lambda: qml.S(wires[0]))()
            qml.ctrl(lambda: qml.T(wires[1]), control=wires[0])()
        return queue.queue


@pytest.fixture
def registered(monkeypatch):
    """Let PennyLane know the compiler, as an installation does."""
    from collections import defaultdict
    from importlib.metadata import EntryPoint

    from pennylane.compiler.compiler import AvailableCompilers

    group, found = "pennylane.compilers", defaultdict(dict)
    roles = {"context": "tracing.pennylane_context", "qjit": "compiled.qjit:qjit", "ops": "ops"}
    for role, value in roles.items():
        found["bellhop"][role] = EntryPoint(f"bellhop.{role}", f"bellhop.{value}", group)
    monkeypatch.setattr(AvailableCompilers, "names_entrypoints", found)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize("transform", [lambda node: node, qml.transforms.decompose])
@pytest.mark.usefixtures("registered")
def test_control_flow_of_decompositions_is_pennylanes_own(device, transform):
    def function(x, apply):
        qml.Hadamard(0)
        apply(x)
        return qml.expval(qml.Z(2)), qml.probs(wires=[0, 1])

    def by_hand(x):
        for op in WithLoops.compute_decomposition(x, range(3)):
            qml.apply(op)

    node = transform(qml.QNode(function, qml.device(device, wires=3)))
    of_operation = bellhop.qjit(lambda x: node(x, lambda x: WithLoops(x, wires=range(3))))
    expected = qml.QNode(function, qml.device("default.qubit"))(0.7, by_hand)
    for ours, theirs in zip(of_operation(jnp.float64(0.7)), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


# What it asks is deprecated in JAX 0.10, and put back by us in JAX 0.11.
@pytest.mark.filterwarnings("ignore:jax.core.concrete_or_error is deprecated")
@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_a_plain_jit_is_left_to_pennylane(device):
    @qml.qnode(qml.device(device, wires=1))
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(jax.jit(circuit)(0.5), np.cos(0.5))
    np.testing.assert_allclose(qml.math.to_numpy(jnp.ones(2)), np.ones(2))
