"""The circuit handlers against PennyLane's default.qubit, called as compiled programs do."""

import gc
import resource
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from pennylane.ops import Controlled, LinearCombination, Prod, SProd, Sum
from pennylane.ops.op_math.adjoint import Adjoint
from scipy.stats import unitary_group

import bellhop_runtime

FACTORY, LIBRARY = qml.device("lightning.qubit", wires=1).get_c_interface()
KWARGS = "{'mcmc': False}"


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def nothing_left_open():
    yield
    assert bellhop_runtime.live_sessions() == 0


# --- writing circuits as custom calls -------------------------------------------------


@dataclass(frozen=True)
class Param:
    """Parameter `index` of the run-time parameters, in the place of a number."""

    index: int


@dataclass(frozen=True)
class Wire:
    """Dynamic wire `index`, in the place of a wire."""

    index: int


@dataclass(frozen=True)
class Gate:
    name: str
    wires: Sequence[int | Wire]
    params: Sequence[float | Param] = ()
    adjoint: bool = False
    controls: Sequence[int | Wire] = ()
    values: Sequence[int] = ()


EXPVAL, VAR, PROBS, STATE = range(4)
NAMED = {"Identity": 0, "PauliX": 1, "PauliY": 2, "PauliZ": 3, "Hadamard": 4}


@dataclass
class Measurements:
    """Measurement code, the numbers it refers to, and the types of its results."""

    code: list[int] = field(default_factory=list)
    data: list[float] = field(default_factory=list)
    results: list[jax.ShapeDtypeStruct] = field(default_factory=list)


def call(target: str, results: Any, *operands: Any, **attributes: Any) -> Any:
    return jax.ffi.ffi_call(target, results, has_side_effect=True)(*operands, **attributes)


HANDLE = jax.ShapeDtypeStruct((2,), np.uint32)


def f64(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.float64)


def begin(
    qubits,
    *anchors,
    shots=0,
    record=False,
    tree=False,
    seeded=False,
    rows=0,
    library=LIBRARY,
    factory=FACTORY,
):
    attributes = {"qubits": qubits, "shots": shots, "record": record}
    attributes |= {"tree": tree, "seeded": seeded, "rows": rows}
    return call(
        "bellhop_circuit_begin",
        HANDLE,
        *anchors,
        library=library,
        factory=factory,
        kwargs=KWARGS,
        name="circuit",
        site="here:1",
        **{name: np.int64(value) for name, value in attributes.items()},
    )


def gates(state, run, params=(), offset=0, wires=(), turns=1):
    names: list[str] = []
    code: list[int] = []
    constants: list[float] = []

    def slot(value):
        if isinstance(value, Param):
            return value.index
        constants.append(float(value))
        return -len(constants)

    def wire(value):
        return -1 - value.index if isinstance(value, Wire) else int(value)

    for gate in run:
        if gate.name not in names:
            names.append(gate.name)
        code += [names.index(gate.name), int(gate.adjoint), len(gate.params)]
        code += [len(gate.wires), len(gate.controls)]
        code += map(slot, gate.params)
        code += map(wire, gate.wires)
        code += map(wire, gate.controls)
        code += map(int, gate.values)
    return call(
        "bellhop_circuit_gates",
        HANDLE,
        state,
        jnp.asarray(params, np.float64),
        jnp.int32(offset),
        jnp.asarray(wires, np.int32),
        names="\n".join(names),
        code=np.array(code, np.int64),
        constants=np.array(constants, np.float64),
        turns=np.int64(turns),
    )


def measure(state, measurements, data=None):
    return call(
        "bellhop_circuit_measure",
        (HANDLE, *measurements.results),
        state,
        jnp.asarray(measurements.data if data is None else data, np.float64),
        code=np.array(measurements.code, np.int64),
        jacobian=np.int64(0),
    )


def jacobian(state, expvals, parameters):
    return call("bellhop_circuit_jacobian", (HANDLE, f64(expvals, parameters)), state)


def end(state):
    call("bellhop_circuit_end", (), state)


# --- writing PennyLane's circuits -----------------------------------------------------


