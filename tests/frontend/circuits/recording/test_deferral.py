"""Mid-circuit measurements that become controlled gates, and those that must not."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.circuits.backends.compiled.record.runtime_circuit import RuntimeCircuit

X = jnp.array([0.4, 1.1, -0.7])


def conditioned(measure: Any, cond: Any, x: Any) -> None:
    """Measure two wires; apply gates by either outcome and by both."""
    for wire in range(4):
        qml.RY(x[wire % 3] + 0.2 * wire, wire)
        qml.CNOT([wire, (wire + 1) % 4])
    one, other = measure(0), measure(1)
    cond(one, lambda: qml.RX(x[0], 2), lambda: qml.IsingYY(x[1], [2, 3]))
    qml.RZ(x[2], 2)
    cond(one & ~other, lambda: qml.Rot(x[0], x[1], 0.3, 3))
    cond(one == other, lambda: qml.CRY(x[2], [2, 3]))


def run_one(predicate: Any, true: Any, false: Any = None) -> None:
    """Run one of two functions that apply a gate, or the first or none."""
    branch = bellhop.cond(predicate)(lambda: true() and None)
    if false is not None:
        branch.otherwise(lambda: false() and None)
    branch()


def compiled(body: Any, measured: Any, **options: Any) -> Any:
    """Return the compiled circuit on Lightning."""

    def circuit(x):
        body(bellhop.measure, run_one, x)
        return measured()

    device = qml.device("lightning.qubit", wires=4)
    return bellhop.qjit(qml.QNode(circuit, device, **options), seed=3)


def reference(body: Any, measured: Any) -> Any:
    """Return PennyLane's own circuit."""

    def circuit(x):
        body(qml.measure, lambda *args: qml.cond(*args)(), x)
        return measured()

    return qml.QNode(circuit, qml.device("default.qubit"), diff_method="backprop")


def draws_outcomes(circuit: Any) -> bool:
    """Tell whether a compiled circuit, which was called, has runs with outcomes."""
    return "quantum.mid_measure" in circuit.mlir


RESULTS = [
    lambda: qml.expval(qml.Z(0) @ qml.X(2) + 0.5 * qml.Y(3)),
    lambda: qml.probs(wires=[1, 3]),
    lambda: qml.var(qml.Z(2) @ qml.Z(1)),
]


@pytest.mark.parametrize("measured", RESULTS)
def test_values_and_derivatives_in_one_run(measured: Any, assert_close: Any) -> None:
    ours, theirs = compiled(conditioned, measured), jax.jit(reference(conditioned, measured))
    assert_close(ours(X), theirs(X))
    assert not draws_outcomes(ours)
    assert_close(bellhop.qjit(bellhop.jacobian(ours))(X), jax.jit(jax.jacobian(theirs))(X))
    rows = jnp.stack([X, 2 * X])
    assert_close(bellhop.qjit(jax.vmap(ours))(rows), jnp.stack([theirs(row) for row in rows]))


@pytest.mark.parametrize("body", ["conditioned", "reset", "used_again"])
def test_the_function_is_interpreted_once(body: str, monkeypatch: Any) -> None:
    """That the deferral of `reset` and `used_again` fails is found in the jaxpr with gates."""
    circuits: list[RuntimeCircuit] = []
    apply = RuntimeCircuit.apply

    def noted(circuit: RuntimeCircuit, operations: Any) -> None:
        circuits.append(circuit)
        apply(circuit, operations)

    monkeypatch.setattr(RuntimeCircuit, "apply", noted)
    compiled(globals()[body], RESULTS[0])(X)
    assert len(set(map(id, circuits))) == 1


def test_shots_are_of_one_run() -> None:
    """Six standard errors of 20 000 shots, and a fixed seed."""
    measured = lambda: qml.expval(qml.X(2))
    ours = compiled(conditioned, measured, shots=20_000)
    assert abs(ours(X) - reference(conditioned, measured)(X)) < 6 / 20_000**0.5
    assert not draws_outcomes(ours)


def used_again(measure: Any, cond: Any, x: Any) -> None:
    qml.RY(x[0], 0)
    cond(measure(0), lambda: qml.RX(x[1], 2))
    qml.Hadamard(0)


def reset(measure: Any, cond: Any, x: Any) -> None:
    qml.RY(x[0], 0)
    cond(measure(0, reset=True), lambda: qml.RX(x[1], 2))


def in_a_nest(measure: Any, cond: Any, x: Any) -> None:
    """Rotate the measured wire in loops that are unrolled, before its outcome is used."""
    qml.RY(x[0], 0)
    outcome = measure(0)
    rotate = lambda i, j: qml.RX(0.3 * (i + j), 0) and None
    inner = lambda i: bellhop.for_loop(0, 2)(lambda j: rotate(i, j))()
    bellhop.for_loop(0, 2)(inner)()
    cond(outcome, lambda: qml.RX(x[1], 2))


