"""Circuits of 16 to 26 qubits, against the simulators that fuse gates.

Layers of RY, RZ and a ring of CNOT; a brickwork of RX, RY and CZ; the quantum Fourier transform of
rotated qubits; QAOA on a graph where each vertex has eight edges; four gates that all other wires
control; a sum of 2000 Pauli words; 10^6 shots; and 10^4 shots with four measurements in the middle,
each of which decides about a gate.  What ends in "single" is in single precision, which qsim has
alone, as Qulacs has double.  "large-shallow" is three layers of the brickwork.  What ends in
"beside-single" is in double precision, except for qsim.  The peers' circuits are built once, with
their angles in them.
Gradients stand beside those of Qulacs and MindQuantum, which call a circuit with its angles.

Limit: one copy of the state; how many sweeps a circuit needs depends on how its gates are fused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, Target, synchronous
from benchmarks.fusing import IF_MEASURED, MEASURE, fusing
from benchmarks.gates import Gate, apply, observable
from benchmarks.simulators import Model, Term, simulator


class _Angles:
    """Numbers the angles of a circuit."""

    def __init__(self) -> None:
        self._slot = -1

    def __call__(self, name: str, *wires: int) -> Gate:
        self._slot += 1
        return Gate(name, wires, self._slot)


def layers(wires: int) -> Iterator[Gate]:
    turn = _Angles()
    for _ in range(3):
        for wire in range(wires):
            yield turn("RY", wire)
            yield turn("RZ", wire)
        for wire in range(wires):
            yield Gate("CNOT", (wire, (wire + 1) % wires))


def brickwork(wires: int, depth: int = 8) -> Iterator[Gate]:
    """Yield layers of rotations, each followed by CZ gates on every other pair of neighbours."""
    turn = _Angles()
    for layer in range(depth):
        for wire in range(wires):
            yield turn("RX" if layer % 2 else "RY", wire)
        for wire in range(layer % 2, wires - 1, 2):
            yield Gate("CZ", (wire, wire + 1))


def shallow(wires: int) -> Iterator[Gate]:
    return brickwork(wires, depth=3)


def fourier(wires: int) -> Iterator[Gate]:
    turn = _Angles()
    for wire in range(wires):
        yield turn("RY", wire)
    for wire in range(wires):
        yield Gate("Hadamard", (wire,))
        for other in range(wire + 1, wires):
            yield turn("ControlledPhaseShift", other, wire)
    for wire in range(wires // 2):
        yield Gate("SWAP", (wire, wires - 1 - wire))


def qaoa(wires: int) -> Iterator[Gate]:
    turn = _Angles()
    for wire in range(wires):
        yield Gate("Hadamard", (wire,))
    for _ in range(2):
        for step in range(1, 5):
            for wire in range(wires):
                yield turn("IsingZZ", wire, (wire + step) % wires)
        for wire in range(wires):
            yield turn("RX", wire)


def reflections(wires: int) -> Iterator[Gate]:
    turn = _Angles()
    for last in range(wires - 4, wires):
        for wire in range(wires):
            yield turn("RY", wire)
        controls = tuple(wire for wire in range(wires) if wire != last)
        yield Gate("MultiControlledX", (*controls, last))


def corrected(wires: int) -> Iterator[Gate]:
    turn = _Angles()
    for measured in range(4):
        for wire in range(wires):
            yield turn("RY", wire)
            yield Gate("CNOT", (wire, (wire + 1) % wires))
        yield Gate(MEASURE, (measured,))
        yield Gate(IF_MEASURED, (wires - 1 - measured,))


def words(wires: int, count: int) -> list[Term]:
    """Return a sum of words that have four letters each, all of them different."""
    draw = np.random.default_rng(7)
    drawn: dict[Any, float] = {}
    while len(drawn) < count:
        places = sorted(draw.choice(wires, 4, replace=False).tolist())
        letters = draw.choice(list("XYZ"), 4).tolist()
        drawn[tuple(zip(places, letters, strict=True))] = float(draw.normal())
    return [(coefficient, word) for word, coefficient in drawn.items()]


def _model(gates: Callable[[int], Iterator[Gate]], wires: int, terms: int) -> Model:
    if terms > 1:
        return Model(wires, list(gates(wires)), words(wires, terms))
    return Model(wires, list(gates(wires)), [(1.0, ((0, "Z"), (wires - 1, "Z")))])


def _qjit(model: Model, precision: str, shots: int | None) -> Program:
    import jax
    import jax.numpy as jnp
    import pennylane as qml

    import bellhop

    @qml.qnode(qml.device("lightning.qubit", wires=model.wires), shots=shots)
    def circuit(angles: Any) -> Any:
        for gate in model.gates:
            if gate.name == MEASURE:
                outcome = bellhop.measure(*gate.wires)
            elif gate.name == IF_MEASURED:
                bellhop.cond(outcome)(lambda gate=gate: qml.X(*gate.wires))()
            else:
                apply([gate], angles)
        if shots:
            return qml.sample(wires=range(model.wires))
        return qml.expval(observable(model.terms))

    program = bellhop.qjit(circuit, precision=precision)
    angles = jnp.asarray(model.angles)
    run = lambda: jax.block_until_ready(program(angles))
    return Program(run, (lambda: _means(np.sum(run(), axis=0), shots)) if shots else None)


def _peer(name: str, model: Model, precision: str, shots: int | None) -> Program:
    of = fusing(name, model, precision)
    if shots is None:
        return Program(lambda: np.asarray(of.value()), compiles=False)
    return Program(
        lambda: of.outcomes(shots), lambda: _means(of.outcomes(shots), shots), compiles=False
    )


def _qjit_gradient(model: Model) -> Program:
    import jax
    import jax.numpy as jnp
    import pennylane as qml

    import bellhop

    @qml.qnode(qml.device("lightning.qubit", wires=model.wires))
    def circuit(angles: Any) -> Any:
        apply(model.gates, angles)
        return qml.expval(observable(model.terms))

    return synchronous(bellhop.qjit(jax.grad(circuit)), jnp.asarray(model.angles))


def _peer_gradient(name: str, model: Model) -> Program:
    of = simulator(name, model)
    run = lambda: np.asarray(of.value_and_gradient(model.angles)[1])
    return Program(run, compiles=False)


def _gradient_case(wires: int, terms: int = 1) -> Case:
    model = lambda: _model(layers, wires, terms)
    what = "words" if terms > 1 else "layers"
    # The others of these fuse gates, and have no derivatives.
    peers = ("qulacs", "mindquantum")
    return Case(
        name=f"large-gradient-{what}-{wires}",
        title=f"gradient of {what}, {wires} qubits",
        limit="three copies of the state: forward, and back with a bra",
        builders={
            "bellhop": lambda: _qjit_gradient(model()),
            **{
                peer: lambda peer=peer: _peer_gradient(peer, model())  # type: ignore[misc]
                for peer in peers
            },
            LIMIT: lambda: _copy(wires, "double", times=3),
        },
        unavailable=dict.fromkeys(("jax", "catalyst"), "circuits stands for it, with fewer qubits"),
        targets=tuple(Target(peer, 1) for peer in peers),
    )


def _means(ones: Any, shots: int) -> np.ndarray:
    return np.asarray(ones) / shots


def _copy(wires: int, precision: str, times: int = 1) -> Program:
    source = np.ones(2**wires, np.complex64 if precision == "single" else np.complex128)
    target = np.empty_like(source)

    def copies() -> None:
        for _ in range(times):
            np.copyto(target, source)

    return Program(copies, comparable=False, compiles=False)


def _case(
    gates: Callable[[int], Iterator[Gate]],
    wires: int,
    precision: str = "double",
    terms: int = 1,
    shots: int | None = None,
    beside_single: bool = False,
) -> Case:
    model = lambda: _model(gates, wires, terms)
    what = "shots" if shots and gates is layers else "words" if terms > 1 else gates.__name__
    single = precision == "single"
    peers = ("aer", "qsim") if single else ("aer", "qulacs")
    suffix, of_title = ("-single", ", single precision") if single else ("", "")
    if beside_single:
        peers, suffix, of_title = ("qsim",), "-beside-single", ", double precision (qsim: single)"
    of_peers = "single" if beside_single else precision
    return Case(
        name=f"large-{what}-{wires}{suffix}",
        title=f"{what}, {wires} qubits{of_title}",
        limit="one copy of the state",
        builders={
            "bellhop": lambda: _qjit(model(), precision, shots),
            **{
                peer: lambda peer=peer: _peer(peer, model(), of_peers, shots)  # type: ignore[misc]
                for peer in peers
            },
            LIMIT: lambda: _copy(wires, precision),
        },
        unavailable=dict.fromkeys(("jax", "catalyst"), "circuits stands for it, with fewer qubits"),
        # Six standard deviations of a mean of shots.
        tolerance=6 / np.sqrt(shots) / 2 if shots else 1e-5 if of_peers == "single" else 1e-9,
        targets=tuple(Target(peer, 1) for peer in peers),
    )


CASES = [
    *(
        _case(layers, wires, precision)
        for wires in (16, 20, 22, 24, 26)
        for precision in ("double", "single")
    ),
    *(
        _case(gates, wires, precision)
        for gates in (brickwork, fourier, qaoa, reflections)
        for wires in (16, 20, 24)
        for precision in ("double", "single")
    ),
    *(_case(shallow, wires, precision) for wires in (20, 22) for precision in ("double", "single")),
    *(_case(gates, wires, beside_single=True) for gates in (layers, shallow) for wires in (20, 22)),
    _case(layers, 16, terms=2000),
    *(
        _case(layers, wires, precision, shots=1_000_000)
        for wires in (16, 20)
        for precision in ("double", "single")
    ),
    _case(corrected, 12, shots=10_000),
    *(_gradient_case(wires) for wires in (16, 20, 22, 24)),
    _gradient_case(16, terms=2000),
]
