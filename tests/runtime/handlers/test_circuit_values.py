"""What the circuit handlers compute, against PennyLane's default.qubit."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from pennylane.ops import Controlled
from pennylane.ops.op_math.adjoint import Adjoint
from scipy.stats import unitary_group
from tests.runtime.circuit_calls import (
    HERMITIAN,
    PLAIN,
    PREPARATION,
    UNCONTROLLABLE,
    Gate,
    Param,
    Wire,
    assert_like_default_qubit,
    begin,
    check_still_right,
    end,
    gates,
    interleave,
    measure,
    operation_name,
    run_circuit,
    to_gate,
    to_measurements,
)


@pytest.mark.parametrize("op", PLAIN + UNCONTROLLABLE, ids=operation_name)
@pytest.mark.parametrize("adjoint", [False, True], ids=["", "adjoint"])
def test_gate(op, adjoint):
    ops = [*PREPARATION, qml.adjoint(op, lazy=True) if adjoint else op]
    assert_like_default_qubit(ops, [qml.state()])


@pytest.mark.parametrize("op", PLAIN, ids=operation_name)
@pytest.mark.parametrize("values", [(1, 1), (1, 0)], ids=str)
def test_controlled_gate(op, values):
    controlled = Controlled(op, [2, 3], control_values=values)
    assert_like_default_qubit([*PREPARATION, controlled], [qml.state()])
    controlled = Controlled(Adjoint(op), [3], control_values=values[1:])
    assert_like_default_qubit([*PREPARATION, controlled], [qml.state()])


OBSERVABLES = [
    qml.Identity(2),
    qml.PauliX(0),
    qml.PauliY(1),
    qml.PauliZ(2),
    qml.Hadamard(3),
    qml.Hermitian(HERMITIAN, [2, 0]),
    qml.PauliX(0) @ qml.PauliY(1) @ qml.PauliZ(3),
    qml.Hermitian(HERMITIAN, [1, 2]) @ qml.Hadamard(0),
    qml.Hamiltonian([0.3, -1.2, 2.0], [qml.X(0) @ qml.Y(2), qml.Z(1), qml.Hadamard(3)]),
    qml.Hamiltonian([0.5, 1.5], [qml.Hermitian(HERMITIAN, [1, 2]), qml.X(1)]),
    0.5 * (0.3 * qml.X(0) + qml.Z(1) @ qml.Z(2)),
    qml.prod(qml.X(0)),
]


@pytest.mark.parametrize("observable", OBSERVABLES, ids=lambda o: type(o).__name__)
def test_expval_and_var(observable):
    # Uncompiled PennyLane has no variance of a sum; its matrix has.
    matrix = qml.Hermitian(qml.matrix(observable, wire_order=range(4)), range(4))
    got = run_circuit(
        4, [to_gate(op) for op in PREPARATION], [qml.expval(observable), qml.var(observable)]
    )
    expected = qml.device("default.qubit", wires=4).execute(
        qml.tape.QuantumScript(PREPARATION, [qml.expval(matrix), qml.var(matrix)])
    )
    np.testing.assert_allclose(got, expected, atol=1e-11)


def test_every_pauli_word():
    words = [qml.pauli.string_to_pauli_word(w) for w in map("".join, product("IXYZ", repeat=3))]
    assert_like_default_qubit(PREPARATION, [qml.expval(word) for word in words])


@pytest.mark.parametrize("qubits", [10, 11])
def test_measurements_on_either_side_of_reading_the_amplitudes(qubits):
    wires = [qubits - 1, 0, 5]
    assert_like_default_qubit(
        [*PREPARATION, qml.Hadamard(5), qml.CRY(0.3, [0, qubits - 1]), qml.S(5)],
        [
            qml.expval(qml.Y(5) @ qml.X(0)),
            qml.expval(
                qml.Hamiltonian([0.5, 2.0, -1.0], [qml.Z(0) @ qml.Y(5), qml.X(1), qml.I(3)])
            ),
            qml.probs(wires=wires),
            qml.probs(wires=range(qubits)),
        ],
        qubits,
    )


@pytest.mark.parametrize(
    "wires", [(), (2,), (0, 1, 2, 3), (3, 0), (2, 0, 3, 1), (1, 3, 0)], ids=str
)
def test_probs_of_wires_in_any_order(wires):
    assert_like_default_qubit(PREPARATION, [qml.probs(wires=wires or range(4))])
    if not wires:
        probs = run_circuit(4, [to_gate(op) for op in PREPARATION], [qml.probs()])[0]
        assert probs.sum() == pytest.approx(1)


def test_many_measurements_keep_their_order():
    assert_like_default_qubit(
        PREPARATION,
        [
            qml.var(qml.PauliX(0)),
            qml.state(),
            qml.expval(qml.PauliZ(1)),
            qml.probs(wires=[2, 1]),
            qml.expval(qml.Hamiltonian([2.0, 0.5], [qml.X(1), qml.Z(2)])),
        ],
    )


@pytest.mark.parametrize(
    "op",
    [
        qml.BasisState([1, 0, 1], [3, 0, 1]),
        qml.StatePrep(unitary_group.rvs(8, random_state=5)[0], [2, 0, 1]),
        qml.StatePrep(unitary_group.rvs(16, random_state=5)[0], [0, 1, 2, 3]),
    ],
    ids=operation_name,
)
def test_state_preparation(op):
    assert_like_default_qubit([op, *PREPARATION], [qml.state()])


def test_basis_state_in_the_middle_flips_wires():
    expected = run_circuit(2, [Gate("RX", [0], [0.3]), Gate("PauliX", [1])], [qml.state()])
    got = run_circuit(2, [Gate("RX", [0], [0.3]), Gate("BasisState", [1], [1])], [qml.state()])
    np.testing.assert_allclose(got, expected)


def test_run_time_parameters_wires_and_constants_mix():
    run = [
        Gate("Rot", [Wire(1)], [Param(2), 0.25, Param(0)]),
        Gate("CNOT", [Wire(1), Wire(0)]),
        Gate("RX", [0], [Param(1)], controls=[Wire(0)], values=[0]),
    ]
    got = run_circuit(3, run, [qml.state()], params=[0.1, 0.2, 0.3], wires=[2, 1])
    ops = [qml.Rot(0.3, 0.25, 0.1, 1), qml.CNOT([1, 2]), qml.ctrl(qml.RX(0.2, 0), 2, (0,))]
    expected = run_circuit(3, [to_gate(op) for op in ops], [qml.state()])
    np.testing.assert_allclose(got, expected)


def test_iterations_take_their_parameters_and_wires_one_after_another():
    run = [
        Gate("RX", [Wire(1)], [Param(2)]),
        Gate("CRY", [Wire(0), Wire(1)], [Param(0)]),
        Gate("RZ", [Wire(0)], [Param(1)]),
        Gate("Hadamard", [1]),
    ]
    params, wires = np.linspace(0.1, 0.9, 9), [0, 1, 2, 0, 1, 2]

    def program(n):
        state = begin(3)
        for i in range(1 if n == 3 else 3):
            these = slice(3 * i, None if n == 3 else 3 * i + 3)
            those = slice(2 * i, None if n == 3 else 2 * i + 2)
            state = gates(state, run, params[these], wires=wires[those], n_iterations=n)
        state, amplitudes = measure(state, to_measurements([qml.state()], 3))
        end(state)
        return amplitudes

    together, apart = (jax.jit(lambda t=n: program(t))() for n in (3, 1))
    np.testing.assert_allclose(together, apart, atol=1e-15)


def test_iterations_need_parameters_and_wires_for_each():
    def program(n, params, wires):
        state = gates(begin(2), [Gate("RX", [Wire(0)], [Param(0)])], params, 0, wires, n)
        end(state)

    for n, params, wires, message in (
        (3, [0.1, 0.2], [0, 1, 0], "expected 3 parameters, got 2"),
        (3, [0.1, 0.2, 0.3], [0, 1], "expected 3 dynamic wires, got 2"),
        (-1, [], [], "0 or more iterations, got -1"),
    ):
        with pytest.raises(RuntimeError, match=message):
            jax.jit(lambda: program(n, params, wires))()  # noqa: B023
    check_still_right()


def test_run_time_matrix_and_state():
    matrix, vector = unitary_group.rvs(2, random_state=7), unitary_group.rvs(4, random_state=8)[0]
    run = [
        Gate("StatePrep", [0, 1], [Param(i) for i in range(8)]),
        Gate("QubitUnitary", [1], [Param(8 + i) for i in range(8)], adjoint=True),
    ]
    params = interleave(vector) + interleave(matrix)
    got = run_circuit(2, run, [qml.state()], params=params)[0]
    np.testing.assert_allclose(got, np.kron(np.eye(2), matrix.conj().T) @ vector)


def test_coefficients_and_matrices_may_be_computed_by_the_program():
    wanted = to_measurements([qml.expval(qml.Hamiltonian([1.0, 1.0], [qml.Z(0), qml.X(0)]))], 1)

    @jax.jit
    def program(data):
        state = gates(begin(1), [Gate("RY", [0], [0.4])])
        state, value = measure(state, wanted, data)
        end(state)
        return value

    for a, b in [(1.0, 0.0), (0.5, -2.0)]:
        expected = a * np.cos(0.4) + b * np.sin(0.4)
        np.testing.assert_allclose(program(jnp.array([a, b])), expected)


def test_a_circuit_in_a_loop_starts_afresh_every_time():
    wanted = to_measurements([qml.expval(qml.PauliZ(0))], 3)

    @jax.jit
    def program(angles):
        def body(_, angle):
            state = gates(begin(3, angle), [Gate("RX", [0], [Param(0)])], angle[None])
            state, value = measure(state, wanted)
            end(state)
            return None, value

        return jax.lax.scan(body, None, angles)[1]

    angles = jnp.linspace(0, 3, 50)
    np.testing.assert_allclose(program(angles), np.cos(angles), atol=1e-12)


def test_qubits_start_in_zero_at_every_size():
    # 17 qubits are released between circuits, fewer are reset in place.
    for qubits in (1, 4, 17, 4, 17, 1):
        hadamards = [Gate("Hadamard", [w]) for w in range(qubits)]
        for run, expected in ((hadamards, 2.0**-qubits), ([], 1.0)):
            assert run_circuit(qubits, run, [qml.probs()])[0][0] == pytest.approx(expected)


def test_shots_estimate_and_are_forgotten():
    run = [Gate("RX", [0], [1.0])]
    estimate = run_circuit(1, run, [qml.expval(qml.PauliZ(0))], shots=100)[0]
    assert abs(estimate - np.cos(1.0)) < 0.6
    assert estimate * 50 == pytest.approx(round(estimate * 50))
    exact = run_circuit(1, run, [qml.expval(qml.PauliZ(0))])[0]
    assert exact == pytest.approx(np.cos(1.0))


def test_a_long_circuit_leaves_nothing_to_the_next_circuit():
    """The engine forgets the gates of a long circuit; circuits take turns in one session."""
    wanted = to_measurements([qml.expval(qml.PauliZ(0))], 1)
    turn = [Gate("RX", [0], [0.001])]

    @jax.jit
    def program():
        state = jax.lax.fori_loop(0, 5000, lambda _, state: gates(state, turn), begin(1))
        state, value = measure(state, wanted)
        end(state)
        return value

    np.testing.assert_allclose(program(), np.cos(5.0))
    # The engine has no means of samples, so the plugin takes the stored gates over.
    estimate = run_circuit(1, turn, [qml.expval(qml.PauliZ(0))], shots=100)[0]
    assert estimate == pytest.approx(1.0)


def test_more_observables_than_a_device_keeps():
    wanted = to_measurements([qml.expval(qml.Z(0) @ qml.Z(1))] * 500, 2)

    @jax.jit
    def program(angle):
        state = gates(begin(2), [Gate("RX", [0], [Param(0)])], angle[None])
        state, *values = measure(state, wanted)
        end(state)
        return jnp.stack(values)

    for angle in np.linspace(0, 3, 20):
        np.testing.assert_allclose(program(angle), np.cos(angle), atol=1e-12)