def interleave(matrix) -> list[float]:
    return np.asarray(matrix, np.complex128).reshape(-1).view(np.float64).tolist()


def to_gate(op) -> Gate:
    if isinstance(op, Adjoint):
        gate = to_gate(op.base)
        return Gate(
            gate.name, gate.wires, gate.params, not gate.adjoint, gate.controls, gate.values
        )
    if type(op) is Controlled or (isinstance(op, Controlled) and op.name.startswith("C(")):
        gate = to_gate(op.base)
        return Gate(
            gate.name,
            gate.wires,
            gate.params,
            gate.adjoint,
            (*op.control_wires, *gate.controls),
            (*op.control_values, *gate.values),
        )
    if op.name in ("QubitUnitary", "StatePrep"):
        return Gate(op.name, op.wires, interleave(op.parameters[0]))
    if op.name == "PauliRot":
        return Gate(f"PauliRot:{op.hyperparameters['pauli_word']}", op.wires, op.parameters)
    if op.name == "PCPhase":
        return Gate(op.name, op.wires, [*op.parameters, op.hyperparameters["dimension"][0]])
    if op.name == "BasisState":
        return Gate(op.name, op.wires, op.parameters[0])
    return Gate(op.name, op.wires, op.parameters)


def add_observable(to: Measurements, op) -> None:
    if isinstance(op, SProd):
        op = LinearCombination([op.scalar], [op.base])
    if isinstance(op, Sum) and not isinstance(op, LinearCombination):
        op = LinearCombination([1.0] * len(op.operands), op.operands)
    if isinstance(op, LinearCombination):
        coefficients, terms = op.terms()
        to.code += [7, len(terms), len(to.data)]
        to.data += [float(c) for c in coefficients]
        for term in terms:
            add_observable(to, term)
    elif isinstance(op, Prod):
        to.code += [6, len(op.operands)]
        for factor in op.operands:
            add_observable(to, factor)
    elif op.name == "Hermitian":
        to.code += [5, len(op.wires), *op.wires, len(to.data)]
        to.data += interleave(op.parameters[0])
    else:
        to.code += [NAMED[op.name], *op.wires]


def to_measurements(processes, qubits: int) -> Measurements:
    result = Measurements()
    for process in processes:
        kind = type(process).__name__
        if kind in ("ExpectationMP", "VarianceMP"):
            result.code.append(EXPVAL if kind == "ExpectationMP" else VAR)
            add_observable(result, process.obs)
            result.results.append(f64())
        elif kind == "ProbabilityMP":
            result.code += [PROBS, len(process.wires), *process.wires]
            result.results.append(f64(2 ** (len(process.wires) or qubits)))
        else:
            result.code.append(STATE)
            result.results.append(jax.ShapeDtypeStruct((2**qubits,), np.complex128))
    return result


def run_circuit(qubits, run, processes, params=(), wires=(), **options):
    """Results of one circuit in one program of its own."""
    wanted = to_measurements(processes, qubits)

    @jax.jit
    def program(params, wires):
        state = begin(qubits, **options)
        state = gates(state, run, params, 0, wires)
        state, *values = measure(state, wanted)
        end(state)
        return values

    values = program(jnp.asarray(params, np.float64), jnp.asarray(wires, np.int32))
    return [np.asarray(value) for value in values]


def assert_like_default_qubit(ops, processes, qubits=4):
    tape = qml.tape.QuantumScript(ops, processes)
    expected = qml.device("default.qubit", wires=qubits).execute(
        qml.tape.QuantumScript([*as_matrices(ops), qml.Identity(range(qubits))], processes)
    )
    expected = expected if len(processes) > 1 else (expected,)
    got = run_circuit(qubits, [to_gate(op) for op in tape.operations], processes)
    for value, reference in zip(got, expected, strict=True):
        np.testing.assert_allclose(value, reference, atol=1e-12)


def as_matrices(ops):
    """The same circuit of operations that default.qubit takes without decomposing any."""
    for op in ops:
        if isinstance(op, qml.operation.StatePrepBase) or not op.wires:
            yield op
        else:
            yield qml.QubitUnitary(qml.matrix(op), op.wires)


