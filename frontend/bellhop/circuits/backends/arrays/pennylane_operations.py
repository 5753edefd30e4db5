"""Questions to PennyLane's operations, and their action on arrays.

The simulators themselves do not know PennyLane's classes.
"""

from contextlib import AbstractContextManager
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml
from pennylane.devices.default_qubit import stopping_condition
from pennylane.devices.qubit import apply_operation, create_initial_state

from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.gates.real_imag_inference import is_hermitian
from bellhop.circuits.ir.wires import WireMap, is_dynamic

# Unitary gates with several parameters. PennyLane's gates with one parameter have a generator.
_UNITARY_GATES = (qml.Rot, qml.CRot, qml.U2, qml.U3, qml.GlobalPhase)


def is_supported_by_pennylane(op: Any) -> bool:
    """Return whether PennyLane can apply an operation without decomposing it."""
    if op.batch_size is not None:
        # The rows of a batch are applied one by one.
        return False
    if has_traced_power(op):
        # A matrix power is not differentiable everywhere, in contrast to decompositions.
        return not Modifiers.strip(op)[0].has_decomposition
    return stopping_condition(op, allow_mcms=False) and op.has_matrix


def is_unitary(op: Any) -> bool:
    """Return whether a gate is unitary for all values of its parameters."""
    while isinstance(op, qml.ops.Adjoint | qml.ops.Controlled):
        op = op.base
    if any(map(jnp.iscomplexobj, op.data)):
        return False
    if isinstance(op, qml.ops.SymbolicOp):
        return isinstance(op, qml.ops.Evolution) and is_hermitian(op.base)
    return isinstance(op, _UNITARY_GATES) or (op.num_params == 1 and op.has_generator)


def has_traced_power(op: Any) -> bool:
    """Return whether an operation contains a power with traced parameters."""
    if isinstance(op, qml.ops.CompositeOp):
        return any(map(has_traced_power, op))
    if not isinstance(op, qml.ops.SymbolicOp):
        return False
    is_power = isinstance(op, qml.ops.Pow) and any(map(is_dynamic, op.data))
    return is_power or has_traced_power(op.base)


def is_diagonal(op: Any) -> bool:
    """Return whether PennyLane lists an operation as diagonal."""
    return op in qml.ops.qubit.attributes.diagonal_in_z_basis


def split_controls(op: Any) -> tuple[Any, dict[Any, Any]] | None:
    """Return an operation's base and the value of each control wire; None without controls."""
    if not isinstance(op, qml.ops.Controlled):
        return None
    return op.base, dict(zip(op.control_wires, op.control_values, strict=True))


def apply_to_amplitudes(op: Any, amplitudes: Any) -> Any:
    """Apply an operation to amplitudes.

    Args:
        op: the operation, on wires that are axes of the amplitudes.
        amplitudes: complex array ``[2, ..., 2]``.
    """
    return apply_operation(op, amplitudes)


def find_basis_state(preparation: Any) -> dict[Any, Any] | None:
    """Return the prepared bit of each wire; None unless it is exactly a ``qml.BasisState``."""
    if type(preparation) is not qml.BasisState:
        return None
    return dict(zip(preparation.wires, preparation.data[0], strict=True))


def prepare_own_amplitudes(preparation: Any) -> Any:
    """Return the amplitudes that a state preparation creates on its own wires."""
    return create_initial_state(list(preparation.wires), preparation)


def prepare_amplitudes(preparation: Any, wires: WireMap) -> Any:
    """Return the amplitudes of all qubits that a state preparation creates."""
    return create_initial_state(range(len(wires)), map_to_qubits(preparation, wires))


def map_to_qubits(part: Any, wires: WireMap) -> Any:
    """Replace the wire labels of an operation or measurement by qubits."""
    qubits = {wire: wires(wire) for wire in part.wires}
    if all(wire == qubit for wire, qubit in qubits.items()):
        return part
    return part.map_wires(qubits)


def map_to_first_axes(op: Any) -> Any:
    """Replace the wires of an operation by 0, 1, 2, ..., without queuing the new operation."""
    with stop_recording():
        return op.map_wires(dict(zip(op.wires, range(len(op.wires)), strict=True)))


def stop_recording() -> AbstractContextManager[None]:
    """Return a context in which PennyLane does not queue new operations."""
    return qml.QueuingManager.stop_recording()


def make_measurement(wire: Any, *, reset: bool) -> qml.QubitChannel:
    """Return the channel of a measurement whose outcome is forgotten.

    Args:
        wire: the wire label, or a tracer.
        reset: whether the wire is brought to zero afterwards.
    """
    one = np.array([[0.0, 1.0], [0.0, 0.0]]) if reset else np.diag([0.0, 1.0])
    with stop_recording():
        channel = qml.QubitChannel([np.diag([1.0, 0.0]), one], wires=wire)
    # Errors name it.
    channel.name = "measure"
    return channel
