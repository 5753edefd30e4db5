"""The adjoint method of the circuit handlers, against finite differences and default.qubit."""

import jax
import numpy as np
import pennylane as qml
import pytest
from scipy.stats import unitary_group
from tests.runtime.circuit_calls import (
    PLAIN,
    PREPARATION,
    UNCONTROLLABLE,
    Gate,
    Param,
    begin,
    check_still_right,
    circuit_program,
    end,
    gates,
    interleave,
    measure,
    run_circuit,
    run_jacobian,
    to_gate,
    to_measurements,
)


def finite_differences(run, processes, params, qubits=4):
    params = np.asarray(params, np.float64)
    program = circuit_program(qubits, run, processes)

    def f(x):
        return np.array([v for v in program(x) if v.shape == ()])

    step = 1e-5
    columns = []
    for i in range(len(params)):
        shift = np.zeros_like(params)
        shift[i] = step
        columns.append((f(params + shift) - f(params - shift)) / (2 * step))
    return np.stack(columns, axis=1)


DIFFERENTIABLE = [
    gate
    for op in PLAIN + UNCONTROLLABLE
    if len((gate := to_gate(op)).params) == 1 and not gate.name.startswith(("PauliRot", "PSWAP"))
]
TWO_OBSERVABLES = [
    qml.expval(qml.PauliX(1) @ qml.PauliY(0)),
    qml.expval(qml.Hamiltonian([0.5, 2.0], [qml.Z(0), qml.X(2) @ qml.Z(1)])),
]


@pytest.mark.parametrize("gate", DIFFERENTIABLE, ids=lambda g: f"{g.name}{list(g.wires)}")
@pytest.mark.parametrize("adjoint", [False, True], ids=["", "adjoint"])
def test_derivative_of_gate(gate, adjoint):
    run = [to_gate(op) for op in PREPARATION]
    run += [Gate(gate.name, gate.wires, [Param(0)], adjoint), Gate("RY", [1], [0.3])]
    _, got = run_jacobian(run, TWO_OBSERVABLES, [0.7])
    expected = finite_differences(run, TWO_OBSERVABLES, [0.7])
    np.testing.assert_allclose(got, expected, atol=1e-8)


@pytest.mark.parametrize(
    "gate",
    [g for g in map(to_gate, PLAIN) if g in DIFFERENTIABLE],
    ids=lambda g: g.name,
)
def test_derivative_of_controlled_gate(gate):
    run = [to_gate(op) for op in PREPARATION]
    run += [Gate(gate.name, gate.wires, [Param(0)], False, [2, 3], [1, 0])]
    run += [Gate("Hadamard", [2]), Gate("RY", [1], [0.3])]
    _, got = run_jacobian(run, TWO_OBSERVABLES, [0.7])
    expected = finite_differences(run, TWO_OBSERVABLES, [0.7])
    np.testing.assert_allclose(got, expected, atol=1e-8)


# Constants, gates without parameters, a matrix, one parameter used twice (and once
# with its sign turned), and one never.
MIXED = [
    Gate("StatePrep", [0, 1], interleave([0.5, 0.5j, -0.5, 0.5])),
    Gate("RX", [0], [Param(1)]),
    Gate("Hadamard", [1]),
    Gate("RZ", [1], [0.4]),
    Gate("QubitUnitary", [1, 2], interleave(unitary_group.rvs(4, random_state=9))),
    Gate("RY", [2], [Param(3)], True),
    Gate("CNOT", [0, 2]),
    Gate("RY", [0], [Param(3)]),
    Gate("IsingXX", [0, 2], [Param(0)]),
    Gate("RX", [1], [Param(1)], False, [2], [1]),
]


@pytest.mark.parametrize("splits", [1, 3])
def test_jacobian_sums_uses_and_leaves_unused_zero(splits):
    params = [0.3, -0.7, 9.0, 1.1]
    values, got = run_jacobian(MIXED, TWO_OBSERVABLES, params, qubits=3, splits=splits)
    np.testing.assert_allclose(
        got, finite_differences(MIXED, TWO_OBSERVABLES, params, 3), atol=1e-8
    )
    np.testing.assert_array_equal(got[:, 2], 0)
    np.testing.assert_allclose(
        values, run_circuit(3, MIXED, TWO_OBSERVABLES, params=params), atol=1e-12
    )


