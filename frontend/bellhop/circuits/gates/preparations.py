"""States that circuits begin with, prepared from amplitudes."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.gates.wires import is_dynamic


def embedded(op: qml.operation.Operator) -> qml.operation.Operator:
    """Return the state preparation that an amplitude embedding is, and others as they are."""
    return _prepared(op.data[0], op.wires) if isinstance(op, qml.AmplitudeEmbedding) else op


def prepared_together(operations: Sequence[Any]) -> list[Any]:
    """Return the operations that a circuit begins with, its preparations as one of all their wires.

    Devices prepare a state once, and what others decompose to has no derivative by an amplitude
    of zero.
    """
    first = list(itertools.takewhile(_is_preparation, operations))
    wires = [wire for op in first for wire in op.wires]
    if len(first) < 2 or any(map(is_dynamic, wires)) or len(set(wires)) < len(wires):
        return list(operations)
    states = [op.data[0] for op in first]
    is_traced = any(isinstance(state, jax.core.Tracer) for state in states)
    state = functools.reduce(jnp.kron if is_traced else np.kron, states)
    return [_prepared(state, wires), *operations[len(first) :]]


def _prepared(state: Any, wires: Any) -> qml.StatePrep:
    with qml.QueuingManager.stop_recording():
        return qml.StatePrep(state, wires=wires, validate_norm=False)


def _is_preparation(op: qml.operation.Operator) -> bool:
    return isinstance(op, qml.StatePrep) and op.batch_size is None
