"""What variational programs do all day: batches of a classifier, a training loop, steps of a VQE.

The classifier loads a row of features again in each of four layers of RY, RZ and a ring of CNOT;
what is timed is the mean squared error of a batch and its gradient by the weights.  The training
loop takes 100 steps of gradient descent inside one program.  A step of a VQE is the expectation
value of a sum of random Pauli words and its gradient.

Bellhop and Catalyst drive lightning.qubit; the JAX column is PennyLane's default.qubit under
`jax.jit`, differentiated by backpropagation.  The other simulators get all angles of a batch at
once, and a loop of Python around their steps.

Limit: none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import PARAMETRIC, Case, Program, Target, qjit_builders, synchronous
from benchmarks.gates import Gate, apply, observable
from benchmarks.simulators import Model, Term, simulator

LAYERS = 4
BATCHES = ((128, 4), (1000, 4), (32, 8))
STEPS, RATE = 100, 0.1
TRAINED = (6, 3)
# Qubits and words.
HAMILTONIANS = ((8, 100), (12, 600))


def layered_gates(wires: int, layers: int) -> list[Gate]:
    gates: list[Gate] = []
    slot = 0
    for _ in range(layers):
        for wire in range(wires):
            for name in ("RY", "RZ", "RY", "RZ"):
                gates.append(Gate(name, (wire,), slot))
                slot += 1
        gates += [Gate("CNOT", (wire, (wire + 1) % wires)) for wire in range(wires)]
    return gates


def _words(wires: int, count: int) -> tuple[Term, ...]:
    random = np.random.default_rng(wires)
    words: set[tuple[tuple[int, str], ...]] = set()
    while len(words) < count:
        chosen = sorted(map(int, random.choice(wires, random.integers(1, 5), replace=False)))
        words.add(tuple((wire, "XYZ"[random.integers(3)]) for wire in chosen))
    return tuple(zip(random.normal(size=count).tolist(), sorted(words), strict=True))


def _model(wires: int, layers: int, words: int = 0) -> Model:
    gates = layered_gates(wires, layers)
    return Model(wires, gates, _words(wires, words)) if words else Model(wires, gates)


def _circuit(model: Model, device: str, **options: Any) -> Any:
    import pennylane as qml

    measured = observable(model.terms)

    @qml.qnode(qml.device(device, wires=model.wires), **options)
    def circuit(angles: Any) -> Any:
        apply(model.gates, angles)
        return qml.expval(measured)

    return circuit


def _make_default_qubit_circuit(model: Model) -> Any:
    return _circuit(model, "default.qubit", interface="jax", diff_method="backprop")


def _make_lightning_circuit(model: Model) -> Any:
    return _circuit(model, "lightning.qubit", diff_method="adjoint")


def join_value_and_gradient(value: Any, gradient: Any) -> Any:
    """One array to compare; in a program of a compiler, of its tracers."""
    import jax.numpy as jnp

    return jnp.concatenate([jnp.reshape(value, (1,)), gradient])


# Batches of the classifier.


def batch(model: Model, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what is added to the weights in each row, and the labels."""
    random = np.random.default_rng(0)
    features = random.uniform(-1, 1, (rows, model.wires))
    added = np.zeros((rows, len(model.angles)))
    for gate in model.gates:
        if gate.slot is not None and gate.slot % 4 == 0:
            added[:, gate.slot] = features[:, gate.wires[0]]
    return added, np.sign(random.normal(size=rows))


def _loss(circuit: Any, vmap: Any, model: Model, rows: int) -> Callable[[Any], Any]:
    import jax.numpy as jnp

    added, labels = map(jnp.asarray, batch(model, rows))
    return lambda weights: jnp.mean((vmap(circuit)(weights + added) - labels) ** 2)


def _classifier_of_qjit(api: Any, model: Model, rows: int) -> Program:
    import jax.numpy as jnp

    loss = _loss(_make_lightning_circuit(model), api.vmap, model, rows)
    program = api.qjit(lambda weights: join_value_and_gradient(*api.value_and_grad(loss)(weights)))
    return synchronous(program, jnp.asarray(model.angles))