PREPARATION = [
    op
    for w in range(4)
    for op in (qml.RY(0.3 + 0.4 * w, w), qml.RZ(0.5 - 0.3 * w, w), qml.RX(0.2 * w, w))
] + [qml.CNOT([0, 1]), qml.CNOT([1, 2]), qml.CNOT([2, 3])]

PLAIN = [
    qml.PauliX(1),
    qml.PauliY(1),
    qml.PauliZ(1),
    qml.Hadamard(1),
    qml.S(1),
    qml.T(1),
    qml.SX(1),
    qml.RX(0.7, 1),
    qml.RY(0.7, 1),
    qml.RZ(0.7, 1),
    qml.PhaseShift(0.7, 1),
    qml.Rot(0.7, 0.2, 0.4, 1),
    qml.SWAP([0, 1]),
    qml.PSWAP(0.7, [0, 1]),
    qml.IsingXX(0.7, [0, 1]),
    qml.IsingXY(0.7, [1, 0]),
    qml.IsingYY(0.7, [0, 1]),
    qml.IsingZZ(0.7, [0, 1]),
    qml.SingleExcitation(0.7, [0, 1]),
    qml.SingleExcitationPlus(0.7, [0, 1]),
    qml.SingleExcitationMinus(0.7, [1, 0]),
    qml.MultiRZ(0.7, [0, 1]),
    qml.GlobalPhase(0.7),
    qml.PCPhase(0.7, 3, [0, 1]),
    qml.QubitUnitary(unitary_group.rvs(4, random_state=1), [1, 0]),
]
UNCONTROLLABLE = [
    qml.Identity(0),
    qml.CNOT([2, 0]),
    qml.CY([2, 0]),
    qml.CZ([2, 0]),
    qml.CSWAP([2, 0, 1]),
    qml.Toffoli([2, 0, 1]),
    qml.ControlledPhaseShift(0.7, [0, 2]),
    qml.CRX(0.7, [0, 2]),
    qml.CRY(0.7, [0, 2]),
    qml.CRZ(0.7, [0, 2]),
    qml.CRot(0.7, 0.2, 0.4, [0, 2]),
    qml.DoubleExcitation(0.7, [0, 1, 2, 3]),
    qml.DoubleExcitationPlus(0.7, [3, 1, 2, 0]),
    qml.DoubleExcitationMinus(0.7, [0, 1, 2, 3]),
    qml.MultiRZ(0.7, [0, 1, 3]),
    qml.PauliRot(0.7, "XYZ", [0, 2, 3]),
    qml.PauliRot(0.7, "IXI", [0, 2, 3]),
    qml.PauliRot(0.7, "ZZ", [3, 1]),
    qml.PauliRot(0.7, "II", [1, 2]),
    qml.GlobalPhase(0.7, [0, 1]),
    qml.QubitUnitary(unitary_group.rvs(8, random_state=2), [3, 1, 0]),
]


def name_of(op) -> str:
    return op.name


# --- values ---------------------------------------------------------------------------


@pytest.mark.parametrize("op", PLAIN + UNCONTROLLABLE, ids=name_of)
@pytest.mark.parametrize("adjoint", [False, True], ids=["", "adjoint"])
def test_gate(op, adjoint):
    ops = [*PREPARATION, qml.adjoint(op, lazy=True) if adjoint else op]
    assert_like_default_qubit(ops, [qml.state()])


@pytest.mark.parametrize("op", PLAIN, ids=name_of)
@pytest.mark.parametrize("values", [(1, 1), (1, 0)], ids=str)
def test_controlled_gate(op, values):
    controlled = Controlled(op, [2, 3], control_values=values)
    assert_like_default_qubit([*PREPARATION, controlled], [qml.state()])
    controlled = Controlled(Adjoint(op), [3], control_values=values[1:])
    assert_like_default_qubit([*PREPARATION, controlled], [qml.state()])


HERMITIAN = unitary_group.rvs(4, random_state=3)
HERMITIAN = HERMITIAN + HERMITIAN.conj().T
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
    ids=name_of,
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


