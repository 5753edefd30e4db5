"""The conformance list: named circuits that every backend must run, functions of one angle.

Each function takes the angle and the module with loops, conditionals and `measure`: `bellhop` in a
compiled program, PennyLane in the reference.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pennylane as qml

N_WIRES = 3
Circuit = Callable[[Any, Any], Any]
CIRCUITS: dict[str, Circuit] = {}


def _add(name: str, gates: Callable[[Any, Any], Any], result: Callable[[], Any]) -> None:
    """Add a circuit that prepares an entangled state, applies gates and measures."""

    def circuit(x: Any, api: Any) -> Any:
        for wire in range(N_WIRES):
            qml.RY(0.3 + 0.2 * wire, wire)
        qml.CNOT([0, 1])
        qml.CNOT([1, 2])
        gates(x, api)
        return result()

    assert name not in CIRCUITS, name
    CIRCUITS[name] = circuit


def _ignore(*_: Any) -> None:
    """Return nothing, whatever gates return."""


def _mean() -> Any:
    return qml.expval(qml.Z(0) @ qml.X(1) + 0.5 * qml.Y(2))


_GATES: dict[str, Callable[[Any], Any]] = {
    "Identity": lambda x: qml.Identity(0),
    "H": lambda x: qml.H(1),
    "X": lambda x: qml.X(0),
    "Y": lambda x: qml.Y(0),
    "Z": lambda x: qml.Z(1),
    "S": lambda x: qml.S(0),
    "T": lambda x: qml.T(1),
    "SX": lambda x: qml.SX(2),
    "RX": lambda x: qml.RX(x, 0),
    "RY": lambda x: qml.RY(x, 1),
    "RZ": lambda x: qml.RZ(x, 2),
    "PhaseShift": lambda x: qml.PhaseShift(x, 0),
    "Rot": lambda x: qml.Rot(x, 2 * x, 0.1, 0),
    "U1": lambda x: qml.U1(x, 0),
    "U2": lambda x: qml.U2(x, 0.2, 0),
    "U3": lambda x: qml.U3(x, 0.2, 0.1, 0),
    "CNOT": lambda x: qml.CNOT([2, 0]),
    "CY": lambda x: qml.CY([0, 2]),
    "CZ": lambda x: qml.CZ([0, 2]),
    "CH": lambda x: qml.CH([0, 2]),
    "SWAP": lambda x: qml.SWAP([0, 2]),
    "ISWAP": lambda x: qml.ISWAP([0, 1]),
    "SISWAP": lambda x: qml.SISWAP([0, 1]),
    "ECR": lambda x: qml.ECR([1, 0]),
    "CRX": lambda x: qml.CRX(x, [0, 1]),
    "CRY": lambda x: qml.CRY(x, [1, 2]),
    "CRZ": lambda x: qml.CRZ(x, [2, 0]),
    "CRot": lambda x: qml.CRot(x, 0.2, x, [0, 1]),
    "ControlledPhaseShift": lambda x: qml.ControlledPhaseShift(x, [0, 1]),
    "IsingXX": lambda x: qml.IsingXX(x, [0, 1]),
    "IsingYY": lambda x: qml.IsingYY(x, [0, 2]),
    "IsingZZ": lambda x: qml.IsingZZ(x, [1, 2]),
    "IsingXY": lambda x: qml.IsingXY(x, [1, 2]),
    "PSWAP": lambda x: qml.PSWAP(x, [1, 2]),
    "MultiRZ": lambda x: qml.MultiRZ(x, [0, 1, 2]),
    "PauliRot": lambda x: qml.PauliRot(x, "XYZ", [0, 1, 2]),
    "Toffoli": lambda x: qml.Toffoli([0, 1, 2]),
    "CSWAP": lambda x: qml.CSWAP([0, 1, 2]),
    "CCZ": lambda x: qml.CCZ([2, 1, 0]),
    "SingleExcitation": lambda x: qml.SingleExcitation(x, [0, 1]),
    "GlobalPhase": lambda x: qml.GlobalPhase(x),
    "QubitUnitary": lambda x: qml.QubitUnitary(np.array([[0.6, 0.8j], [0.8j, 0.6]]), 1),
    "DiagonalQubitUnitary": lambda x: qml.DiagonalQubitUnitary(np.array([1, 1j, -1, 1]), [0, 2]),
    "QFT": lambda x: qml.QFT([0, 1, 2]),
    "exp": lambda x: qml.exp(qml.X(0) @ qml.Z(1), 1j * x),
    "product": lambda x: qml.prod(qml.RX(x, 0), qml.RY(x, 1)),
}
_KINDS: dict[str, Callable[[Any], Any]] = {
    "gate": lambda op: op,
    "adjoint": lambda op: qml.adjoint(op),
}
for _gate, _make in _GATES.items():
    for _kind, _change in _KINDS.items():
        _add(f"{_kind} {_gate}", lambda x, _, m=_make, c=_change: c(m(x)), _mean)

_CONTROLLED = ("H", "Y", "S", "T", "RX", "RY", "RZ", "Rot", "U3", "PhaseShift")
for _gate in _CONTROLLED:
    # One control wire that the gate does not act on.
    _make = _GATES[_gate]

    def _controlled(x: Any, _: Any, make: Any = _make) -> None:
        op = make(x)
        qml.ctrl(op, control=(op.wires[0] + 1) % N_WIRES)

    _add(f"ctrl {_gate}", _controlled, _mean)

_RESULTS: dict[str, Callable[[], Any]] = {
    "expval of X": lambda: qml.expval(qml.X(2)),
    "expval of a product": lambda: qml.expval(qml.X(0) @ qml.Y(1) @ qml.Z(2)),
    "expval of a sum": lambda: qml.expval(qml.X(0) + 2.0 * qml.Z(1)),
    "expval of a Hermitian": lambda: qml.expval(qml.Hermitian(np.diag([1.0, 2, 3, 4]), [0, 2])),
    "expval of a projector": lambda: qml.expval(qml.Projector([1], wires=1)),
    "var of Z": lambda: qml.var(qml.Z(0)),
    "var of a product": lambda: qml.var(qml.Z(0) @ qml.X(2)),
    "probs of all wires": lambda: qml.probs(wires=[0, 1, 2]),
    "probs of some wires": lambda: qml.probs(wires=[2, 0]),
    "state": lambda: qml.state(),
    "several": lambda: (qml.expval(qml.Z(0)), qml.probs(wires=[1])),
}
for _name, _result in _RESULTS.items():
    _add(f"measure {_name}", lambda x, _: (qml.RX(x, 0), qml.CRY(x, [0, 2])), _result)


def _for_loop(x: Any, api: Any) -> None:
    api.for_loop(0, 4, 1)(lambda i: _ignore(qml.RX(x * i, 0)))()


def _carried_loop(x: Any, api: Any) -> None:
    def body(i: Any, angle: Any) -> Any:
        qml.RY(angle, 1)
        return angle * 0.5 + i * x

    api.for_loop(0, 3, 1)(body)(x)


def _nested_loops(x: Any, api: Any) -> None:
    def outer(i: Any) -> None:
        qml.CNOT([0, 1])
        api.for_loop(0, 2, 1)(lambda j: _ignore(qml.RZ(x * (i + j), 1)))()

    api.for_loop(0, 3, 1)(outer)()


def _while_loop(x: Any, api: Any) -> None:
    def body(angle: Any) -> Any:
        qml.RX(angle, 2)
        return angle + 0.3

    api.while_loop(lambda angle: angle < 1.4)(body)(x)


def _conditional(x: Any, api: Any) -> None:
    api.cond(x > 0.2, lambda: _ignore(qml.RX(x, 0)), lambda: _ignore(qml.RY(x, 0)))()


def _not_taken(x: Any, api: Any) -> None:
    api.cond(x > 2.0, lambda: _ignore(qml.RX(x, 0)))()


def _adjoint_of_loop(x: Any, api: Any) -> None:
    qml.adjoint(lambda: _for_loop(x, api))()


def _ctrl_of_loop(x: Any, api: Any) -> None:
    qml.ctrl(lambda: _for_loop(x, api), control=2)()


for _function in (
    *(_for_loop, _carried_loop, _nested_loops, _while_loop, _conditional, _not_taken),
    *(_adjoint_of_loop, _ctrl_of_loop),
):
    _add(_function.__name__.strip("_").replace("_", " "), _function, _mean)


def _function_of_gates(x: Any, api: Any = None) -> None:
    qml.RX(x, 0)
    qml.S(1)
    qml.CRY(x, [0, 2])


for _name, _change in {
    "adjoint of a function": lambda f: qml.adjoint(f),
    "ctrl of a function": lambda f: qml.ctrl(lambda x: _ignore(qml.RX(x, 0), qml.S(1)), 2),
    "adjoint of an adjoint": lambda f: qml.adjoint(qml.adjoint(f)),
}.items():
    _add(_name, lambda x, _, c=_change: c(_function_of_gates)(x), _mean)


def _measure_and_condition(x: Any, api: Any) -> None:
    outcome = api.measure(0)
    api.cond(outcome, lambda: _ignore(qml.RX(x, 1)))()


def _measure_two(x: Any, api: Any) -> None:
    one, other = api.measure(0), api.measure(1)
    api.cond(one, lambda: _ignore(qml.RX(x, 2)))()
    api.cond(other, lambda: _ignore(qml.RY(x, 2)))()


for _name, _gates in {
    "outcome, measure and condition": _measure_and_condition,
    "outcome, measure two wires": _measure_two,
    "outcome, measure and reset": lambda x, api: _ignore(api.measure(0, reset=True), qml.RX(x, 0)),
    "outcome, measure and postselect": lambda x, api: _ignore(
        api.measure(1, postselect=1), qml.RX(x, 0)
    ),
    "outcome, measure last": lambda x, api: _ignore(qml.RX(x, 0), api.measure(2)),
}.items():
    _add(_name, _gates, _mean)

for _seed in range(21):

    def _layers(x: Any, _: Any, seed: int = _seed) -> None:
        generator = np.random.default_rng(seed)
        for _layer in range(4):
            for wire in range(N_WIRES):
                qml.Rot(*(x * generator.normal(size=3)), wire)
            qml.CNOT(list(map(int, generator.permutation(N_WIRES)[:2])))

    _add(f"random layers {_seed}", _layers, _mean)
