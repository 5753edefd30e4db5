"""A surface code of distance 5 over 5 rounds, 10^5 shots of it on `default.clifford`.

25 qubits hold the data, and 24 check them, each round anew.  Once the outcomes are samples, 64-bit
integers as all samples are, and once the values that a loop carries, which is one of Stim's.
Bellhop and the limit need stim where the harness runs: `pip install stim`.  What is compared is
how many shots break a rule of the code, which none does.

Limit: Stim by hand, `compile_sampler` and `sample` of the same code, whose outcomes are bytes.
"""

from __future__ import annotations

from typing import Any

from benchmarks.case import LIMIT, Case, Program, Target

DISTANCE, ROUNDS, SHOTS = 5, 5, 100_000
DATA = DISTANCE**2


def checks() -> list[tuple[str, list[int | None]]]:
    """Return the kind of each check, and the data at its corners, in the order of its CNOTs."""
    found = []
    for row in range(DISTANCE + 1):
        for column in range(DISTANCE + 1):
            kind = "XZ"[(row + column) % 2 == 0]
            is_of_border = {"Z": column in (0, DISTANCE), "X": row in (0, DISTANCE)}
            corners = [(row - i, column - j) for i, j in ((0, 0), (1, 0), (0, 1), (1, 1))]
            data = [
                DISTANCE * r + c if 0 <= r < DISTANCE and 0 <= c < DISTANCE else None
                for r, c in corners
            ]
            if sum(each is not None for each in data) > 1 and not is_of_border[kind]:
                found.append((kind, data))
    assert len(found) == DATA - 1
    return found


def _round(measure: Any) -> list[Any]:
    import pennylane as qml

    every = list(enumerate(checks(), DATA))
    turned = [wire for wire, (kind, _) in every if kind == "X"]
    for wire in turned:
        qml.H(wire)
    for step in range(4):
        for wire, (kind, data) in every:
            if data[step] is not None:
                qml.CNOT([wire, data[step]] if kind == "X" else [data[step], wire])
    for wire in turned:
        qml.H(wire)
    return [measure(wire) for wire, _ in every]


def _broken(syndromes: Any, data: Any) -> int:
    """Return how many shots break a rule, of outcomes [shots, rounds, checks] and of the data."""
    import numpy as np

    syndromes, data = np.asarray(syndromes, bool), np.asarray(data)
    syndromes = syndromes.reshape(len(data), ROUNDS, -1)
    is_broken = np.any(syndromes[:, 1:] != syndromes[:, :1], axis=(1, 2))
    for number, (kind, corners) in enumerate(checks()):
        if kind == "Z":
            ones = data[:, [corner for corner in corners if corner is not None]].sum(axis=1)
            is_broken |= syndromes[:, 0, number] | (ones % 2 == 1)
    return int(np.sum(is_broken))


def _bellhop(in_loop: bool) -> Program:
    import jax
    import jax.numpy as jnp
    import pennylane as qml

    import bellhop

    measure = lambda wire: bellhop.measure(wire, reset=True)

    def circuit() -> Any:
        if in_loop:
            store = lambda i, all_: all_.at[i].set(
                jnp.stack(list(map(jnp.asarray, _round(measure))))
            )
            syndromes = bellhop.for_loop(0, ROUNDS)(store)(jnp.zeros((ROUNDS, DATA - 1), bool))
        else:
            syndromes = qml.sample([m for _ in range(ROUNDS) for m in _round(measure)])
        return syndromes, qml.sample(wires=range(DATA))

    device = qml.device("default.clifford", wires=2 * DATA - 1)
    program = bellhop.qjit(qml.set_shots(qml.QNode(circuit, device), SHOTS))
    return Program(lambda: jax.block_until_ready(program()), lambda: _broken(*program()))


def _stim() -> Program:
    import stim

    code = "surface_code:rotated_memory_z"
    circuit = stim.Circuit.generated(code, distance=DISTANCE, rounds=ROUNDS)

    def run() -> Any:
        return circuit.compile_sampler().sample(SHOTS)

    def observe() -> int:
        detectors = circuit.compile_m2d_converter()
        return int(
            detectors.convert(measurements=run(), append_observables=False).any(axis=1).sum()
        )

    return Program(run, observe, compiles=False)


def _case(name: str, title: str, in_loop: bool) -> Case:
    return Case(
        name=name,
        title=title,
        limit="Stim by hand",
        builders={"bellhop": lambda: _bellhop(in_loop), LIMIT: _stim},
        unavailable={
            "jax": "default.clifford does not run under jax.jit",
            "catalyst": "it has no default.clifford",
        },
        expected=lambda: 0,
        targets=(Target(LIMIT, 0.5),),
    )


CASES = [
    _case("surface-code", "surface code of 49 qubits, 10^5 shots", in_loop=False),
    _case("surface-code-loop", "the same, outcomes of a loop", in_loop=True),
]