def test_jacobian_of_random_circuits_agrees_with_default_qubit():
    rng = np.random.default_rng(1)
    names = ["RX", "RY", "RZ", "IsingXX", "CRY", "PhaseShift"]
    adjoint = qml.devices.ExecutionConfig(gradient_method="adjoint")
    for _ in range(3):
        params = rng.uniform(-3, 3, 20)
        ops = []
        for x in params:
            gate = getattr(qml, names[rng.integers(len(names))])
            ops.append(gate(x, wires=rng.permutation(4)[: gate.num_wires].tolist()))
        observables = [qml.expval(qml.Z(0)), qml.expval(qml.X(1) @ qml.Z(2)), qml.expval(qml.Y(3))]
        tape = qml.tape.QuantumScript(ops, observables, trainable_params=range(20))
        expected = qml.device("default.qubit", wires=4).compute_derivatives(tape, adjoint)
        run = [Gate(op.name, op.wires, [Param(i)]) for i, op in enumerate(ops)]
        _, got = run_jacobian(run, observables, params)
        np.testing.assert_allclose(got, expected, atol=1e-10)


def test_offset_places_parameters():
    run = [Gate("RX", [0], [Param(0)]), Gate("RY", [0], [Param(1)])]
    z = [qml.expval(qml.PauliZ(0))]
    _, plain = run_jacobian(run, z, [0.3, 0.4], qubits=1)
    _, moved = run_jacobian(run, z, [0.3, 0.4], qubits=1, columns=5, offset=2)
    np.testing.assert_allclose(moved, np.pad(plain, ((0, 0), (2, 1))))


def test_iterations_number_their_parameters_one_after_another():
    params = np.linspace(0.2, 1.4, 6)
    run = [Gate("RX", [0], [Param(1)]), Gate("RY", [1], [Param(0)]), Gate("CNOT", [0, 1])]

    def program(n):
        state = begin(2, record=2, engine=False)
        for i in range(3 // n):
            these = slice(2 * n * i, 2 * n * (i + 1))
            state = gates(state, run, params[these], 2 * n * i, n_iterations=n)
        wanted = to_measurements([qml.expval(qml.Z(1))], 2)
        state, _, derivative = measure(state, wanted, jacobian=(1, 6))
        end(state)
        return derivative

    together, apart = (jax.jit(lambda t=n: program(t))() for n in (3, 1))
    assert np.abs(apart).min() > 1e-3
    np.testing.assert_allclose(together, apart, atol=1e-14)


def test_negative_offset_means_not_differentiable():
    run = [Gate("Rot", [0], [Param(0), Param(1), 0.2])]
    _, got = run_jacobian(run, [qml.expval(qml.Z(0))], [0.3, 0.4], qubits=1, columns=3, offset=-1)
    np.testing.assert_array_equal(got, np.zeros((1, 3)))


def test_other_measurements_do_not_disturb_the_tape():
    run = [Gate("RX", [0], [Param(0)]), Gate("CNOT", [0, 1])]
    x = 0.3
    processes = [
        qml.var(qml.PauliZ(0)),
        qml.probs(wires=[1]),
        qml.expval(qml.PauliZ(0)),
        qml.state(),
        qml.var(qml.PauliZ(1)),
        qml.expval(qml.PauliZ(0) @ qml.PauliZ(1)),
        qml.probs(),
    ]
    values, got = run_jacobian(run, processes, [x], qubits=2)
    np.testing.assert_allclose(got, [[-np.sin(x)], [0]], atol=1e-12)
    for value, expected in zip(values, run_circuit(2, run, processes, params=[x]), strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-12)


def test_no_parameters_or_no_expvals():
    z = [qml.expval(qml.PauliZ(0))]
    _, got = run_jacobian([Gate("RX", [0], [0.3])], z, [], qubits=1)
    assert got.shape == (1, 0)
    _, got = run_jacobian([Gate("RX", [0], [0.3])], z, [0.1], qubits=1)
    np.testing.assert_array_equal(got, [[0]])
    _, got = run_jacobian([Gate("RX", [0], [Param(0)])], [qml.probs()], [0.1], qubits=1)
    assert got.shape == (0, 1)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ([Gate("Rot", [0], [Param(0), 0.2, 0.3])], "gate 'Rot' has a differentiable parameter"),
        (
            [Gate("RX", [0], [Param(0)]), Gate("Rot", [0], [0.1, 0.2, 0.3])],
            "gate 'Rot' has several parameters",
        ),
        (
            [Gate("StatePrep", [0], [Param(0), 0, 0, 0])],
            "gate 'StatePrep' has a differentiable parameter",
        ),
        (
            [Gate("PSWAP", [0, 1], [Param(0)])],
            "gate 'PSWAP' has a differentiable parameter",
        ),
        (
            [Gate("PauliRot:X", [0], [Param(0)])],
            "'PauliRot:X' on wires .0. .position 0.: the device raised an error",
        ),
    ],
    ids=["rot", "constant-rot", "state", "pswap", "paulirot"],
)
def test_gates_beyond_the_adjoint_method_are_named(run, message):
    with pytest.raises(RuntimeError, match=message):
        run_jacobian(run, [qml.expval(qml.PauliZ(0))], [1.0], qubits=2)
    check_still_right()
