"""From PennyLane operations to gates of the quantum dialect and their parameters."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.device import GateSet, split
from bellhop.errors import CompileError
from bellhop_mlir.dialects.quantum import Gate

# How deep decompositions may nest before they are taken to go on for ever.
_DEPTH = 50

_COMPLEX_DATA = ("QubitUnitary", "StatePrep")


class GateRun:
    """A straight run of gates: the static table, and the parameters known at run time."""

    def __init__(self, gates: GateSet, wires: Any, where: str) -> None:
        self._gate_set = gates
        self._wires = wires
        self._where = where
        self.gates: list[Gate] = []
        self.params: list[Any] = []

    def add(self, op: qml.operation.Operator, depth: int = 0) -> None:
        """Append an operation, decomposed as far as the device needs it.

        Raises:
            CompileError: for what the device does not apply and PennyLane does not decompose.
        """
        if isinstance(op, qml.Identity | qml.ops.Barrier | qml.ops.WireCut):
            return
        if _is_mid_circuit(op):
            raise CompileError(
                f"{self._where}: mid-circuit measurements are not supported yet by bellhop."
            )
        if getattr(op, "batch_size", None) is not None:
            raise CompileError(
                f"{self._where}: {op.name} has a batch of parameters; parameter broadcasting is "
                "not supported by bellhop. Use jax.vmap over the QNode."
            )
        traced = any(isinstance(value, jax.core.Tracer) for value in op.data)
        if self._gate_set.applies(op, differentiated=traced):
            self._append(op)
            return
        for part in self._decompose(op, depth):
            self.add(part, depth + 1)

    def _decompose(self, op: qml.operation.Operator, depth: int) -> Sequence[Any]:
        if depth < _DEPTH and op.has_decomposition:
            with qml.QueuingManager.stop_recording():
                return op.decomposition()
        base, *_ = split(op)
        if op.has_matrix and len(op.wires) <= 10 and base.name != "QubitUnitary":
            with qml.QueuingManager.stop_recording():
                return [qml.QubitUnitary(op.matrix(), wires=op.wires)]
        if base.name in self._gate_set.operations:
            raise CompileError(
                f"{self._where}: the parameters of {op.name} are computed in the program, and "
                "neither can the device differentiate it nor PennyLane decompose it. Pass "
                "constants, or use gates that are differentiable."
            )
        raise CompileError(
            f"{self._where}: the device does not apply {op.name}, and PennyLane has no "
            "decomposition of it."
        )

    def _append(self, op: qml.operation.Operator) -> None:
        base, adjoint, controls = split(op)
        slots, constants = self._parameters(base)
        self.gates.append(
            Gate(
                name=_name(base),
                wires=self._indices(base.wires),
                slots=tuple(slots),
                constants=tuple(constants),
                adjoint=adjoint,
                control_wires=self._indices([wire for wire, _ in controls]),
                control_values=tuple(int(bool(value)) for _, value in controls),
            )
        )

    def _indices(self, wires: Sequence[Any]) -> tuple[int, ...]:
        indices = []
        for wire in wires:
            if isinstance(wire, jax.core.Tracer):
                raise CompileError(
                    f"{self._where}: wires that are computed in the program are not supported "
                    "yet by bellhop."
                )
            indices.append(self._wires(wire))
        return tuple(indices)

    def _parameters(self, op: qml.operation.Operator) -> tuple[list[int], list[float]]:
        slots: list[int] = []
        constants: list[float] = []
        for value in op.parameters:
            for number in _numbers(value, is_complex=op.name in _COMPLEX_DATA):
                if isinstance(number, jax.core.Tracer):
                    slots.append(len(self.params))
                    self.params.append(number)
                else:
                    constants.append(float(number))
                    slots.append(-len(constants))
        return slots, constants

    def params_vector(self) -> Any:
        """Return the run-time parameters as one float64 vector."""
        if not self.params:
            return jnp.zeros(0, jnp.float64)
        return jnp.stack([jnp.asarray(value).astype(jnp.float64) for value in self.params])


def _numbers(value: Any, *, is_complex: bool) -> Sequence[Any]:
    """Return the real numbers that a gate's parameter is made of."""
    if isinstance(value, jax.core.Tracer):
        if not is_complex and value.ndim == 0:
            return [value.real if jnp.iscomplexobj(value) else value]
        if is_complex:
            value = jnp.stack([jnp.real(value), jnp.imag(value)], axis=-1)
        return list(jnp.ravel(value))
    array = np.asarray(value)
    if is_complex:
        array = np.stack([array.real, array.imag], axis=-1)
    return list(np.real(np.ravel(array)))


def _name(op: qml.operation.Operator) -> str:
    if isinstance(op, qml.PauliRot):
        return f"PauliRot:{op.hyperparameters['pauli_word']}"
    return op.name


def _is_mid_circuit(op: Any) -> bool:
    return op.name in ("MidMeasureMP", "MidMeasure", "Conditional", "PauliMeasure")
