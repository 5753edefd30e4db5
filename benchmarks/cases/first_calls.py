"""First calls: circuits that PennyLane decomposes, observables with many terms, long programs.

What they take is tracing: the compile time is what these cases are about.  A Trotter product of 10
qubits and 50 steps has 2900 exponentials of Pauli words, of which 58 differ; a Hamiltonian of 1000
terms is differentiated by all of its coefficients.  UCCSD is 117 excitations, each of other wires.
Shor's algorithm for numbers of five bits is thousands of lines of classical control around its
gates.  Limit: none is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case import Case, Program, Target, qjit_builders, synchronous

WIRES = 10
STEPS = 50
TERMS = 1000
TIME = 0.5
NUMBER = 21
BASE = 2
ELECTRONS = 6
ORBITALS = 12


def _ising() -> Any:
    import pennylane as qml

    couplings = [qml.Z(wire) @ qml.Z(wire + 1) for wire in range(WIRES - 1)]
    fields = [qml.X(wire) for wire in range(WIRES)]
    fields += [qml.Y(wire) for wire in range(WIRES)]
    words = couplings + fields
    return qml.dot(list(np.linspace(0.2, 0.9, len(words))), words)


def _trotter(api: Any, *, is_static: bool) -> Program:
    import jax.numpy as jnp
    import pennylane as qml

    hamiltonian = _ising()

    @qml.qnode(qml.device("lightning.qubit", wires=WIRES))
    def circuit(time: Any) -> Any:
        qml.TrotterProduct(hamiltonian, TIME if is_static else time, n=STEPS, order=2)
        return qml.expval(qml.PauliZ(0))

    return synchronous(api.qjit(lambda time: circuit(time)), jnp.asarray(TIME))


def _words() -> list[list[tuple[str, int]]]:
    random = np.random.default_rng(0)
    chosen: set[tuple[tuple[str, int], ...]] = set()
    while len(chosen) < TERMS:
        wires = sorted(map(int, random.choice(WIRES, 4, replace=False)))
        chosen.add(tuple(("XYZ"[random.integers(3)], wire) for wire in wires))
    return [list(word) for word in sorted(chosen)]


def _hamiltonian_qnode(device: str, **options: Any) -> Any:
    import pennylane as qml

    words = _words()

    @qml.qnode(qml.device(device, wires=WIRES), **options)
    def circuit(coefficients: Any, angles: Any) -> Any:
        # Angles that XLA knew, it would compute JAX's circuit from while compiling.
        for wire in range(WIRES):
            qml.RY(angles[wire], wires=wire)
        for wire in range(WIRES - 1):
            qml.CNOT(wires=[wire, wire + 1])
        products = [qml.prod(*(getattr(qml, f"Pauli{p}")(w) for p, w in word)) for word in words]
        return qml.expval(qml.Hamiltonian(coefficients, products))

    return circuit


def _hamiltonian_bellhop() -> Program:
    import jax.numpy as jnp

    import bellhop

    circuit = _hamiltonian_qnode("lightning.qubit", diff_method="adjoint")
    program = bellhop.qjit(lambda *inputs: bellhop.grad(circuit)(*inputs))
    return synchronous(program, jnp.linspace(-1, 1, TERMS), jnp.linspace(0.1, 1, WIRES))


def _hamiltonian_jax() -> Program:
    import jax

    circuit = _hamiltonian_qnode("default.qubit", interface="jax", diff_method="backprop")
    inputs = [jax.numpy.linspace(-1, 1, TERMS), jax.numpy.linspace(0.1, 1, WIRES)]
    return synchronous(jax.jit(jax.grad(circuit)), *inputs)


def _coupled_cluster(api: Any) -> Program:
    import jax.numpy as jnp
    import pennylane as qml

    singles, doubles = qml.qchem.excitations(ELECTRONS, ORBITALS)
    s_wires, d_wires = qml.qchem.excitations_to_wires(singles, doubles)
    occupied = qml.qchem.hf_state(ELECTRONS, ORBITALS)

    @qml.qnode(qml.device("lightning.qubit", wires=ORBITALS))
    def circuit(weights: Any) -> Any:
        qml.UCCSD(weights, range(ORBITALS), s_wires, d_wires, occupied)
        return qml.expval(qml.PauliZ(0))

    weights = jnp.linspace(0.1, 1, len(singles) + len(doubles))
    return synchronous(api.qjit(lambda weights: circuit(weights)), weights)


def _shor(api: Any) -> Program:
    from benchmarks.shor import shor

    program = shor(api, NUMBER.bit_length())

    def factors() -> Any:
        # Half of the phases that are measured give none.
        while np.prod(found := np.asarray(program(NUMBER, BASE))) != NUMBER:
            pass
        return np.sort(found)

    return Program(lambda: np.asarray(program(NUMBER, BASE)), observe=factors)


def _trotter_case(name: str, title: str, *, is_static: bool) -> Case:
    return Case(
        name=name,
        title=f"Trotter product of {WIRES} qubits and {STEPS} steps, {title}",
        limit="none",
        builders=qjit_builders(lambda api: _trotter(api, is_static=is_static)),
        unavailable={"jax": "default.qubit takes minutes to compile so many gates"},
        targets=(Target("catalyst", 1, "compile"),),
    )


CASES = [
    _trotter_case("trotter", "of a time given", is_static=False),
    _trotter_case("trotter-static", "of a time that is known", is_static=True),
    Case(
        name="hamiltonian-gradient",
        title=f"gradient by the coefficients of {TERMS} terms on {WIRES} qubits",
        limit="none",
        builders={"jax": _hamiltonian_jax, "bellhop": _hamiltonian_bellhop},
        unavailable={"catalyst": "its derivatives by coefficients of observables are zero"},
        targets=(Target("jax", 1, "compile"),),
    ),
    Case(
        name="coupled-cluster",
        title=f"UCCSD of {ELECTRONS} electrons on {ORBITALS} qubits, 16 000 gates",
        limit="none",
        builders=qjit_builders(_coupled_cluster),
        unavailable={"jax": "default.qubit takes minutes to compile so many gates"},
        targets=(Target("catalyst", 1, "compile"),),
    ),
    Case(
        name="shor",
        title=f"Shor's algorithm for {NUMBER}, in loops and conditionals",
        limit="none",
        builders=qjit_builders(_shor),
        unavailable={"jax": "its programs have no circuits that are measured on the way"},
        expected=lambda: [3, 7],
        targets=(Target("catalyst", 1, "compile"),),
    ),
]
