"""Measurement code computes results from any object that answers it, without a circuit."""

import contextlib

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

from bellhop.circuits.ir.device_measurements import Frequencies
from bellhop.circuits.ir.statistics import ExactValues
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.measure.measurement_registry import find_outcomes, measure_results
from bellhop.errors import CompileError

# The outcomes of two wires, in two groups of shots.
SAMPLES = jnp.array([[0, 1], [0, 1], [1, 1], [0, 0], [1, 0], [1, 1]])
GROUPS = (4, 2)


class FixedSamples:
    """Answers each request from the same samples, and notes the gates that rotate the basis."""

    where = "fixed samples"
    wires = WireMap(("a", "b"), "fixed samples")
    groups = GROUPS
    has_mid_circuit = is_one_shot = has_run_per_shot = drops_shots = False

    def __init__(self):
        self.applied = []

    def error_location(self, _):
        return contextlib.nullcontext()

    def check_wires(self, wires, _):
        for wire in wires:
            self.wires(wire)

    def apply(self, operations):
        self.applied += [op.name for op in operations]

    def sample(self, asked):
        weights = jnp.repeat(1 / jnp.array(GROUPS), np.array(GROUPS))
        return [
            what.sum_weights(SAMPLES[:, list(what.wires)], SAMPLES[:, list(what.signs)], weights)
            if isinstance(what, Frequencies)
            else SAMPLES
            for what in asked
        ]

    def average_over_groups(self, value):
        return jnp.broadcast_to(value, (len(GROUPS), *value.shape))

    def broadcast_to_shots(self, value):
        return jnp.broadcast_to(value, (sum(GROUPS), *value.shape))


def results(leaves, answers):
    return [statistic.finish(statistic.values) for statistic in measure_results(leaves, answers)]


def test_samples_become_results():
    leaves = [
        qml.expval(qml.Z("a") @ qml.Z("b")),
        qml.probs(wires=["b"]),
        qml.sample(wires=["b", "a"]),
        jnp.array(3.0),
    ]
    expval, probs, sample, number = results(leaves, FixedSamples())
    np.testing.assert_allclose(expval, [0.0, 0.0])
    np.testing.assert_allclose(probs, [[0.25, 0.75], [0.5, 0.5]])
    np.testing.assert_array_equal(sample, SAMPLES[:, ::-1])
    np.testing.assert_allclose(number, [3.0, 3.0])


def test_observables_in_two_bases_take_two_samples():
    answers = FixedSamples()
    results([qml.expval(qml.X("a")), qml.expval(qml.Z("a")), qml.expval(qml.X("b"))], answers)
    # X of both wires has one basis, which is undone before the basis of Z.
    assert answers.applied == ["Hadamard", "Hadamard", "Adjoint(Hadamard)", "Adjoint(Hadamard)"]


def test_exact_values_are_asked_for_before_they_are_computed():
    class FixedValues(ExactValues):
        where = "fixed values"
        calls: list[str] = []

        def request_expval(self, observable):
            self.calls.append(f"expval {observable.wires[0]}")
            return lambda values: values[observable.wires[0]]

        def compute(self):
            self.calls.append("compute")
            return {"a": 0.25, "b": -1.0}

        request_probability = request_variance = request_probabilities = lambda self, *_: None
        request_density_matrix = request_state = lambda self, *_: None

    exact = FixedValues()
    found = measure_results([qml.expval(qml.Z("b")), qml.expval(qml.X("a"))], FixedSamples(), exact)
    assert [statistic.values for statistic in found] == [-1.0, 0.25]
    assert exact.calls == ["expval b", "expval a", "compute"]


def test_outcomes_of_other_circuits_are_an_error():
    process = qml.expval(qml.ops.MeasurementValue([]))
    with pytest.raises(CompileError, match="expected the outcome of a mid-circuit"):
        find_outcomes(process, FixedSamples())
