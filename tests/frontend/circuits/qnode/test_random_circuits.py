"""Random circuits against default.qubit: values and gradients."""

from typing import Any

import pennylane as qml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

QUBITS = 4
FIXED = {"Hadamard": 1, "S": 1, "T": 1, "SX": 1, "PauliY": 1, "CNOT": 2, "CZ": 2, "SWAP": 2,
         "ISWAP": 2, "Toffoli": 3, "CSWAP": 3}  # fmt: skip
ONE_ANGLE = {"RX": 1, "RY": 1, "RZ": 1, "PhaseShift": 1, "CRX": 2, "CRZ": 2, "IsingXY": 2,
             "IsingZZ": 2, "PSWAP": 2, "SingleExcitation": 2, "MultiRZ": 3,
             "DoubleExcitation": 4}  # fmt: skip
FORMS = ["plain", "adjoint", "control", "control by zero", "adjoint of control"]
PAULIS = {"X": qml.X, "Y": qml.Y, "Z": qml.Z}
angles = st.floats(-4, 4).map(lambda angle: round(angle, 3))


@st.composite
def gates(draw: Any) -> tuple[Any, ...]:
    """Draw name, wires, form, and where the angle comes from: nowhere, a number, a parameter."""
    name = draw(st.sampled_from([*FIXED, *ONE_ANGLE]))
    wires = draw(st.permutations(range(QUBITS)))
    count = (FIXED | ONE_ANGLE)[name]
    form = draw(st.sampled_from(FORMS if count < QUBITS else FORMS[:2]))
    angle = draw(st.one_of(angles, st.integers(0, 2))) if name in ONE_ANGLE else None
    return name, tuple(wires[:count]), wires[-1], form, angle


words = st.dictionaries(st.integers(0, QUBITS - 1), st.sampled_from(sorted(PAULIS)), min_size=1)
observables = st.lists(st.tuples(angles, words), min_size=1, max_size=3)


def apply(gate: tuple[Any, ...], x: Any) -> None:
    name, wires, control, form, angle = gate
    if angle is None:
        made = lambda: getattr(qml, name)(wires=wires)
    else:
        # Integers are parameters of the circuit, by number; sums make them nonlinear.
        value = x[angle] * x[0] + 0.1 if isinstance(angle, int) else angle
        made = lambda: getattr(qml, name)(value, wires=wires)
    if "control" in form:
        plain, values = made, [0] if "zero" in form else [1]
        made = lambda: qml.ctrl(plain, control=control, control_values=values)()
    if "adjoint" in form:
        qml.adjoint(made)()
    else:
        made()


def observable(terms: Any) -> Any:
    return qml.Hamiltonian(
        [coefficient for coefficient, _ in terms],
        [qml.prod(*(PAULIS[p](wire) for wire, p in word.items())) for _, word in terms],
    )


@pytest.mark.large
@settings(max_examples=50)
@given(
    program=st.lists(gates(), min_size=1, max_size=12),
    measured=st.lists(observables, min_size=1, max_size=2),
    x=st.tuples(angles, angles, angles),
)
def test_random_circuit(compare_derivative: Any, program: Any, measured: Any, x: Any) -> None:
    def circuit(x: Any) -> Any:
        for wire in range(QUBITS):
            qml.RY(x[1] + wire, wires=wire)
        for gate in program:
            apply(gate, x)
        return [qml.expval(observable(terms)) for terms in measured]

    compare_derivative(circuit, x, wires=QUBITS)


@settings(max_examples=15)
@given(program=st.lists(gates(), min_size=1, max_size=12), x=st.tuples(angles, angles, angles))
def test_state_of_random_circuit(compare: Any, program: Any, x: Any) -> None:
    def circuit(x: Any) -> Any:
        for wire in range(QUBITS):
            qml.RY(x[1] + wire, wires=wire)
        for gate in program:
            apply(gate, x)
        return qml.state(), qml.probs(wires=[2, 0])

    compare(circuit, x, wires=QUBITS)