def as_an_angle(measure: Any, cond: Any, x: Any) -> None:
    qml.RY(x[0], 0)
    qml.RX(jnp.where(measure(0), x[1], 0.1), 2)


def with_an_effect(measure: Any, cond: Any, x: Any) -> None:
    def branch():
        bellhop.debug.print("one")
        qml.RX(x[1], 2)

    qml.RY(x[0], 0)
    cond(measure(0), branch)


def with_a_result(measure: Any, cond: Any, x: Any) -> None:
    qml.RY(x[0], 0)
    outcome = measure(0)
    qml.RX(bellhop.cond(outcome)(lambda: x[1]).otherwise(lambda: x[2])(), 2)


def by_a_quotient(measure: Any, cond: Any, x: Any) -> None:
    qml.RY(x[0], 0)
    cond(measure(0), lambda: qml.RX(1 / x[1], 2))


def by_a_callback(measure: Any, cond: Any, x: Any) -> None:
    qml.RY(x[0], 0)
    cond(measure(0), lambda: qml.RX(bellhop.pure_callback(float, float)(x[1]), 2))


@pytest.mark.parametrize("body", [by_a_quotient, by_a_callback])
def test_what_is_not_taken_does_no_harm(body: Any, assert_close: Any) -> None:
    ours = compiled(body, lambda: qml.expval(qml.Z(2)))
    assert_close(ours(jnp.zeros(3)), 1.0)
    assert draws_outcomes(ours)


P = jnp.sin(X[0] / 2) ** 2
OF_ANGLE = P * jnp.cos(X[1]) + 1 - P


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (used_again, OF_ANGLE),
        (reset, OF_ANGLE),
        (in_a_nest, OF_ANGLE),
        (as_an_angle, P * jnp.cos(X[1]) + (1 - P) * jnp.cos(0.1)),
        (with_a_result, P * jnp.cos(X[1]) + (1 - P) * jnp.cos(X[2])),
    ],
)
def test_what_needs_outcomes(body: Any, expected: Any, assert_close: Any) -> None:
    ours = compiled(body, lambda: qml.expval(qml.Z(2)))
    assert_close(ours(X), expected)
    assert draws_outcomes(ours)


def test_an_effect_is_of_its_branch(capfd: pytest.CaptureFixture[str]) -> None:
    ours = compiled(with_an_effect, lambda: qml.expval(qml.Z(2)))
    ours(jnp.zeros(3))
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    "measured",
    [lambda: qml.expval(qml.X(0)), lambda: qml.purity(wires=[0])],
)
def test_measured_wires_are_a_mixture(measured: Any, assert_close: Any) -> None:
    ours, theirs = compiled(conditioned, measured), reference(conditioned, measured)
    assert_close(ours(X), theirs(X))


@pytest.mark.parametrize("shots", [None, 4000])
@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (lambda: qml.expval(qml.Y(0)), 0.0),
        (lambda: qml.expval(qml.Y(0) @ qml.X(1)), 0.0),
        (lambda: qml.expval(qml.Hermitian(np.array([[0, -1j], [1j, 0]]), 0) + qml.Y(0)), 0.0),
        (lambda: qml.var(qml.Y(0)), 1.0),
        (lambda: qml.probs(op=qml.Y(0)), [0.5, 0.5]),
        (lambda: qml.expval(qml.Z(0)), np.cos(0.7)),
    ],
)
def test_a_final_measurement_in_another_basis(measured: Any, expected: Any, shots: Any) -> None:
    """A deferred measurement would leave the coherence that the change of basis turns to values."""

    @bellhop.qjit(seed=1)
    @qml.set_shots(shots)
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x):
        qml.RX(x, 0)
        outcome = bellhop.measure(0)
        bellhop.cond(outcome)(lambda: qml.RX(0.3, 1) and None)()
        return measured()

    assert circuit(0.7) == pytest.approx(expected, abs=0.06 if shots else 1e-9)


def test_numbers_beside_measurements_are_of_one_run(assert_close: Any) -> None:
    def circuit(x):
        qml.RY(x, 0)
        measured = bellhop.measure(0)
        run_one(measured, lambda: qml.X(1))
        return qml.expval(qml.Z(1)), 2 * x

    value, _ = bellhop.qjit(qml.QNode(circuit, qml.device("lightning.qubit", wires=2)))(1.0)
    assert_close(abs(value), 1.0)


def test_the_tree_is_there_for_those_who_ask() -> None:
    ours = compiled(conditioned, RESULTS[0], mcm_method="tree-traversal")
    ours(X)
    assert draws_outcomes(ours)