def test_turns_take_their_parameters_and_wires_one_after_another():
    turn = [
        Gate("RX", [Wire(1)], [Param(2)]),
        Gate("CRY", [Wire(0), Wire(1)], [Param(0)]),
        Gate("RZ", [Wire(0)], [Param(1)]),
        Gate("Hadamard", [1]),
    ]
    params, wires = np.linspace(0.1, 0.9, 9), [0, 1, 2, 0, 1, 2]

    def program(turns):
        state = begin(3)
        for i in range(1 if turns == 3 else 3):
            these = slice(3 * i, None if turns == 3 else 3 * i + 3)
            those = slice(2 * i, None if turns == 3 else 2 * i + 2)
            state = gates(state, turn, params[these], wires=wires[those], turns=turns)
        state, amplitudes = measure(state, to_measurements([qml.state()], 3))
        end(state)
        return amplitudes

    together, apart = (jax.jit(lambda t=turns: program(t))() for turns in (3, 1))
    np.testing.assert_allclose(together, apart, atol=1e-15)


def test_turns_need_parameters_and_wires_for_each():
    def program(turns, params, wires):
        state = gates(begin(2), [Gate("RX", [Wire(0)], [Param(0)])], params, 0, wires, turns)
        end(state)

    for turns, params, wires, message in (
        (3, [0.1, 0.2], [0, 1, 0], "uses 3 parameters and was given 2"),
        (3, [0.1, 0.2, 0.3], [0, 1], "uses 3 dynamic wires and was given 2"),
        (0, [], [], "1 or more turns, got 0"),
    ):
        with pytest.raises(jax.errors.JaxRuntimeError, match=message):
            jax.jit(lambda: program(turns, params, wires))()  # noqa: B023
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


# --- derivatives ----------------------------------------------------------------------


def run_jacobian(run, processes, params, qubits=4, columns=None, offset=0, splits=1):
    """Values and Jacobian of a recorded circuit, the gates in `splits` runs."""
    wanted = to_measurements(processes, qubits)
    rows = sum(type(p).__name__ == "ExpectationMP" for p in processes)
    size = -(-len(run) // splits)

    @jax.jit
    def program(params):
        state = begin(qubits, record=True)
        for first in range(0, len(run), size):
            state = gates(state, run[first : first + size], params, offset)
        state, *values = measure(state, wanted)
        state, derivative = jacobian(state, rows, len(params) if columns is None else columns)
        end(state)
        return values, derivative

    return program(jnp.asarray(params, np.float64))


def finite_differences(run, processes, params, qubits=4):
    params = np.asarray(params, np.float64)

    def f(x):
        values = run_circuit(qubits, run, processes, params=x)
        return np.array([v for v in values if v.shape == ()])

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


def test_turns_number_their_parameters_one_after_another():
    params = np.linspace(0.2, 1.4, 6)
    turn = [Gate("RX", [0], [Param(1)]), Gate("RY", [1], [Param(0)]), Gate("CNOT", [0, 1])]

    def program(turns):
        state = begin(2, record=True)
        for i in range(3 // turns):
            of_turn = slice(2 * turns * i, 2 * turns * (i + 1))
            state = gates(state, turn, params[of_turn], 2 * turns * i, turns=turns)
        state, _ = measure(state, to_measurements([qml.expval(qml.Z(1))], 2))
        state, derivative = jacobian(state, 1, 6)
        end(state)
        return derivative

    together, apart = (jax.jit(lambda t=turns: program(t))() for turns in (3, 1))
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
        ([Gate("Rot", [0], [Param(0), 0.2, 0.3])], "gate 'Rot' takes a differentiable parameter"),
        (
            [Gate("RX", [0], [Param(0)]), Gate("Rot", [0], [0.1, 0.2, 0.3])],
            "gate 'Rot' has more than the one parameter",
        ),
        (
            [Gate("StatePrep", [0], [Param(0), 0, 0, 0])],
            "gate 'StatePrep' takes a differentiable parameter",
        ),
        (
            [Gate("PSWAP", [0, 1], [Param(0)])],
            "gate 'PSWAP' takes a differentiable parameter",
        ),
        ([Gate("PauliRot:X", [0], [Param(0)])], "'PauliRot:X' on wires .0.: the device refused"),
    ],
    ids=["rot", "constant-rot", "state", "pswap", "paulirot"],
)
def test_gates_beyond_the_adjoint_method_are_named(run, message):
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        run_jacobian(run, [qml.expval(qml.PauliZ(0))], [1.0], qubits=2)
    check_still_right()


