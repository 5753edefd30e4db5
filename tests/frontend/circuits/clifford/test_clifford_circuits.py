"""Clifford circuits with shots: Stim samples them, and the program takes the records apart."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.needs import STIM

import bellhop

pytestmark = STIM.mark

SHOTS = 4000


def sampled(circuit, wires=3, shots=SHOTS, device="default.clifford"):
    made = qml.device(device, wires=wires)
    return qml.set_shots(qml.QNode(circuit, made), shots)


def run(circuit, *args, **options):
    return bellhop.qjit(sampled(circuit, **options), seed=7)(*args)


def programs_of(circuit, *args, **options):
    """Return the programs of Stim's that the compiled program has."""
    compiled = bellhop.qjit(sampled(circuit, **options))
    compiled(*args)
    functions = [
        eqn.params["target"].function for eqn in compiled.jaxpr.eqns if "target" in eqn.params
    ]
    return [function.arguments[1] for function in functions]


def entangled():
    qml.H(0)
    qml.CNOT([0, 1])
    qml.S(0)
    qml.ISWAP([1, 2])
    qml.RX(-np.pi / 2, 0)
    qml.adjoint(qml.SX(2))
    qml.ctrl(qml.X(1), control=0, control_values=[0])
    qml.PauliRot(np.pi / 2, "XZY", wires=[0, 1, 2])
    qml.ECR([2, 0])
    qml.GlobalPhase(0.3)


def outcomes():
    entangled()
    m0 = bellhop.measure(0)
    bellhop.cond(m0, lambda: qml.Y(2), lambda: qml.Z(1))()
    qml.H(1)
    m1 = bellhop.measure(1, reset=True)
    qml.H(0)
    m2 = qml.measure(0)
    bellhop.cond(m2 ^ m0, lambda: qml.X(0))()
    return m0, m1, m2


@pytest.mark.parametrize("is_measured", [False, True])
def test_distribution_is_that_of_the_state(is_measured):
    def circuit():
        found = outcomes() if is_measured else entangled()
        of_outcomes = [qml.probs(op=list(found))] if is_measured else []
        return [qml.probs(wires=[0, 1, 2]), *of_outcomes]

    values = run(circuit)
    exact = bellhop.qjit(qml.QNode(circuit, qml.device("lightning.qubit", wires=3)))()
    for value, expected in zip(values, exact, strict=True):
        # Five standard deviations.
        spread = 5 * np.sqrt(expected * (1 - expected) / SHOTS)
        assert np.all(np.abs(value - expected) <= spread + 1e-12)
        assert 0 < np.count_nonzero(expected < 1e-12) < len(expected) or not is_measured


def test_statistics_of_one_round_agree_with_its_samples():
    def circuit():
        m0, m1, _ = outcomes()
        return (
            qml.sample(wires=[2, 0]),
            qml.counts(wires=[2, 0]),
            qml.probs(wires=[2, 0]),
            qml.expval(qml.Z(2) @ qml.Z(0)),
            qml.var(0.5 * qml.Z(2)),
            qml.sample([m0, m1]),
            qml.counts([m0, m1]),
            qml.expval(m0 + 2 * m1),
            m0 & m1,
        )

    bits, (_, counts), probs, mean, var, mids, (_, of_mids), expression, both = run(circuit)
    number = lambda bits: 2 * bits[:, 0] + bits[:, 1]
    np.testing.assert_array_equal(counts, np.bincount(number(bits), minlength=4))
    np.testing.assert_allclose(probs, np.asarray(counts) / SHOTS, rtol=1e-12)
    signs = 1 - 2 * np.asarray(bits)
    np.testing.assert_allclose(mean, np.mean(signs[:, 0] * signs[:, 1]), atol=1e-12)
    np.testing.assert_allclose(var, np.var(0.5 * signs[:, 0]), atol=1e-12)
    np.testing.assert_array_equal(of_mids, np.bincount(number(mids), minlength=4))
    np.testing.assert_allclose(expression, np.mean(mids[:, 0] + 2 * mids[:, 1]), atol=1e-12)
    np.testing.assert_array_equal(both, mids[:, 0] & mids[:, 1])
    assert mids.dtype == bits.dtype == jax.dtypes.canonicalize_dtype(int)