def _classifier_of_jax(model: Model, rows: int) -> Program:
    import jax

    loss = _loss(_make_default_qubit_circuit(model), jax.vmap, model, rows)
    program = jax.jit(lambda weights: join_value_and_gradient(*jax.value_and_grad(loss)(weights)))
    return synchronous(program, jax.numpy.asarray(model.angles))


def _classifier_of_simulator(name: str, model: Model, rows: int) -> Program:
    of = simulator(name, model)
    added, labels = batch(model, rows)

    def run() -> Any:
        values, gradients = of.batch(model.angles + added)
        errors = np.asarray(values) - labels
        return np.append(np.mean(errors**2), 2 / rows * (errors @ np.asarray(gradients)))

    return Program(run)


# Training.


def _training_of_qjit(api: Any, model: Model) -> Program:
    import jax.numpy as jnp

    circuit = _make_lightning_circuit(model)

    def program(angles: Any) -> Any:
        return api.for_loop(0, STEPS, 1)(lambda _, at: at - RATE * api.grad(circuit)(at))(angles)

    return synchronous(api.qjit(program), jnp.asarray(model.angles))


def _training_of_jax(model: Model) -> Program:
    import jax

    gradient = jax.grad(_make_default_qubit_circuit(model))

    def program(angles: Any) -> Any:
        return jax.lax.fori_loop(0, STEPS, lambda _, at: at - RATE * gradient(at), angles)

    return synchronous(jax.jit(program), jax.numpy.asarray(model.angles))


def _training_of_simulator(name: str, model: Model) -> Program:
    of = simulator(name, model)

    def run() -> Any:
        at = model.angles
        for _ in range(STEPS):
            at = at - RATE * np.asarray(of.value_and_gradient(at)[1])
        return at

    return Program(run)


# Steps of a VQE.


def _step_of_qjit(api: Any, model: Model) -> Program:
    import jax.numpy as jnp

    circuit = _make_lightning_circuit(model)
    program = api.qjit(lambda angles: join_value_and_gradient(*api.value_and_grad(circuit)(angles)))
    return synchronous(program, jnp.asarray(model.angles))


def _step_of_jax(model: Model) -> Program:
    import jax

    circuit = _make_default_qubit_circuit(model)
    program = jax.jit(lambda angles: join_value_and_gradient(*jax.value_and_grad(circuit)(angles)))
    return synchronous(program, jax.numpy.asarray(model.angles))


def _step_of_simulator(name: str, model: Model) -> Program:
    of = simulator(name, model)

    def run() -> Any:
        value, gradient = of.value_and_gradient(model.angles)
        return np.append(value, np.asarray(gradient))

    return Program(run)


def _case(
    name: str,
    title: str,
    model: Model,
    of_qjit: Any,
    of_jax: Any,
    of_simulator: Any,
    targets: tuple[Target, ...] = (),
    **options: Any,
) -> Case:
    return Case(
        name=name,
        title=title,
        limit="none",
        builders={
            "jax": lambda: of_jax(model, **options),
            **qjit_builders(lambda api: of_qjit(api, model, **options)),
            **{
                peer: lambda peer=peer: of_simulator(peer, model, **options)  # type: ignore[misc]
                for peer in PARAMETRIC
            },
        },
        targets=targets,
    )


CASES = [
    *(
        _case(
            f"classifier-{rows}-{wires}",
            f"loss of {rows} rows and its gradient, {wires} qubits",
            _model(wires, LAYERS),
            _classifier_of_qjit,
            _classifier_of_jax,
            _classifier_of_simulator,
            rows=rows,
            targets=(Target("jax", 2),) if (rows, wires) == BATCHES[0] else (),
        )
        for rows, wires in BATCHES
    ),
    _case(
        f"training-{TRAINED[0]}",
        f"training of {STEPS} steps, {TRAINED[0]} qubits",
        _model(*TRAINED),
        _training_of_qjit,
        _training_of_jax,
        _training_of_simulator,
        targets=(Target("jax", 2.5),),
    ),
    *(
        _case(
            f"vqe-{wires}-{words}",
            f"step of a VQE, {wires} qubits, {words} terms",
            _model(wires, 2, words),
            _step_of_qjit,
            _step_of_jax,
            _step_of_simulator,
        )
        for wires, words in HAMILTONIANS
    ),
]
