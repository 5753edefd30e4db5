"""Losses of classifiers that measure more than one expectation value, and a variance.

The circuit is the classifier's of `learning`: four layers that load a row of features again.  Of
four classes, the logits are the expectation values of Z on four wires, or the probabilities are
those of two wires.  What is timed is the mean cross-entropy of a batch, or the variance of a Pauli
word without a batch, with its gradient by the weights.

Bellhop drives lightning.qubit; the JAX column is PennyLane's default.qubit under `jax.jit`,
differentiated by backpropagation.  Of the simulators, JAX differentiates TensorCircuit-NG's
measurements too.

Limit: none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.case import Case, Program, Target, qjit_builders, synchronous
from benchmarks.cases.learning import LAYERS, batch, join_value_and_gradient, layered_gates
from benchmarks.gates import apply
from benchmarks.simulators import Model

CLASSES = 4
BATCHES = ((128, 4), (32, 8))
VARIANCE_WIRES = 8


@dataclass(frozen=True)
class _MeasuredLoss:
    """What the circuit returns, in PennyLane and in TensorCircuit-NG, and the loss of it.

    Attributes:
        of_pennylane: the measurements.
        of_tensorcircuit: an array of the same, of a circuit and its number of wires.
        loss: of these values of all rows, and the labels.
    """

    of_pennylane: Callable[[], Any]
    of_tensorcircuit: Callable[[Any, int], Any]
    loss: Callable[[Any, np.ndarray], Any]


def _logits() -> Any:
    import pennylane as qml

    return [qml.expval(qml.PauliZ(wire)) for wire in range(CLASSES)]


def _logits_of_tensorcircuit(circuit: Any, wires: int) -> Any:
    # Of one state: four networks of 8 qubits take minutes to compile.
    bits = np.arange(2**wires)[:, None] >> (wires - 1 - np.arange(CLASSES)) & 1
    return circuit.probability() @ (1.0 - 2 * bits)


def _softmax_cross_entropy(logits: Any, labels: np.ndarray) -> Any:
    import jax
    import jax.numpy as jnp

    if isinstance(logits, list | tuple):
        logits = jnp.stack(logits, axis=-1)
    return -jnp.mean(jax.nn.log_softmax(4 * logits)[np.arange(len(labels)), labels])


def _probabilities() -> Any:
    import pennylane as qml

    return qml.probs(wires=[0, 1])


def _probabilities_of_tensorcircuit(circuit: Any, wires: int) -> Any:
    return circuit.probability().reshape(CLASSES, 2 ** (wires - 2)).sum(axis=1)


def _cross_entropy(probabilities: Any, labels: np.ndarray) -> Any:
    import jax.numpy as jnp

    return -jnp.mean(jnp.log(probabilities)[np.arange(len(labels)), labels])


def _variance() -> Any:
    import pennylane as qml

    return qml.var(qml.PauliZ(0) @ qml.PauliZ(1))


def _variance_of_tensorcircuit(circuit: Any, _: int) -> Any:
    import jax.numpy as jnp

    return 1 - jnp.real(circuit.expectation_ps(z=[0, 1])) ** 2


SOFTMAX = _MeasuredLoss(_logits, _logits_of_tensorcircuit, _softmax_cross_entropy)
PROBABILITIES = _MeasuredLoss(_probabilities, _probabilities_of_tensorcircuit, _cross_entropy)
VARIANCE = _MeasuredLoss(_variance, _variance_of_tensorcircuit, lambda value, _: value)


def _circuit(model: Model, measured: _MeasuredLoss, device: str, **options: Any) -> Any:
    import pennylane as qml

    @qml.qnode(qml.device(device, wires=model.wires), **options)
    def circuit(angles: Any) -> Any:
        apply(model.gates, angles)
        return measured.of_pennylane()

    return circuit


def _circuit_of_tensorcircuit(model: Model, measured: _MeasuredLoss) -> Any:
    from benchmarks.simulators import tensorcircuit

    return lambda angles: measured.of_tensorcircuit(
        tensorcircuit.circuit(model, angles), model.wires
    )


def _make_loss(circuit: Any, vmap: Any, model: Model, measured: _MeasuredLoss, rows: int) -> Any:
    """Return the loss as a function of the weights; without rows, of one circuit."""
    import jax.numpy as jnp

    if not rows:
        return lambda weights: measured.loss(circuit(weights), np.zeros(0))
    added, _ = batch(model, rows)
    labels = np.random.default_rng(1).integers(CLASSES, size=rows)
    features = jnp.asarray(added)
    return lambda weights: measured.loss(vmap(circuit)(weights + features), labels)


def _qjit_program(api: Any, model: Model, measured: _MeasuredLoss, rows: int) -> Program:
    import jax.numpy as jnp

    circuit = _circuit(model, measured, "lightning.qubit", diff_method="adjoint")
    loss = _make_loss(circuit, api.vmap, model, measured, rows)
    program = api.qjit(lambda weights: join_value_and_gradient(*api.value_and_grad(loss)(weights)))
    return synchronous(program, jnp.asarray(model.angles))


def _jax_program(circuit: Any, model: Model, measured: _MeasuredLoss, rows: int) -> Program:
    import jax

    loss = _make_loss(circuit, jax.vmap, model, measured, rows)
    program = jax.jit(lambda weights: join_value_and_gradient(*jax.value_and_grad(loss)(weights)))
    return synchronous(program, jax.numpy.asarray(model.angles))


def _case(name: str, title: str, measured: _MeasuredLoss, wires: int, rows: int = 0) -> Case:
    model = Model(wires, layered_gates(wires, LAYERS))
    backprop = {"interface": "jax", "diff_method": "backprop"}
    of_compilers = qjit_builders(lambda api: _qjit_program(api, model, measured, rows))
    unavailable = {}
    if measured is not SOFTMAX:
        del of_compilers["catalyst"]
        unavailable["catalyst"] = "its adjoint method has expectation values alone"
    return Case(
        name=name,
        title=title,
        limit="none",
        builders={
            "jax": lambda: _jax_program(
                _circuit(model, measured, "default.qubit", **backprop), model, measured, rows
            ),
            **of_compilers,
            "tensorcircuit": lambda: _jax_program(
                _circuit_of_tensorcircuit(model, measured), model, measured, rows
            ),
        },
        unavailable=unavailable,
        targets=(Target("jax", 1),),
    )


CASES = [
    *(
        _case(
            f"{name}-{rows}-{wires}",
            f"{title} of {rows} rows and its gradient, {wires} qubits",
            measured,
            wires,
            rows,
        )
        for name, title, measured in (
            ("softmax", "softmax cross-entropy of expectation values", SOFTMAX),
            ("cross-entropy", "cross-entropy of probabilities", PROBABILITIES),
        )
        for rows, wires in BATCHES
    ),
    _case(
        f"variance-{VARIANCE_WIRES}",
        f"variance and its gradient, {VARIANCE_WIRES} qubits",
        VARIANCE,
        VARIANCE_WIRES,
    ),
]