# --- errors ---------------------------------------------------------------------------


def check_still_right():
    assert bellhop_runtime.live_sessions() == 0
    assert_like_default_qubit(PREPARATION, [qml.state()])
    _, got = run_jacobian(
        [Gate("RX", [0], [Param(0)])], [qml.expval(qml.PauliZ(0))], [0.3], qubits=1
    )
    assert got[0, 0] == pytest.approx(-np.sin(0.3))


Z = qml.expval(qml.PauliZ(0))
PROGRAM_ERRORS = {
    "unknown gate": (
        [Gate("Hadamard", [0]), Gate("Frobnicate", [0, 1])],
        [Z],
        r"Gate 1 of a run, 'Frobnicate' on wires \[0, 1\]: the device refused it",
    ),
    "wire outside": (
        [Gate("RX", [2], [0.1])],
        [Z],
        r"'RX' on wires \[2\]: wire 2 is not in the circuit, which has wires 0 to 1",
    ),
    "dynamic wire outside": (
        [Gate("PauliX", [Wire(0)])],
        [Z],
        r"'PauliX' on wires \[-3\]: wire -3 is not in the circuit",
    ),
    "dynamic wire twice": (
        [Gate("CNOT", [Wire(0), Wire(0)])],
        [Z],
        "expected different wires, got one of them twice",
    ),
    "one wire twice": ([Gate("CNOT", [1, 1])], [Z], r"'CNOT'.*on wires \[1, 1\].*different wires"),
    "missing parameter": ([Gate("RX", [0])], [Z], "'RX': expected 1 parameters, got 0"),
    "missing wire": ([Gate("CNOT", [0])], [Z], "'CNOT': expected 2 wires, got 1"),
    "wrong matrix": ([Gate("QubitUnitary", [0], [1, 0])], [Z], "expected 8 parameters, got 2"),
    "pauli word": ([Gate("PauliRot:XQ", [0, 1], [0.1])], [Z], "one of I, X, Y, Z.*got 'XQ'"),
    "no pauli word": ([Gate("PauliRot", [0], [0.1])], [Z], "expected a Pauli word"),
    "missing params": ([Gate("RX", [0], [Param(7)])], [Z], "uses 8 parameters and was given 0"),
    "bit": ([Gate("BasisState", [0], [0.5])], [Z], "expected 0 or 1 for each wire, got 0.5"),
    "late state": (
        [Gate("PauliX", [0]), Gate("StatePrep", [1], [1, 0, 0, 0])],
        [Z],
        "'StatePrep'.*only before all other operations",
    ),
    "observable outside": (
        [],
        [qml.expval(qml.X(0) @ qml.Y(5))],
        r"Measurement 0, expval of PauliX\[0\] PauliY\[5\] tensor\(2\): wire 5 is not",
    ),
    "overlapping product": (
        [],
        [Z, qml.var(qml.prod(qml.X(0), qml.Y(0)))],
        r"Measurement 1, var of PauliX\[0\] PauliY\[0\] tensor\(2\): the device refused it",
    ),
}


@pytest.mark.parametrize("case", PROGRAM_ERRORS, ids=str)
def test_error_is_clear_and_later_circuits_are_right(case):
    run, processes, message = PROGRAM_ERRORS[case]
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        run_circuit(2, run, processes, wires=[-3] if "outside" in case else [1])
    check_still_right()


