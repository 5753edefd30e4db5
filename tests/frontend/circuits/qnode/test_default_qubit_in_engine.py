"""Which circuits of default.qubit the engine runs, and that it does all that the program does."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop_runtime import _runtime

POINT = jnp.array([0.4, 0.7])


def node(measure: Any, prepare: Any = lambda x: None, **options: Any) -> Any:
    def circuit(x: Any) -> Any:
        prepare(x)
        qml.RX(x[0], 0)
        qml.CNOT([0, 1])
        qml.CRY(x[1], [0, 1])
        return measure(x)

    return qml.QNode(circuit, qml.device("default.qubit", wires=2), **options)


def z(x: Any) -> Any:
    return qml.expval(qml.Z(1))


def rows_in_engine(compiled: Any, *args: Any) -> tuple[int, Any]:
    before = _runtime.rows_in_engine()
    found = compiled(*args)
    return _runtime.rows_in_engine() - before, found


def reset(x: Any) -> None:
    qml.RY(x[0], 0)
    qml.cond(qml.measure(0, reset=True), qml.RY)(x[1], 1)


def postselected(x: Any) -> None:
    qml.RY(x[0], 0)
    bellhop.measure(0, postselect=0)


def computed_loop(x: Any) -> None:
    length = jnp.sum(x > 0)
    bellhop.for_loop(0, length, 1)(lambda i: qml.RY(x[1] * (i + 1), 0))()


IN_ENGINE = {
    "means": node(lambda x: (z(x), qml.var(0.5 * qml.X(0) + qml.Z(1)), qml.probs([1]))),
    "coefficients": node(lambda x: qml.expval(qml.Hamiltonian([x[0], 2], [qml.Z(0), qml.X(1)]))),
    "known matrices": node(
        lambda x: qml.expval(qml.Hermitian(np.array([[1, 2j], [-2j, 0]]), 1)),
        lambda x: qml.QubitUnitary(qml.H.compute_matrix(), 0),
    ),
    "known amplitudes": node(z, lambda x: qml.StatePrep(np.array([0.6, 0.8]), 1)),
    "computed amplitudes": node(z, lambda x: qml.StatePrep(qml.math.sin(x), 1, normalize=True)),
    "outcomes": node(z, reset),
    "a loop of computed length": node(z, computed_loop),
    "parameter-shift": node(z, diff_method="parameter-shift"),
}

IN_PROGRAM = {
    "state": node(lambda x: qml.state()),
    "purity": node(lambda x: qml.purity(0)),
    "computed matrix": node(z, lambda x: qml.QubitUnitary(qml.RX.compute_matrix(x[0]), 0)),
    "computed observable": node(lambda x: qml.expval(qml.Hermitian(jnp.diag(x), 1))),
    "postselected shots": qml.set_shots(node(z, postselected), 10),
    "a classical shadow": qml.set_shots(node(lambda x: qml.shadow_expval(qml.Z(1))), 10),
    "a loop of computed length with shots": qml.set_shots(node(z, computed_loop), 10),
    "backprop": node(z, diff_method="backprop"),
    "finite-diff": node(z, diff_method="finite-diff"),
}


def ravelled(tree: Any) -> Any:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def slopes_by_differences(circuit: Any, step: float = 1e-5) -> Any:
    """Differences of the values of an uncompiled circuit, by both parameters."""
    shifts = step * np.eye(2)
    value = lambda x: ravelled(circuit(x))
    return np.stack(
        [(value(np.array(POINT) + s) - value(np.array(POINT) - s)) / (2 * step) for s in shifts],
        axis=1,
    )


@pytest.mark.parametrize("circuit", IN_ENGINE.values(), ids=IN_ENGINE)
def test_the_engine_runs(circuit):
    both = lambda x: (circuit(x), jax.jacobian(circuit)(x))
    # PennyLane has a wire more for each outcome.
    uncompiled = qml.QNode(circuit.func, qml.device("default.qubit"))
    rows, (values, slopes) = rows_in_engine(bellhop.qjit(both), POINT)
    assert rows > 0
    np.testing.assert_allclose(ravelled(values), ravelled(uncompiled(np.array(POINT))), atol=1e-12)
    slopes = np.concatenate([np.reshape(each, (-1, 2)) for each in jax.tree.leaves(slopes)])
    np.testing.assert_allclose(slopes, slopes_by_differences(uncompiled), atol=1e-8)


def of_shots(x: Any) -> Any:
    """Of three bases, so that a sweep stands in the place of each measurement."""
    observable = qml.sum(qml.Z(0), 2 * qml.X(0) @ qml.Z(1), 0.5 * qml.Y(1))
    return qml.expval(observable), qml.probs([1, 0]), qml.var(qml.X(1))


@pytest.mark.parametrize("measure", [z, of_shots], ids=["Jacobian", "sweeps"])
def test_gradients_by_the_likelihood_of_samples(measure):
    exact, shots = node(measure), qml.set_shots(node(measure), 400)
    weigh = lambda values: jnp.arange(1.0, 1 + values.size) @ values
    flat = lambda values: jnp.concatenate(list(map(jnp.ravel, jax.tree.leaves(values))))
    total = lambda circuit: lambda x: weigh(flat(circuit(x)))
    points = jnp.broadcast_to(POINT, (1000, 2))
    gradients = bellhop.qjit(jax.vmap(jax.grad(total(shots))), seed=3)
    rows, drawn = rows_in_engine(gradients, points)
    assert rows >= 1000
    np.testing.assert_array_equal(drawn, gradients(points))
    error = np.std(drawn, axis=0) / np.sqrt(1000)
    # That of a variance of 400 shots has a bias of 1/400.
    expected = bellhop.qjit(jax.grad(total(exact)))(POINT)
    assert np.max(error) < 0.1
    np.testing.assert_array_less(np.abs(np.mean(drawn, axis=0) - expected), 5 * error + 0.02)


def test_samples_of_the_engine_are_distributed_as_they_should():
    circuit = qml.set_shots(node(lambda x: qml.counts(wires=[0, 1])), 100_000)
    rows, (_, counts) = rows_in_engine(bellhop.qjit(circuit, seed=1), POINT)
    assert rows == 1
    expected = 1e5 * np.array(node(lambda x: qml.probs([0, 1]))(np.array(POINT)))
    happens = expected > 1e-6
    chi_square = np.sum((counts - expected)[happens] ** 2 / expected[happens])
    assert chi_square < 20
    assert np.sum(counts[~happens]) == 0


@pytest.mark.parametrize("circuit", IN_PROGRAM.values(), ids=IN_PROGRAM)
def test_it_stays_in_the_program(circuit):
    assert rows_in_engine(bellhop.qjit(circuit), POINT)[0] == 0


def test_it_stays_in_the_program_on_request_and_in_regions():
    circuit = IN_ENGINE["means"]
    assert rows_in_engine(bellhop.qjit(circuit, engine="plugin"), POINT)[0] == 0
    assert rows_in_engine(bellhop.qjit(bellhop.accelerate(circuit)), POINT)[0] == 0


def test_third_derivatives_of_a_batch():
    third = lambda function: jax.vmap(jax.jacfwd(jax.jacrev(jax.jacfwd(function))))
    points = jnp.stack([POINT, 2 * POINT, 0 * POINT])
    rows, found = rows_in_engine(bellhop.qjit(third(node(z))), points)
    assert rows >= len(points)
    by_hand = lambda x: jnp.cos(x[0] / 2) ** 2 - jnp.sin(x[0] / 2) ** 2 * jnp.cos(x[1])
    np.testing.assert_allclose(found, third(by_hand)(points), atol=1e-10)
