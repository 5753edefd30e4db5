"""Measurement classes that users derive from `SampleMeasurement`."""

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from pennylane.measurements import MeasurementTransform, SampleMeasurement

import bellhop

ANGLE = 0.4


class Parity(SampleMeasurement):
    """The mean of the parity of its wires, by `qml.math`, which JAX traces."""

    def process_samples(self, samples, wire_order, shot_range=None, bin_size=None):
        columns = np.array([list(wire_order).index(wire) for wire in self.wires])
        return qml.math.mean(1.0 - 2 * (qml.math.sum(samples[..., columns], axis=-1) % 2))

    def process_counts(self, counts, wire_order):
        raise NotImplementedError

    def shape(self, shots=None, num_device_wires=0):
        return ()

    @property
    def numeric_type(self):
        return float


class ParityByNumpy(Parity):
    """The same by NumPy, which has no tracers."""

    def process_samples(self, samples, wire_order, shot_range=None, bin_size=None):
        return np.float64(super().process_samples(np.asarray(samples), wire_order))


class Transform(MeasurementTransform):
    def process(self, tape, device):
        return 1.0


def circuit_of(kind, shots=1000, name="lightning.qubit", wires=(0,)):
    @qml.set_shots(shots)
    @qml.qnode(qml.device(name, wires=2))
    def circuit(x):
        qml.RX(x, 0)
        qml.CNOT([0, 1])
        return kind(wires=list(wires)), qml.expval(qml.Z(0))

    return circuit


@pytest.mark.parametrize("name", ["lightning.qubit", "default.qubit", "default.mixed"])
@pytest.mark.parametrize("kind", [Parity, ParityByNumpy])
def test_it_is_made_of_the_samples_of_the_other_measurements(name, kind):
    parity, mean = bellhop.qjit(circuit_of(kind, name=name))(ANGLE)
    np.testing.assert_allclose(parity, mean)


class Columns(Parity):
    """The sum of each column, which shows which wires come, and in which order."""

    def process_samples(self, samples, wire_order, shot_range=None, bin_size=None):
        assert wire_order == self.wires
        return qml.math.sum(samples, axis=0)

    def shape(self, shots=None, num_device_wires=0):
        return (len(self.wires),)


class Majority(SampleMeasurement):
    """By NumPy, and without a declared shape and dtype."""

    def process_samples(self, samples, wire_order, shot_range=None, bin_size=None):
        return float(np.median(np.asarray(samples).sum(axis=1)))

    def process_counts(self, counts, wire_order):
        raise NotImplementedError


@pytest.mark.parametrize("name", ["lightning.qubit", "default.qubit"])
def test_it_gets_its_wires_as_in_pennylane(name):
    @qml.set_shots(5)
    @qml.qnode(qml.device(name, wires=3))
    def circuit():
        qml.X(1)
        return Columns(wires=[1, 0]), Columns(wires=[2]), Majority(wires=[1, 2])

    got = bellhop.qjit(circuit)()
    np.testing.assert_array_equal(got[0], [5, 0])
    np.testing.assert_array_equal(got[1], [0])
    assert got[2] == 1.0


def test_shot_vectors_and_batches():
    several = bellhop.qjit(circuit_of(Parity, shots=(100, 200)))(ANGLE)
    assert all(parity == pytest.approx(mean) for parity, mean in several)
    of_both = bellhop.qjit(bellhop.vmap(lambda x: circuit_of(Parity, wires=(0, 1))(x)[0]))
    np.testing.assert_array_equal(of_both(jnp.array([0.1, 0.7])), 1)


def test_it_needs_shots():
    with pytest.raises(bellhop.CompileError, match="Parity needs shots"):
        bellhop.qjit(circuit_of(Parity, shots=None))(ANGLE)


def test_it_has_no_derivative():
    with pytest.raises(bellhop.DifferentiableCompileError, match="these have no derivative"):
        bellhop.qjit(bellhop.grad(lambda x: circuit_of(Parity)(x)[0]))(ANGLE)


def test_transforms_are_not_supported():
    with pytest.raises(bellhop.CompileError, match="Transform with shots: not supported"):
        bellhop.qjit(circuit_of(Transform))(ANGLE)