def test_observables_in_several_bases():
    def circuit():
        qml.H(0)
        qml.CNOT([0, 1])
        words = [qml.X(0) @ qml.X(1), qml.Y(0) @ qml.Y(1), qml.Z(0) @ qml.Z(1)]
        hamiltonian = 0.5 * words[0] - 2.0 * words[1] + qml.Z(2)
        return [*map(qml.expval, words), qml.expval(hamiltonian), qml.sample(words[1])]

    *means, samples = run(circuit)
    np.testing.assert_allclose(means, [1, -1, 1, 3.5], atol=1e-12)
    np.testing.assert_array_equal(samples, -np.ones(SHOTS))


def test_hundreds_of_qubits():
    n = 300

    def circuit():
        qml.H(0)
        for wire in range(n - 1):
            qml.CNOT([wire, wire + 1])
        first = bellhop.measure(n // 2)
        return qml.sample(), qml.sample(first), qml.expval(qml.prod(*map(qml.Z, range(n))))

    bits, first, parity = run(circuit, wires=n, shots=200)
    assert np.all(bits == np.asarray(first)[:, None])
    assert 50 < np.sum(first) < 150
    assert parity == 1


def repetition_code(rounds):
    """Return a circuit of a code of five qubits, of which one is flipped after some rounds."""

    def round_(number, syndromes):
        for check in range(4):
            qml.CNOT([check, 5])
            qml.CNOT([check + 1, 5])
            outcome = bellhop.measure(5, reset=True)
            syndromes = syndromes.at[number, check].set(outcome)
        return syndromes

    def circuit():
        qml.X(2)
        syndromes = bellhop.for_loop(0, rounds)(round_)(jnp.zeros((rounds, 4), int))
        return syndromes, qml.sample(wires=range(5))

    return circuit


@pytest.mark.parametrize("rounds", [2, 700])
def test_loop_of_outcomes_is_one_of_stims(rounds):
    circuit = repetition_code(rounds)
    (program,) = programs_of(circuit, wires=6, shots=5)
    assert f"REPEAT {rounds} " in program
    syndromes, bits = run(circuit, wires=6, shots=5)
    expected = np.broadcast_to([0, 1, 1, 0], (5, rounds, 4))
    np.testing.assert_array_equal(syndromes, expected)
    np.testing.assert_array_equal(bits, np.broadcast_to([0, 0, 1, 0, 0], (5, 5)))


def test_loop_whose_iterations_differ_is_unrolled():
    def circuit():
        def body(i, last):
            bellhop.cond(last, lambda: qml.X(i))()
            qml.CNOT([i, i + 1])
            return bellhop.measure(i)

        qml.X(0)
        last = bellhop.for_loop(0, 3)(body)(False)
        bellhop.cond(last, lambda: qml.X(3))()
        return qml.sample(wires=[0, 1, 2, 3]), last

    # By hand: 1 goes on to wire 1, whose X by the first outcome leaves 0.
    bits, last = run(circuit, wires=4, shots=3)
    np.testing.assert_array_equal(bits, [[1, 0, 0, 0]] * 3)
    np.testing.assert_array_equal(last, [0, 0, 0])


def test_outcome_that_a_loop_of_stims_carries():
    def circuit():
        def body(i, last):
            qml.X(0)
            return bellhop.measure(0)

        last = bellhop.for_loop(0, 3)(body)(False)
        bellhop.cond(last, lambda: qml.X(1))()
        return qml.sample(wires=[0, 1])

    np.testing.assert_array_equal(run(circuit, shots=3), [[1, 1]] * 3)


@pytest.mark.parametrize("choice", [0, 1, 2])
def test_branch_that_the_program_chooses(choice):
    def circuit(choice):
        def measured():
            qml.X(1)
            return bellhop.measure(1)

        result = bellhop.cond(choice > 1, measured, lambda: jnp.asarray(False))()
        bellhop.cond(choice == 1, lambda: qml.X(2))()
        last = bellhop.measure(1)
        return qml.sample(wires=[0, 1, 2]), result, last

    bits, result, last = run(circuit, choice, shots=2)
    flipped = choice > 1
    np.testing.assert_array_equal(bits, [[0, flipped, choice == 1]] * 2)
    np.testing.assert_array_equal(result, [flipped] * 2)
    np.testing.assert_array_equal(last, [flipped] * 2)


def test_wire_that_the_program_computes():
    circuit = lambda wire: (qml.X(wire), qml.sample(wires=[0, 1, 2]))[1]
    program = bellhop.qjit(sampled(circuit, shots=1))
    for wire in range(3):
        np.testing.assert_array_equal(program(wire)[0], np.eye(3)[wire])
    with pytest.raises(bellhop.CircuitError, match="wire 3 is not in the circuit"):
        program(3)


def test_noise_of_computed_strength():
    def circuit(p):
        qml.BitFlip(p, wires=0)
        qml.PauliError("XY", p / 2, wires=[1, 2])
        qml.H(3)
        qml.PhaseFlip(2 * p, wires=3)
        qml.H(3)
        qml.DepolarizingChannel(0.3, wires=4)
        return qml.sample()

    bits = run(circuit, 0.2, wires=5)
    spread = 5 * 0.5 / np.sqrt(SHOTS)
    np.testing.assert_allclose(np.mean(bits, axis=0), [0.2, 0.1, 0.1, 0.4, 0.2], atol=spread)
    np.testing.assert_array_equal(bits[:, 1], bits[:, 2])
    with pytest.raises(bellhop.CircuitError, match="expected traced parameters that Stim accepts"):
        run(circuit, 1.5, wires=5)


@pytest.mark.parametrize(
    "transform", [bellhop.grad, lambda f: lambda p: bellhop.jvp(f, (p,), (1.0,))]
)
def test_derivatives_are_refused(transform):
    flipped = sampled(lambda p: (qml.BitFlip(p, wires=0), qml.expval(qml.Z(0)))[1], wires=1)
    with pytest.raises(
        bellhop.DifferentiableCompileError, match="with respect to the probability of an error"
    ):
        bellhop.qjit(transform(flipped))(0.1)


def test_seeds_shots_and_batches():
    def circuit(p):
        qml.H(0)
        m = bellhop.measure(0)
        qml.BitFlip(p, wires=1)
        return qml.sample(wires=[0, 1]), qml.expval(m)

    program = lambda seed, shots=100: bellhop.qjit(sampled(circuit, shots=shots), seed=seed)
    same, again, other = (program(seed)(0.5) for seed in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, same, again)
    assert not np.array_equal(same[0], other[0])
    in_loop = lambda p: jax.lax.map(lambda _: sampled(circuit, shots=64)(p), jnp.arange(3))
    runs, _ = bellhop.qjit(in_loop, seed=1)(0.5)
    assert len({row.tobytes() for row in np.asarray(runs)}) == 3
    groups = program(1, (60, 40))(0.5)
    assert [bits.shape for bits, _ in groups] == [(60, 2), (40, 2)]
    for bits, mean in groups:
        np.testing.assert_allclose(mean, np.mean(bits[:, 0]), atol=1e-12)
    rows, _ = bellhop.qjit(jax.vmap(sampled(circuit, shots=50)), seed=1)(jnp.array([0.0, 1.0]))
    np.testing.assert_array_equal(rows[..., 1], np.broadcast_to([[0], [1]], (2, 50)))


def test_prepared_stabilizer_state():
    def circuit():
        qml.StatePrep(np.array([0, 1, -1, 0]) / np.sqrt(2), wires=[0, 2])
        qml.BasisState([1], wires=1)
        return qml.expval(qml.X(0) @ qml.X(2)), qml.expval(qml.Z(0) @ qml.Z(2)), qml.sample(wires=1)

    one, other, bits = run(circuit, shots=5)
    assert (one, other) == (-1, -1)
    np.testing.assert_array_equal(bits, np.ones((5, 1)))


def test_shadows_and_other_observables_are_measured_by_pennylane():
    def circuit():
        bellhop.for_loop(0, 2)(lambda i: qml.X(i) and None)()
        return qml.classical_shadow(wires=[0, 1]), qml.expval(qml.Projector([1, 1], wires=[0, 1]))

    bits, mean = run(circuit, shots=20)
    assert bits.shape == (2, 20, 2)
    assert mean == 1


def test_circuit_measured_by_pennylane_is_run_once():
    runs = []

    def circuit():
        runs.append(1)
        bellhop.for_loop(0, 3)(lambda i: qml.adjoint(lambda: qml.X(i))() and None)()
        return qml.expval(qml.Hermitian(np.array([[0, 1], [1, 1]]), wires=0))

    mean = run(circuit, shots=20)
    assert (1 - np.sqrt(5)) / 2 <= mean <= (1 + np.sqrt(5)) / 2
    assert len(runs) == 1


def not_clifford():
    qml.T(0)


def not_a_pauli_channel():
    qml.AmplitudeDamping(0.1, 0)


def computed_angle(x):
    qml.RX(x, 0)


def other_than_paulis():
    bellhop.cond(bellhop.measure(0), lambda: qml.H(1))()


def not_linear():
    bellhop.cond(bellhop.measure(0) & bellhop.measure(1), lambda: qml.X(2))()


def many_outcomes():
    parity = bellhop.measure(0)
    for _ in range(9):
        parity = parity ^ bellhop.measure(0)
    bellhop.cond(parity, lambda: qml.X(2))()


def mixed_condition(x):
    bellhop.cond(bellhop.measure(0) & (x > 0), lambda: qml.X(2))()


def postselects():
    bellhop.measure(0, postselect=1)


def unknown_length(x):
    bellhop.for_loop(0, jnp.int32(x))(lambda i: qml.X(0) and None)()


def waits():
    bellhop.while_loop(lambda m: m)(lambda m: bellhop.measure(0))(True)


def branch_in_branch(x):
    bellhop.cond(x > 0, lambda: bellhop.cond(x > 1, lambda: qml.X(0))())()


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        (not_clifford, "is not a Clifford gate"),
        (not_a_pauli_channel, "the channel AmplitudeDamping does not apply random Paulis"),
        (computed_angle, "must know the Clifford gate at compile time"),
        (other_than_paulis, "applies operations other than Paulis"),
        (not_linear, "are not a product with a factor for each"),
        (many_outcomes, "depends on 10 outcomes, expected at most 8"),
        (mixed_condition, "depends on mid-circuit outcomes"),
        (postselects, "postselection is not supported by Stim"),
        (unknown_length, "as Stim programs have a fixed length"),
        (waits, "the circuit has a while_loop, expected a static"),
        (branch_in_branch, "a branch of a conditional has a traced"),
    ],
)
def test_what_is_refused(gates, message):
    def circuit(x):
        gates(*[x][: gates.__code__.co_argcount])
        return qml.sample(wires=[0, 1, 2])

    with pytest.raises(bellhop.CompileError, match=message):
        run(circuit, 0.3)


