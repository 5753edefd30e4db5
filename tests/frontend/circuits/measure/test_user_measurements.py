"""Measurement classes that users derive from `SampleMeasurement` and `MeasurementTransform`."""

import jax
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


class Doubled(MeasurementTransform):
    """Twice an expectation value, from a tape of its own, which may have traced parameters."""

    def process(self, tape, device):
        measured = tape.copy(measurements=[qml.expval(qml.Z(self.wires[0]))])
        return 2 * device.execute([measured])[0]

    def shape(self, shots=None, num_device_wires=0):
        return ()

    @property
    def numeric_type(self):
        return float


class Undeclared(MeasurementTransform):
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


class Ones(SampleMeasurement):
    """The mean number of ones, plus a constant that has no derivative."""

    def process_samples(self, samples, wire_order, shot_range=None, bin_size=None):
        return 10 + qml.math.mean(1.0 * qml.math.sum(samples, axis=-1))

    def process_counts(self, counts, wire_order):
        raise NotImplementedError


class OnesOfEachWire(Ones):
    """The mean of each column, by NumPy."""

    def process_samples(self, samples, wire_order, shot_range=None, bin_size=None):
        return np.asarray(samples).mean(axis=0)


def two_rotations(kind, shots, name):
    @qml.set_shots(shots)
    @qml.qnode(qml.device(name, wires=2))
    def circuit(x):
        qml.RX(x, 0)
        qml.RX(x, 1)
        return kind(wires=[1, 0])

    return circuit


@pytest.mark.parametrize(
    ("name", "shots"),
    [
        ("lightning.qubit", 4),
        ("default.qubit", 4),
        ("default.qubit", 1),
        pytest.param("default.mixed", 4, marks=pytest.mark.matrix),
    ],
)
def test_the_derivative_of_a_mean_is_unbiased_for_few_shots(name, shots):
    gradient = bellhop.vmap(bellhop.grad(two_rotations(Ones, shots, name)))
    each = np.asarray(bellhop.qjit(gradient, seed=7)(jnp.full(1000, 0.7)))
    assert abs(each.mean() - np.sin(0.7)) < 4.5 * each.std() / len(each) ** 0.5
    if shots > 1:
        # The score function without a baseline has 16 times this variance.
        assert each.var() * shots < 12


def test_the_derivative_of_a_compiled_circuit():
    circuit = bellhop.qjit(two_rotations(Ones, 20000, "lightning.qubit"), seed=3)
    assert jax.grad(circuit)(0.7) == pytest.approx(np.sin(0.7), abs=0.1)
    np.testing.assert_allclose(jax.jvp(circuit, (0.7,), (2.0,))[1], 2 * np.sin(0.7), atol=0.1)


def test_a_shot_vector_has_the_derivative_of_each_entry():
    jacobian = bellhop.jacobian(two_rotations(OnesOfEachWire, (2000, 3000), "default.qubit"))
    for each in bellhop.qjit(jacobian, seed=3)(0.7):
        np.testing.assert_allclose(each, np.sin(0.7) / 2, atol=0.1)


def test_the_second_derivative_by_parameter_shifts():
    second = bellhop.grad(bellhop.grad(two_rotations(Ones, 20000, "lightning.qubit")))
    assert bellhop.qjit(second, seed=3)(0.7) == pytest.approx(np.cos(0.7), abs=0.1)


class Spread(Ones):
    """A function of the samples that is not a mean."""

    def process_samples(self, samples, wire_order, shot_range=None, bin_size=None):
        return qml.math.std(1.0 * samples)


class Total(Ones):
    """The number of ones, an integer."""

    def process_samples(self, samples, wire_order, shot_range=None, bin_size=None):
        return qml.math.sum(samples)


@pytest.mark.parametrize("name", ["lightning.qubit", "default.qubit"])
def test_other_functions_have_no_derivative(name):
    circuit = two_rotations(Spread, 100, name)
    assert np.isfinite(bellhop.qjit(circuit)(0.7))
    with pytest.raises(bellhop.CircuitError, match="is not a mean over shots"):
        bellhop.qjit(bellhop.grad(circuit))(0.7)
    of_integers = bellhop.grad(lambda x: 1.0 * two_rotations(Total, 100, name)(x))
    with pytest.raises(bellhop.DifferentiableCompileError, match="expected real numbers"):
        bellhop.qjit(of_integers)(0.7)


def test_means_that_have_no_derivative():
    @qml.set_shots(10)
    @qml.qnode(qml.device("lightning.qubit", wires=13))
    def on_many_wires(x):
        qml.RX(x, 0)
        return Ones()

    assert bellhop.qjit(on_many_wires)(0.0) == 10
    with pytest.raises(bellhop.DifferentiableCompileError, match="more than 12 wires"):
        bellhop.qjit(bellhop.grad(on_many_wires))(ANGLE)

    @qml.set_shots(10)
    @qml.qnode(qml.device("lightning.qubit", wires=2), mcm_method="one-shot")
    def after_an_outcome(x):
        qml.RX(x, 0)
        bellhop.measure(0)
        return Ones(wires=[0])

    with pytest.raises(bellhop.DifferentiableCompileError, match="after mid-circuit measurements"):
        bellhop.qjit(bellhop.grad(after_an_outcome))(ANGLE)


@pytest.mark.parametrize("name", ["lightning.qubit", "default.qubit", "default.mixed"])
def test_transforms_process_the_tape(name):
    exact, mean = bellhop.qjit(circuit_of(Doubled, shots=None, name=name))(ANGLE)
    assert exact == pytest.approx(2 * mean) == pytest.approx(2 * np.cos(ANGLE))
    several = bellhop.qjit(circuit_of(Doubled, shots=(4000, 5000), name=name))(ANGLE)
    np.testing.assert_allclose(several, 2 * [(2 * np.cos(ANGLE), np.cos(ANGLE))], atol=0.1)


def test_transforms_in_batches_and_alone():
    alone = lambda x: circuit_of(Doubled, shots=None)(x)[0]
    angles = jnp.array([0.1, 0.7])
    np.testing.assert_allclose(bellhop.qjit(bellhop.vmap(alone))(angles), 2 * np.cos(angles))


def test_what_transforms_do_not_support():
    with pytest.raises(bellhop.DifferentiableCompileError, match="returns Doubled and is diff"):
        bellhop.qjit(bellhop.grad(lambda x: circuit_of(Doubled)(x)[0]))(ANGLE)
    with pytest.raises(bellhop.CompileError, match="Define the method shape and the property"):
        bellhop.qjit(circuit_of(Undeclared))(ANGLE)

    @qml.qnode(qml.device("default.qubit", wires=1))
    def after_an_outcome(x):
        qml.RX(x, 0)
        bellhop.measure(0)
        return Doubled(wires=[0])

    with pytest.raises(bellhop.CompileError, match="Doubled, a MeasurementTransform, is not supp"):
        bellhop.qjit(after_an_outcome)(ANGLE)
