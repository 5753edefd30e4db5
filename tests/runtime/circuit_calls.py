"""Circuits written as the custom calls of the runtime, and PennyLane's circuits so written."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
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
    engine=True,
    precision=64,
    library=LIBRARY,
    factory=FACTORY,
):
    attributes = {"qubits": qubits, "shots": shots, "record": record}
    attributes |= {"tree": tree, "seeded": seeded, "rows": rows, "engine": engine}
    attributes |= {"precision": precision, "program": 0}
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


def gates(state, run, params=(), offset=0, wires=(), n_iterations=None):
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
        *([] if n_iterations is None else [jnp.int32(n_iterations)]),
        names="\n".join(names),
        code=np.array(code, np.int64),
        constants=np.array(constants, np.float64),
    )


def measure(state, measurements, data=None, jacobian=None):
    """Measure, with a Jacobian of that shape as the last result if it is given."""
    return call(
        "bellhop_circuit_measure",
        (HANDLE, *measurements.results, *([] if jacobian is None else [f64(*jacobian)])),
        state,
        jnp.asarray(measurements.data if data is None else data, np.float64),
        code=np.array(measurements.code, np.int64),
        jacobian=np.int64(jacobian is not None),
    )


def end(state):
    call("bellhop_circuit_end", (), state)


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


def circuit_program(qubits, run, processes, **options):
    """A program of one circuit, which takes its parameters and wires and returns its results."""
    wanted = to_measurements(processes, qubits)

    @jax.jit
    def program(params, wires):
        state = begin(qubits, **options)
        state = gates(state, run, params, 0, wires)
        state, *values = measure(state, wanted)
        end(state)
        return values

    def call(params=(), wires=()):
        values = program(jnp.asarray(params, np.float64), jnp.asarray(wires, np.int32))
        return [np.asarray(value) for value in values]

    return call


def run_circuit(qubits, run, processes, params=(), wires=(), **options):
    """Results of one circuit in one program of its own."""
    return circuit_program(qubits, run, processes, **options)(params, wires)


def run_jacobian(run, processes, params, **options):
    """Values and Jacobian of a circuit that the plugin records."""
    return jacobian_program(run, processes, **options)(jnp.asarray(params, np.float64))


def jacobian_program(run, processes, qubits=4, columns=None, offset=0, splits=1):
    """A program that returns them, the gates in `splits` runs."""
    wanted = to_measurements(processes, qubits)
    rows = sum(type(p).__name__ == "ExpectationMP" for p in processes)
    size = -(-len(run) // splits)

    @jax.jit
    def program(params):
        state = begin(qubits, record=2, engine=False)
        for first in range(0, len(run), size):
            state = gates(state, run[first : first + size], params, offset)
        shape = rows, len(params) if columns is None else columns
        state, *values, derivative = measure(state, wanted, jacobian=shape)
        end(state)
        return values, derivative

    return program


def assert_like_default_qubit(ops, processes, qubits=4):
    check_like_default_qubit(ops, processes, qubits)()


def check_like_default_qubit(ops, processes, qubits=4):
    """Return what runs the circuit in both ways and holds it against default.qubit."""
    tape = qml.tape.QuantumScript(ops, processes)
    expected = qml.device("default.qubit", wires=qubits).execute(
        qml.tape.QuantumScript([*as_matrices(ops), qml.Identity(range(qubits))], processes)
    )
    expected = expected if len(processes) > 1 else (expected,)
    run = [to_gate(op) for op in tape.operations]
    programs = [circuit_program(qubits, run, processes, engine=yes) for yes in (True, False)]

    def check():
        for program in programs:
            for value, reference in zip(program(), expected, strict=True):
                np.testing.assert_allclose(value, reference, atol=1e-12)

    return check


def as_matrices(ops):
    """The same circuit of operations that default.qubit takes without decomposing any."""
    for op in ops:
        if isinstance(op, qml.operation.StatePrepBase) or not op.wires:
            yield op
        else:
            yield qml.QubitUnitary(qml.matrix(op), op.wires)


HERMITIAN = unitary_group.rvs(4, random_state=3)
HERMITIAN = HERMITIAN + HERMITIAN.conj().T
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


def operation_name(op) -> str:
    return op.name


@functools.cache
def _programs_that_work():
    rotation = [Gate("RX", [0], [Param(0)])]
    return (
        check_like_default_qubit(PREPARATION, [qml.state()]),
        jacobian_program(rotation, [qml.expval(qml.PauliZ(0))], qubits=1),
    )


def check_still_right():
    assert bellhop_runtime.live_sessions() == 0
    check, jacobian = _programs_that_work()
    check()
    _, got = jacobian(jnp.asarray([0.3], np.float64))
    assert got[0, 0] == pytest.approx(-np.sin(0.3))
