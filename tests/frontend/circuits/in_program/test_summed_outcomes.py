"""More outcomes on default.mixed than it could go through: those that nothing needs any more."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.in_program.mixed_circuits import on_mixed

import bellhop

X, ROUNDS = 0.7, 20


def one_round(x):
    """Turn a wire by what another one gives, which is then as it was."""
    qml.RX(x, 0)
    outcome = bellhop.measure(0, reset=True)
    bellhop.cond(outcome, lambda: qml.RY(x, 1))()
    qml.AmplitudeDamping(0.1, 1)


def rounds(x):
    bellhop.for_loop(0, ROUNDS - 2, 1)(lambda _: one_round(x))()
    one_round(x)
    one_round(x)
    last = bellhop.measure(1)
    qml.RX(last * x, 0)
    return qml.expval(qml.Z(0) @ qml.Z(1)), qml.probs(op=last)


def by_hand(x):
    """The same on the second wire alone, whose density matrix is real."""
    p, cos, sin = np.sin(x / 2) ** 2, np.cos(x / 2), np.sin(x / 2)
    turn = np.array([[cos, -sin], [sin, cos]])
    kraus = np.array([[[1, 0], [0, np.sqrt(0.9)]], [[0, np.sqrt(0.1)], [0, 0]]])
    rho = np.diag([1.0, 0.0])
    for _ in range(ROUNDS):
        rho = (1 - p) * rho + p * turn @ rho @ turn.T
        rho = sum(k @ rho @ k.T for k in kraus)
    return rho[0, 0] - rho[1, 1] * np.cos(x), np.diag(rho)


def test_values_and_derivatives() -> None:
    both = lambda x: jnp.hstack(on_mixed(rounds)(x))
    value, slope = bellhop.qjit(lambda x: jax.jvp(both, (x,), (1.0,)))(X)
    np.testing.assert_allclose(value, np.hstack(by_hand(X)), atol=1e-12)
    ends = [np.hstack(by_hand(X + step)) for step in (1e-5, -1e-5)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, atol=1e-8)


def test_loop_of_computed_length() -> None:
    def circuit(x, n):
        bellhop.for_loop(0, n, 1)(lambda _: one_round(x))()
        return qml.probs(wires=1)

    _, expected = by_hand(X)
    found = bellhop.qjit(on_mixed(circuit))(X, ROUNDS)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_loop_whose_length_an_outcome_decides() -> None:
    def circuit(x):
        @bellhop.while_loop(lambda found: ~found)
        def attempt(_):
            qml.RX(x, 0)
            return bellhop.measure(0)

        attempt(False)
        return qml.expval(qml.Z(0))

    with pytest.raises(bellhop.CompileError, match="is in a while_loop, expected a static"):
        bellhop.qjit(on_mixed(circuit))(X)


def test_shots() -> None:
    drawn = bellhop.qjit(qml.set_shots(on_mixed(rounds), 4000), seed=3)(X)
    np.testing.assert_allclose(np.hstack(drawn), np.hstack(by_hand(X)), atol=0.08)


def test_outcomes_that_are_needed_at_the_end_are_gone_through() -> None:
    def circuit():
        total = sum(bellhop.measure(0) for _ in range(13))
        qml.RX(total, 0)
        return qml.expval(qml.Z(0))

    with pytest.raises(
        bellhop.CompileError,
        match="of mid-circuit outcomes .* got 13. Apply the gates that depend on",
    ):
        bellhop.qjit(on_mixed(circuit))()


def test_order_of_effects() -> None:
    """What is called in a branch is called for each combination, in its place."""
    seen = []

    def circuit(x):
        for number in range(2):
            qml.RX(x, 0)
            outcome = bellhop.measure(0)
            told = lambda number=number: bellhop.debug.callback(seen.append)(number)
            bellhop.cond(outcome, told)()
        return qml.expval(qml.Z(0))

    value = bellhop.qjit(on_mixed(circuit))(X)
    np.testing.assert_allclose(value, np.cos(X) ** 2, atol=1e-12)
    assert sorted(map(int, seen)) == [0, 0, 1, 1]


@pytest.mark.parametrize("n", [ROUNDS, jnp.int32(ROUNDS)], ids=["known", "computed"])
def test_outcomes_that_nobody_uses(n):
    """What is computed of an outcome, and is not used, stood behind the state."""

    def circuit(x, n):
        @bellhop.for_loop(0, n, 1)
        def loop(i):
            qml.RX(x * (i + 1), 0)
            bellhop.measure(0)

        loop()
        return qml.expval(qml.Z(0))

    run = bellhop.qjit(on_mixed(circuit), static_argnums=() if isinstance(n, jax.Array) else 1)
    expected = np.prod(np.cos(X * np.arange(1, ROUNDS + 1)))
    np.testing.assert_allclose(run(X, n), expected, atol=1e-12)