def test_missing_plugin():
    with pytest.raises(jax.errors.JaxRuntimeError, match="'/nowhere.so' cannot be loaded: .*open"):
        run_circuit(1, [], [Z], library="/nowhere.so")
    with pytest.raises(jax.errors.JaxRuntimeError, match="has no function 'NothingFactory'"):
        run_circuit(1, [], [Z], factory="Nothing")
    check_still_right()


def test_result_of_wrong_size():
    wanted = Measurements([PROBS, 1, 0], [], [f64(3)])
    with pytest.raises(jax.errors.JaxRuntimeError, match="a result of 2 real numbers, got 3"):
        jax.jit(lambda: end(measure(begin(2), wanted)[0]))()
    wanted = Measurements([STATE], [], [f64(4)])
    with pytest.raises(jax.errors.JaxRuntimeError, match="expected .* 4 complex .* got 4 real"):
        jax.jit(lambda: end(measure(begin(2), wanted)[0]))()
    check_still_right()


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [(2, 1, "2 rows, and 1 expectation"), (1, 0, "0 columns, .* differentiable parameter 0")],
)
def test_jacobian_of_wrong_shape(rows, columns, message):
    def program():
        state = gates(begin(1, record=True), [Gate("RX", [0], [Param(0)])], [0.1])
        state, value = measure(state, to_measurements([Z], 1))
        state, derivative = jacobian(state, rows, columns)
        end(state)
        return value, derivative

    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.jit(program)()
    check_still_right()


def test_jacobian_of_circuit_that_was_not_recorded():
    def program():
        state, derivative = jacobian(begin(1), 0, 0)
        end(state)
        return derivative

    with pytest.raises(jax.errors.JaxRuntimeError, match="not begun with record = 1"):
        jax.jit(program)()
    check_still_right()


def test_variance_comes_last_where_a_circuit_is_differentiated():
    def program(then):
        state = begin(1, record=True)
        state, _ = measure(state, to_measurements([qml.var(qml.Z(0))], 1))
        end(then(state))

    flipped = lambda s: gates(s, [Gate("PauliX", [0])])
    jax.jit(lambda: program(flipped))()
    with pytest.raises(jax.errors.JaxRuntimeError, match="applies gates after it measured a var"):
        jax.jit(lambda: program(lambda s: jacobian(flipped(s), 0, 0)[0]))()
    with pytest.raises(jax.errors.JaxRuntimeError, match="has measured a variance already"):
        jax.jit(lambda: program(lambda s: measure(s, to_measurements([Z], 1))[0]))()
    check_still_right()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ([0, 0, 1], "number of parameters is 1, expected 0 to 0"),
        ([0, 0, 0], "ends in the middle"),
        ([9, 0, 0, 1, 0, 0], "a name is 9"),
        ([0, 2, 0, 1, 0, 0], "adjoint is 2"),
        ([0, 0, 0, 2**60, 0, 0], "number of wires"),
        ([0, 0, -1, 1, 0, 0], "number of parameters is -1"),
        ([0, 0, 1, 1, 0, -5, 0], "refers to constant 4 of 0"),
        ([0, 0, 0, 1, 1, 0, 1, 7], "a control value is 7"),
        ([0, 0, 0, 1, 0, -(2**63)], "dynamic wires and was given 0"),
    ],
)
def test_malformed_gate_table_is_reported(code, message):
    def program():
        state = call(
            "bellhop_circuit_gates",
            HANDLE,
            begin(1),
            jnp.zeros(0),
            jnp.int32(0),
            jnp.zeros(0, np.int32),
            names="Any",
            code=np.array(code, np.int64),
            constants=np.zeros(0),
            turns=np.int64(1),
        )
        end(state)

    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.jit(program)()
    check_still_right()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ([6], "a measurement is 6"),
        ([EXPVAL, 6, 0], "made of nothing"),
        ([EXPVAL, 6, 50], "number of operands is 50"),
        ([EXPVAL, 3, -1], "wire -1"),
        ([EXPVAL, 5, 1, 0, 0], "use 8 numbers and were given 0"),
        ([EXPVAL, *[6, 1] * 300, 3, 0], "nested too deep"),
        ([PROBS, 2, 1, 1], "different wires"),
    ],
)
def test_malformed_measurement_is_reported(code, message):
    results = [f64(4 if code[0] == PROBS else 1)]
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.jit(lambda: end(measure(begin(2), Measurements(code, [], results))[0]))()
    check_still_right()