def test_measurements_that_are_refused():
    def on_outcome():
        m = bellhop.measure(0)
        return qml.expval(m * qml.Z(1))

    with pytest.raises(
        bellhop.CompileError, match="ExpectationMP is itself chosen or computed by a mid-circuit"
    ):
        run(on_outcome)

    single = lambda: (bellhop.measure(0), qml.sample(wires=0))[1]
    made = qml.QNode(
        single, qml.device("default.clifford", wires=1), mcm_method="single-branch-statistics"
    )
    with pytest.raises(bellhop.CompileError, match="on default.clifford is not supported"):
        bellhop.qjit(qml.set_shots(made, 10))()


class Ones(qml.measurements.SampleMeasurement):
    """The mean number of ones."""

    def process_samples(self, samples, wire_order, shot_range=None, bin_size=None):
        return qml.math.mean(1.0 * qml.math.sum(samples, axis=-1))

    def process_counts(self, counts, wire_order):
        raise NotImplementedError


def test_measurement_class_of_the_user_with_a_shot_vector():
    @bellhop.qjit
    @qml.set_shots((10, 21))
    @qml.qnode(qml.device("default.clifford", wires=2))
    def circuit():
        qml.H(0)
        qml.CNOT([0, 1])
        return Ones(wires=[0, 1]), qml.probs(wires=0)

    for ones, probabilities in circuit():
        assert ones == pytest.approx(2 * probabilities[1])
