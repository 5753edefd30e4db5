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
    """Return whether PennyLane applies an operation without decomposing it.

    True for operations with a matrix that ``default.qubit`` applies directly. False for operations
    with a batch of parameters. False also for operations with a traced power (`has_traced_power`)
    that can be decomposed, since their matrix is not differentiable everywhere.
    """
    if op.batch_size is not None:
        # The rows of a batch are applied one by one.
        return False
    if has_traced_power(op):
        # A matrix power is not differentiable everywhere, in contrast to decompositions.
        return not Modifiers.strip(op)[0].has_decomposition
    return stopping_condition(op, allow_mcms=False) and op.has_matrix


def is_unitary(op: Any) -> bool:
    """Return whether a parametrized gate is unitary for all values of its parameters.

    False if this is not known, for instance for `qml.QubitUnitary` with a traced matrix, and for
    gates without parameters, such as Hadamard. Callers that have a static matrix test it instead.
    """
    while isinstance(op, qml.ops.Adjoint | qml.ops.Controlled):
        op = op.base
    if any(map(jnp.iscomplexobj, op.data)):
        return False
    if isinstance(op, qml.ops.SymbolicOp):
        return isinstance(op, qml.ops.Evolution) and is_hermitian(op.base)
    return isinstance(op, _UNITARY_GATES) or (op.num_params == 1 and op.has_generator)


def has_traced_power(op: Any) -> bool:
    """Return whether an operation is, or contains, a power with a traced exponent or parameter.

    Parts of composite operators and bases of symbolic operators are searched as well. The matrix of
    such a power (`qml.ops.Pow`) is not differentiable everywhere.
    """
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
    """Split a controlled operation into its base and its controls.

    Returns:
        the base operation, and the value (0 or 1) of each control wire on which the base is
        applied; None if the operation is not a `qml.ops.Controlled`.
    """
    if not isinstance(op, qml.ops.Controlled):
        return None
    return op.base, dict(zip(op.control_wires, op.control_values, strict=True))


def apply_to_amplitudes(op: Any, amplitudes: Any) -> Any:
    """Apply an operation to complex amplitudes with PennyLane.

    Args:
        op: the operation; its wire labels are axis numbers of `amplitudes`.
        amplitudes: complex array ``[2, ..., 2]``, an axis for each qubit.
    """
    return apply_operation(op, amplitudes)


def find_basis_state(preparation: Any) -> dict[Any, Any] | None:
    """Return the bit that a ``qml.BasisState`` prepares on each of its wires.

    Returns:
        the bits by wire label, static or traced; None if `preparation` is another operation.
    """
    if type(preparation) is not qml.BasisState:
        return None
    return dict(zip(preparation.wires, preparation.data[0], strict=True))


def prepare_own_amplitudes(preparation: Any) -> Any:
    """Return the amplitudes ``[2] * wires`` that a preparation creates on its wires alone."""
    return create_initial_state(list(preparation.wires), preparation)


def prepare_amplitudes(preparation: Any, wires: WireMap) -> Any:
    """Return the amplitudes ``[2] * qubits`` of all qubits after a preparation.

    Qubits on which `preparation` does not act are zero. `wires` maps its labels to qubits.
    """
    return create_initial_state(range(len(wires)), map_to_qubits(preparation, wires))


def map_to_qubits(part: Any, wires: WireMap) -> Any:
    """Replace the wire labels of an operation or measurement process by qubit indices.

    Returns:
        a new operation or measurement, or `part` itself if each label is its index already.
    """
    qubits = {wire: wires(wire) for wire in part.wires}
    if all(wire == qubit for wire, qubit in qubits.items()):
        return part
    return part.map_wires(qubits)


def map_to_first_axes(op: Any) -> Any:
    """Return an operation with its wires replaced by 0, 1, 2, ..., without queuing it."""
    with stop_recording():
        return op.map_wires(dict(zip(op.wires, range(len(op.wires)), strict=True)))


def stop_recording() -> AbstractContextManager[None]:
    """Return a context in which PennyLane does not queue new operations."""
    return qml.QueuingManager.stop_recording()


def make_measurement(wire: Any, *, reset: bool) -> qml.QubitChannel:
    """Return a channel with the effect of a measurement whose outcome is not used.

    It has the name ``"measure"``, for error messages, and PennyLane does not queue it.

    Args:
        wire: the wire label, or a tracer.
        reset: whether the channel also sets the wire to zero.
    """
    one = np.array([[0.0, 1.0], [0.0, 0.0]]) if reset else np.diag([0.0, 1.0])
    with stop_recording():
        channel = qml.QubitChannel([np.diag([1.0, 0.0]), one], wires=wire)
    # Errors name it.
    channel.name = "measure"
    return channel