def finished(program, *args):
    """Waits for effects too, in which JAX reports errors of programs without results."""
    result = jax.block_until_ready(program(*args))
    jax.effects_barrier()
    return result


def test_stale_handles_are_refused():
    open_one = jax.jit(lambda: begin(2))
    use = jax.jit(lambda s: gates(s, [Gate("PauliX", [0])]))
    finish = jax.jit(lambda s: end(s))

    state = open_one()
    assert bellhop_runtime.live_sessions() == 1
    finished(finish, use(state))
    again = open_one()  # stands in the same place as the ended one
    invented = [0, 1], [2**32 - 1, 0], [12345, 1], [0, 0]
    for stale in (state, *(jnp.array(words, np.uint32) for words in invented)):
        for operation in (use, finish):
            with pytest.raises(jax.errors.JaxRuntimeError, match="this operation has ended"):
                finished(operation, stale)
    finished(finish, use(again))
    check_still_right()


def test_release_run_drops_the_circuits_of_one_execution():
    # The run id is not visible from Python here: another handler of the same
    # execution that fails must have released the circuits which it left open.
    def program():
        begin(2)
        gates(begin(3), [Gate("PauliX", [5])])

    for _ in range(3):
        with pytest.raises(jax.errors.JaxRuntimeError, match="wire 5 is not in the circuit"):
            finished(jax.jit(program))
    kept = jax.jit(lambda: begin(1))()
    bellhop_runtime.release_run(-12345)
    assert bellhop_runtime.live_sessions() == 1
    finished(jax.jit(end), kept)


# --- threads and memory ---------------------------------------------------------------


def test_sixteen_threads():
    processes = [qml.expval(qml.PauliZ(0)), qml.expval(qml.X(1))]
    run = [Gate("RX", [0], [Param(0)]), Gate("CNOT", [0, 1]), Gate("RY", [1], [Param(1)])]
    wanted = to_measurements(processes, 2)

    @jax.jit
    def program(params):
        state = gates(begin(2, record=True), run, params)
        state, *values = measure(state, wanted)
        state, derivative = jacobian(state, 2, 2)
        end(state)
        return jnp.stack(values), derivative

    failing = jax.jit(lambda x: gates(begin(2), [Gate("RX", [3], [Param(0)])], x))
    program(jnp.zeros(2))
    wrong: list[Any] = []

    def work(seed):
        with jax.enable_x64(True):
            rng = np.random.default_rng(seed)
            for i in range(20):
                x, y = rng.uniform(-3, 3, 2)
                if i % 5 == seed % 5:
                    with pytest.raises(jax.errors.JaxRuntimeError):
                        jax.block_until_ready(failing(jnp.array([x])))
                values, derivative = program(jnp.array([x, y]))
                expected = [np.cos(x), np.cos(x) * np.sin(y)]
                slope = [[-np.sin(x), 0], [-np.sin(x) * np.sin(y), np.cos(x) * np.cos(y)]]
                if not (np.allclose(values, expected) and np.allclose(derivative, slope)):
                    wrong.append((x, y, values, derivative))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_repeated_calls_leak_nothing():
    wanted = to_measurements([qml.expval(qml.Hermitian(HERMITIAN, [0, 1])), qml.probs()], 6)

    @jax.jit
    def many(x):
        def body(i, total):
            state = gates(begin(6, total, record=True), [Gate("RX", [0], [Param(0)])], total[None])
            state, value, _ = measure(state, wanted)
            state, derivative = jacobian(state, 1, 1)
            end(state)
            return total + value + derivative[0, 0]

        return jax.lax.fori_loop(0, 2000, body, x)

    def memory():
        gc.collect()
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()

    for _ in range(3):
        many(1.0).block_until_ready()
    before = memory()
    for _ in range(5):
        many(1.0).block_until_ready()
    assert memory() - before < 2 << 20
