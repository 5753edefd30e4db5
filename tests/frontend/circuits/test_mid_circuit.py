"""bellhop.measure: exact results against PennyLane, random ones against their distribution."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

RUN_ERRORS = (jax.errors.JaxRuntimeError, ValueError)


def teleported(measure: Any, cond: Any, x: Any) -> Any:
    qml.RY(x, wires=0)
    qml.Hadamard(wires=1)
    qml.CNOT(wires=[1, 2])
    qml.CNOT(wires=[0, 1])
    qml.Hadamard(wires=0)
    m0, m1 = measure(0), measure(1)
    cond(m1, qml.X)(2)
    cond(m0, qml.Z)(2)
    return qml.expval(qml.Z(2)), qml.expval(qml.X(2)), qml.probs(op=[m0, m1])


def statistics_of_outcomes(measure: Any, cond: Any, x: Any) -> Any:
    qml.RY(x, wires=0)
    qml.RX(2 * x, wires=1)
    m0 = measure(0)
    cond(m0, qml.CRY)(x, wires=[0, 1])
    m1 = measure(1)
    return (
        qml.expval(m0),
        qml.expval(m0 + 2 * m1),
        qml.var(m0 + m1),
        qml.var(m1),
        qml.probs(op=m1),
        qml.expval(~m0),
        qml.expval(m0 * m1 - 1),
    )


def reset_and_reused(measure: Any, cond: Any, x: Any) -> Any:
    qml.RY(x, wires=0)
    m0 = measure(0, reset=True)
    qml.RX(x, wires=0)
    m1 = measure(0)
    cond(m0 == 1, qml.RY)(0.3, wires=1)
    cond((m0 + m1) == 2, qml.X)(2)
    return qml.probs(wires=[0, 1, 2]), qml.var(qml.Z(0) @ qml.Z(1)), qml.var(qml.X(1))


def postselected(measure: Any, cond: Any, x: Any) -> Any:
    qml.RY(x, wires=0)
    qml.CRX(x, wires=[0, 1])
    m0 = measure(1)
    qml.RX(0.4, wires=0)
    measure(0, postselect=1)
    cond(m0, qml.X)(2)
    return qml.probs(wires=[0, 1, 2]), qml.expval(m0), qml.expval(qml.Y(1))


def never_one(measure: Any, cond: Any, x: Any) -> Any:
    m0 = measure(0)
    qml.RY(x, wires=1)
    cond(m0, qml.X)(1)
    m1 = measure(1)
    return qml.expval(m0), qml.probs(op=[m0, m1])


CIRCUITS = [teleported, statistics_of_outcomes, reset_and_reused, postselected, never_one]


def with_bellhop(body: Any) -> Callable[..., Any]:
    return lambda x: body(bellhop.measure, bellhop.cond, x)


@pytest.mark.parametrize("body", CIRCUITS)
def test_exact_results(assert_close: Any, lightning: Any, body: Any) -> None:
    theirs = qml.QNode(lambda x: body(qml.measure, qml.cond, x), qml.device("default.qubit"))
    ours = bellhop.qjit(lightning(with_bellhop(body), wires=3))
    for x in (0.7, 2.1):
        assert_close(ours(x), theirs(x))


def test_feedback_that_no_deferral_can_do(lightning: Any) -> None:
    """An outcome on its way through Python, a region, loops and indexing to angles and wires."""
    seen = []

    @bellhop.pure_callback
    def angle(m: Any) -> float:
        seen.append(bool(m))
        return 0.3 + m

    @bellhop.accelerate(dev=jax.devices("cpu")[1])
    def other(m: Any, x: Any) -> Any:
        return jnp.where(m, jnp.sin(x), x)

    @bellhop.qjit
    @lightning
    def circuit(x: Any) -> Any:
        qml.RY(x, wires=0)
        m = bellhop.measure(0)
        qml.RY(angle(m), wires=1)
        qml.RY(other(m, x), wires=2)
        bellhop.for_loop(0, m + 1)(lambda i: qml.RY(x, wires=1) and None)()
        qml.RX(jnp.array([0.1, 0.2])[m.astype(int)], wires=3)
        return [qml.expval(qml.Z(i)) for i in range(4)]

    x, p = 0.9, np.sin(0.45) ** 2
    expected = [
        np.cos(x),
        (1 - p) * np.cos(0.3 + x) + p * np.cos(1.3 + 2 * x),
        (1 - p) * np.cos(x) + p * np.cos(np.sin(x)),
        (1 - p) * np.cos(0.1) + p * np.cos(0.2),
    ]
    np.testing.assert_allclose(circuit(x), expected, atol=1e-9)
    assert sorted(seen) == [False, True]


def test_measurements_in_loops_and_branches(lightning: Any) -> None:
    @bellhop.qjit
    @lightning
    def circuit(x: Any) -> Any:
        @bellhop.for_loop(0, 3)
        def loop(i: Any, count: Any) -> Any:
            qml.RY(x, wires=i)
            return count + bellhop.measure(i)

        count = loop(0)
        measured = bellhop.cond(count > 1, lambda: bellhop.measure(3), lambda: False)()
        return qml.expval(count), qml.var(count), qml.expval(measured)

    p = np.sin(0.35) ** 2
    np.testing.assert_allclose(circuit(0.7), [3 * p, 3 * p * (1 - p), 0], atol=1e-9)


def until_zero(x: Any) -> Any:
    qml.Hadamard(wires=1)

    @bellhop.while_loop(lambda m, count: m)
    def again(_: Any, count: Any) -> Any:
        qml.RY(x, wires=0)
        return bellhop.measure(0, reset=True), count + 1

    return again(True, 0)[1]


def test_exact_mean_of_a_loop_until_success(lightning: Any) -> None:
    circuit = bellhop.qjit(lightning(lambda x: qml.expval(until_zero(x)), wires=2))
    np.testing.assert_allclose(circuit(1.1), 1 / np.cos(0.55) ** 2, atol=1e-9)


@pytest.mark.parametrize("shots", [1, 400])
def test_shots_of_a_loop_until_success(lightning: Any, shots: int) -> None:
    node = qml.set_shots(lightning(lambda x: qml.sample(until_zero(x)), wires=2), shots)
    counts = bellhop.qjit(node, seed=1)(1.1)
    assert counts.shape == (shots,)
    assert counts.min() == 1
    if shots > 1:
        np.testing.assert_allclose(counts.mean(), 1 / np.cos(0.55) ** 2, atol=0.2)


@pytest.mark.parametrize("body", CIRCUITS)
def test_one_shot_results(lightning: Any, body: Any) -> None:
    """Each is near the exact one: six standard errors of the 2000 shots, and a fixed seed."""
    exact = bellhop.qjit(lightning(with_bellhop(body), wires=3))(0.7)
    shots = qml.set_shots(lightning(with_bellhop(body), wires=3), 2000)
    sampled = bellhop.qjit(shots, seed=7)(0.7)
    if body is postselected:
        # Each shot is postselected, so what came before it is not weighted by its chance.
        exact, sampled = exact[0].sum(), sampled[0].sum()
    for one, other in zip(jax.tree.leaves(exact), jax.tree.leaves(sampled), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=0.15)


def test_samples_and_counts_of_outcomes(lightning: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RY(x, wires=0)
        m0 = bellhop.measure(0)
        bellhop.cond(m0, qml.X)(1)
        m1 = bellhop.measure(1, reset=True)
        return (
            qml.sample(m0),
            qml.sample([m0, m1]),
            qml.sample(m0 + m1),
            qml.counts(m0),
            qml.counts([m0, m1]),
            qml.sample(wires=[0, 1]),
            qml.sample(qml.Z(0)),
        )

    node = qml.set_shots(lightning(circuit, wires=2), 50)
    m0, both, total, (values, counts), (indices, pairs), bits, signs = bellhop.qjit(node)(1.5)
    assert 5 < m0.sum() < 45
    np.testing.assert_array_equal(both, np.stack([m0, m0], axis=1))
    np.testing.assert_array_equal(total, 2 * m0)
    np.testing.assert_array_equal(values, [0, 1])
    np.testing.assert_array_equal(counts, [50 - m0.sum(), m0.sum()])
    np.testing.assert_array_equal(indices, range(4))
    np.testing.assert_array_equal(pairs, [50 - m0.sum(), 0, 0, m0.sum()])
    np.testing.assert_array_equal(bits, np.stack([m0, 0 * m0], axis=1))
    np.testing.assert_array_equal(signs, 1 - 2.0 * m0)


def outcomes(n: int) -> Callable[[Any], Any]:
    """A circuit that is one random run and returns its outcomes."""

    def circuit(x: Any) -> Any:
        for wire in range(n):
            qml.RY(x, wires=wire)
        return [bellhop.measure(wire) for wire in range(n)]

    return circuit


@pytest.fixture(scope="module")
def coins() -> qml.QNode:
    return qml.QNode(outcomes(8), qml.device("lightning.qubit", wires=8))


HALF = np.pi / 2


def test_same_seed_same_sequence_of_calls(coins: Any) -> None:
    one, other, third = (bellhop.qjit(coins, seed=seed) for seed in (11, 11, 12))
    first = [np.array(one(HALF)) for _ in range(4)]
    np.testing.assert_array_equal(first, [np.array(other(HALF)) for _ in range(4)])
    assert not np.array_equal(first, [np.array(third(HALF)) for _ in range(4)])
    assert len({tuple(call) for call in first}) > 1


def test_without_a_seed_programs_differ(coins: Any) -> None:
    runs = [[np.array(bellhop.qjit(coins)(HALF)) for _ in range(1)] for _ in range(3)]
    assert len({np.array(run).tobytes() for run in runs}) > 1


def test_a_random_circuit_is_made_as_often_as_it_stands_there(coins: Any) -> None:
    """Nobody merges equal circuits, takes one out of a loop, or drops its turns."""

    @bellhop.qjit(seed=3)
    def program(y: Any) -> Any:
        turn = lambda total, _: (total * 1.0, (total * 0, jnp.stack(coins(HALF))))
        in_scan = jax.lax.scan(turn, y, None, length=4)[1][1]
        in_vmap = jax.vmap(lambda x: jnp.stack(coins(x)))(jnp.full(4, HALF))
        equal = [jnp.stack(coins(HALF)) for _ in range(4)]
        jitted = jax.jit(lambda: jnp.stack(coins(HALF)))
        return in_scan, in_vmap, jnp.stack(equal), jnp.stack([jitted() for _ in range(4)])

    for runs in program(1.0):
        assert len({tuple(run) for run in np.array(runs).astype(int)}) > 1

    @bellhop.qjit(seed=3)
    @jax.grad
    def derivative(y: Any) -> Any:
        turn = lambda total, _: (total * 1.0, total * jnp.stack(coins(HALF)).astype(float))
        return jnp.sum(jax.lax.scan(turn, y, None, length=4)[1] ** 2)

    # Of the sum of the squares of 32 coins: twice as many as came up, and not 4 equal rows.
    assert {float(derivative(1.0)) % 8 for _ in range(8)} != {0.0}


def test_two_circuits_keep_their_own_outcomes(lightning: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RY(x, wires=0)
        m = bellhop.measure(0)
        return m, qml.expval(qml.Z(0))

    node = lightning(circuit, wires=1)

    @bellhop.qjit
    def program(x: Any) -> Any:
        return node(x), node(x + 0.1), node(np.pi), node(0.0)

    for _ in range(5):
        for m, z in program(1.5):
            assert z == 1 - 2 * m
        *_, (one, _), (zero, _) = program(1.5)
        assert one
        assert not zero


def test_single_branch(lightning: Any) -> None:
    """Results are those of the outcomes that came: a definite state."""

    def circuit(x: Any) -> Any:
        qml.RY(x, wires=0)
        bellhop.measure(0)
        return qml.expval(qml.Z(0)), qml.state()

    node = lightning(circuit, wires=1, mcm_method="single-branch-statistics")
    program = bellhop.qjit(node, seed=5)
    values = [program(1.5) for _ in range(12)]
    assert {round(float(value)) for value, _ in values} == {-1, 1}
    for value, state in values:
        np.testing.assert_allclose(np.abs(state) ** 2, [(1 + value) / 2, (1 - value) / 2])


def test_many_threads_draw_their_own(coins: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    program = bellhop.qjit(coins, seed=4)
    expected = {np.array(program(HALF)).tobytes() for _ in range(20)}
    again = bellhop.qjit(coins, seed=4)
    with ThreadPoolExecutor(4) as pool:
        drawn = set(pool.map(lambda _: np.array(again(HALF)).tobytes(), range(20)))
    assert drawn == expected


EXPRESSIONS = [
    "a + b",
    "a - b",
    "a * b",
    "a / 2",
    "1 - a",
    "2 * a + b",
    "-a",
    "a**2",
    "(1 - a) * 0.3",
    "~a",
    "~(a & b)",
    "~a + ~b",
    "(a & b) + (a | b)",
    "a ^ b",
    "a & True",
    "1 & a",
    "a == 1",
    "a == b",
    "(a == 1) + (b == 1)",
    "(a + b) == 2",
    "a > 0",
]


def test_arithmetic_of_outcomes_is_that_of_numbers(lightning: Any) -> None:
    @bellhop.qjit
    @lightning
    def circuit(x: Any, y: Any) -> Any:
        qml.BasisState(jnp.stack([x, y]), wires=[0, 1])
        names = {"a": bellhop.measure(0), "b": bellhop.measure(1)}
        return [eval(expression, {}, names) for expression in EXPRESSIONS]

    for x, y in itertools.product([0, 1], repeat=2):
        names = {"a": x, "b": y}
        for expression, ours in zip(EXPRESSIONS, circuit(x, y), strict=True):
            negated = expression.replace("~", "1-")
            theirs = eval(negated, {}, names)
            assert float(ours) == float(theirs), expression


def test_outcomes_are_booleans_to_jax(lightning: Any) -> None:
    @bellhop.qjit
    @lightning
    def circuit() -> Any:
        m = bellhop.measure(0)
        assert isinstance(m, jax.Array)
        assert (m.dtype, m.shape) == (bool, ())
        return m, jnp.where(m, 1, 2), jax.jit(jnp.cos)(m), jax.lax.cond(m, jnp.sin, jnp.cos, 0.3)

    m, *others = circuit()
    assert m.dtype == bool
    np.testing.assert_allclose(others, [2, 1, np.cos(0.3)], atol=1e-7)


def test_postselection_of_what_does_not_happen(lightning: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RY(x, wires=1)
        bellhop.measure(0, postselect=1)
        return qml.expval(qml.Z(1))

    assert np.isnan(bellhop.qjit(lightning(circuit))(0.3))
    shots = bellhop.qjit(qml.set_shots(lightning(circuit), 3))
    message = r"measurement of wire 0 \(.*test_mid_circuit.*\): it is to give 1 \(postselect\)"
    with pytest.raises(RUN_ERRORS, match=message):
        shots(0.3)


def test_wire_that_is_not_there(lightning: Any) -> None:
    circuit = bellhop.qjit(lightning(lambda i: bellhop.measure(i), wires=2))
    assert not circuit(1)
    with pytest.raises(RUN_ERRORS, match=r"measurement of wire 2 \(.*: wire 2 is not in the circ"):
        circuit(2)


COMPILE_ERRORS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "two wires": (lambda: bellhop.measure([0, 1]), {}, "takes one wire, and was given 2"),
    "postselect of 2": (lambda: bellhop.measure(0, postselect=2), {}, "must be 0 or 1; it is 2"),
    "state": (
        lambda: (bellhop.measure(0), qml.state())[1],
        {},
        "state after mid-circuit measurements, where the state is a mixture",
    ),
    "deferred": (
        lambda: qml.expval(bellhop.measure(0)),
        {"mcm_method": "deferred"},
        "mcm_method='deferred' is not supported by bellhop; there are 'one-shot'",
    ),
    "one-shot without shots": (
        lambda: qml.expval(bellhop.measure(0)),
        {"mcm_method": "one-shot"},
        "mcm_method='one-shot' needs shots. Use mcm_method='tree-traversal'",
    ),
    "values of several runs": (
        lambda: bellhop.measure(0),
        {"mcm_method": "tree-traversal"},
        "it returns values that are no measurements",
    ),
    "hw-like": (
        lambda: qml.expval(bellhop.measure(0, postselect=0)),
        {"postselect_mode": "hw-like"},
        "postselect_mode='hw-like' drops shots",
    ),
    "sample without shots": (lambda: qml.sample(bellhop.measure(0)), {}, "without shots"),
    "in an adjoint": (
        lambda: (bellhop.adjoint(lambda: bellhop.measure(0))(), qml.state())[1],
        {},
        "stands in an adjoint or ctrl of a function, which cannot hold measurements",
    ),
}


@pytest.mark.parametrize("name", COMPILE_ERRORS)
def test_what_cannot_be_compiled(lightning: Any, name: str) -> None:
    body, options, message = COMPILE_ERRORS[name]
    with pytest.raises(bellhop.CompileError, match=message.replace("(", r"\(")):
        bellhop.qjit(lightning(body, wires=2, **options))()


def test_outside_a_circuit() -> None:
    with pytest.raises(bellhop.CompileError, match="outside of a QNode"):
        bellhop.measure(0)
    with pytest.raises(bellhop.CompileError, match="outside of a QNode"):
        bellhop.qjit(lambda: bellhop.measure(0))()


def test_device_without_wires_counts_measured_ones(lightning: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RY(x, wires="a")
        bellhop.cond(bellhop.measure("a"), qml.X)("b")
        bellhop.measure("c")
        return qml.probs()

    p = np.sin(0.35) ** 2
    probabilities = bellhop.qjit(lightning(circuit, wires=None))(0.7)
    np.testing.assert_allclose(probabilities, [1 - p, 0, 0, 0, 0, 0, p, 0], atol=1e-9)


def test_under_plain_jit(coins: Any) -> None:
    runs = jax.jit(lambda x: [jnp.stack(bellhop.qjit(coins)(x)) for _ in range(4)])(HALF)
    assert len({np.array(run).tobytes() for run in runs}) > 1


def test_outcomes_and_numbers_that_are_returned_with_shots(lightning: Any) -> None:
    """They are those of each shot, as in Catalyst."""

    def circuit(x: Any) -> Any:
        qml.Hadamard(0)
        m = bellhop.measure(0)
        return {"m": m, "x": [2 * x, jnp.ones(2)]}, qml.sample(m), qml.expval(qml.Z(0))

    qnode = lightning(circuit, wires=1)
    returned, sample, mean = bellhop.qjit(qml.set_shots(qnode, 50))(HALF)
    assert returned["m"].dtype == bool
    np.testing.assert_array_equal(returned["m"], sample)
    np.testing.assert_allclose(np.mean(1 - 2.0 * returned["m"]), mean)
    assert 0 < returned["m"].sum() < 50
    np.testing.assert_array_equal(returned["x"][0], [2 * HALF] * 50)
    assert returned["x"][1].shape == (50, 2)
    copies = bellhop.qjit(qml.set_shots(qnode, (3, 5)))(HALF)
    assert [copy[0]["m"].shape for copy in copies] == [(3,), (5,)]
    once = qml.QNode(circuit, qnode.device, mcm_method="single-branch-statistics", shots=7)
    returned, sample, _ = bellhop.qjit(once)(HALF)
    assert returned["m"].shape == ()
    np.testing.assert_array_equal(sample, [int(returned["m"])] * 7)


def test_numbers_beside_samples(lightning: Any) -> None:
    def circuit(x: Any) -> Any:
        return 2 * x, qml.sample(wires=0)

    qnode = lightning(circuit, wires=1)
    number, sample = bellhop.qjit(qml.set_shots(qnode, 4))(HALF)
    assert number == 2 * HALF
    assert sample.shape == (4, 1)
    assert [copy[0] for copy in bellhop.qjit(qml.set_shots(qnode, (2, 3)))(HALF)] == [2 * HALF] * 2
