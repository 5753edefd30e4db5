"""The state of a circuit as an array with an axis of two for each qubit.

Gates are PennyLane's own functions of it.  Wires may be labels or computed by the program.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml
from pennylane.devices.default_qubit import stopping_condition
from pennylane.devices.qubit import apply_operation, create_initial_state

from bellhop.circuits.gates.wires import WireMap, as_int32, is_dynamic
from bellhop.circuits.precision import complex_type


def prepared(wires: WireMap, preparation: Any = None) -> Any:
    """Return the state in which a circuit begins: all zeros, or what an operation prepares."""
    on_wires = None if preparation is None else on_qubits(preparation, wires)
    return in_precision(create_initial_state(range(len(wires)), on_wires))


def in_precision(state: Any) -> Any:
    """Return a state in the precision of the program, whatever that of its gates' parameters."""
    return jnp.asarray(state, complex_type())


def is_applied(op: Any) -> bool:
    """Tell whether PennyLane applies an operation to a state as it is."""
    if op.batch_size is not None:
        # Its parts are asked for one by one.
        return False
    if _has_power(op) and any(map(is_dynamic, op.data)):
        # A power of a matrix is not differentiable everywhere, and decompositions are.
        return not op.has_decomposition
    return stopping_condition(op, allow_mcms=False) and op.has_matrix


def _has_power(op: Any) -> bool:
    while isinstance(op, qml.ops.SymbolicOp):
        if isinstance(op, qml.ops.Pow):
            return True
        op = op.base
    return False


def after_gate(op: Any, state: Any, wires: WireMap) -> Any:
    """Return the state after an operation that ``is_applied``."""
    if any(map(is_dynamic, op.wires)):
        return _after_gate_on_computed_wires(op, state, wires)
    return apply_operation(on_qubits(op, wires), state)


def _after_gate_on_computed_wires(op: Any, state: Any, wires: WireMap) -> Any:
    """Bring the wires of a gate to the front, apply it there, and bring them back.

    Where one is not there the state is of no use; see ``wire_faults``.
    """
    qubits = [wires.dynamic(wire) if is_dynamic(wire) else wires(wire) for wire in op.wires]
    n = len(wires)
    chosen = jnp.stack([as_int32(jnp.asarray(qubit)) for qubit in qubits])
    rank = jnp.arange(n).at[chosen].set(jnp.arange(len(qubits)) - len(qubits))
    weights = 2 ** (n - 1 - jnp.argsort(rank))
    bits = (jnp.arange(2**n)[:, None] >> np.arange(n)[::-1]) & 1
    source = jnp.sum(bits * weights, axis=1)
    there = state.reshape(2**n)[source].reshape(state.shape)
    front = op.map_wires(dict(zip(op.wires, range(len(qubits)), strict=True)))
    after = apply_operation(front, there)
    flat = jnp.zeros(2**n, after.dtype)
    return flat.at[source].set(after.reshape(2**n)).reshape(after.shape)


def on_qubits(part: Any, wires: WireMap) -> Any:
    """Return an operation or measurement with qubits in place of wire labels."""
    qubits = {wire: wires(wire) for wire in part.wires}
    if all(wire == qubit for wire, qubit in qubits.items()):
        return part
    return part.map_wires(qubits)


def inner_product(left: Any, right: Any) -> Any:
    """Return the real part of the inner product of two states."""
    return jnp.sum(jnp.real(jnp.conj(left) * right))
