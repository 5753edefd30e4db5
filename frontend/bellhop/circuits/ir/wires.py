"""Wires: labels, and numbers that the program computes."""

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from pennylane.wires import DynamicWire

from bellhop.base.types import Wire
from bellhop.errors import CompileError
from bellhop.jaxprs.constant_eval import evaluate_constant


def is_dynamic(value: object) -> TypeGuard[Any]:
    """Tell whether a wire, or a parameter, is computed in the program."""
    return isinstance(value, jax.core.Tracer)


class WireMap:
    """Wire labels as the numbers of qubits.

    Args:
        labels: in the order of qubits.
        where: the QNode, for errors.
        find_spare: returns those that the circuit does not name, which it may allocate.
    """

    def __init__(
        self, labels: Any, where: str, find_spare: Callable[[], Sequence[Any]] = lambda: ()
    ) -> None:
        self._where = where
        self._index = {label: index for index, label in enumerate(labels)}
        # Wires that were allocated, and what stands for each.
        self._allocated: dict[Any, Any] = {}
        self.find_spare = find_spare

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels, in the order of the qubits."""
        return tuple(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def __call__(self, label: Wire) -> int:
        """Return the qubit of a wire.

        Raises:
            CompileError: where there is no such wire, or it is computed in the program.
        """
        if is_dynamic(label):
            raise CompileError(
                f"{self._where}: a measurement stands on a wire that is computed in the program, "
                "which only gates, observables of expval and var, and probs, sample and counts of "
                "wires can. Measure a fixed wire; qml.SWAP(wires=[i, 0]) in front brings wire i "
                "there."
            )
        label = self._allocated.get(label, label)
        if isinstance(label, DynamicWire):
            raise CompileError(
                f"{self._where}: a wire is used that was deallocated, or is another circuit's. "
                "Use it between qml.allocate and qml.deallocate."
            )
        if isinstance(label, float | np.floating):
            # It is equal to an integer, by which the device would find it.
            raise CompileError(
                f"{self._where}: a wire is {label!r} of type {type(label).__name__}, expected an "
                f"integer or a label of the device, {list(self._index)}. Convert it: int(wire)."
            )
        if label not in self._index:
            raise CompileError(
                f"{self._where}: there is no wire {label!r} on the device; its wires are "
                f"{list(self._index)}."
            )
        return self._index[label]

    def map_allocated(self, label: Wire, wire: Wire) -> None:
        """Let a wire stand for one that was allocated."""
        self._allocated[label] = wire

    def unmap_allocated(self, label: Wire) -> None:
        """Forget a wire that was allocated."""
        del self._allocated[label]

    def map_process(self, process: Any) -> Any:
        """Return a measurement process on wires of the device, where it has allocated ones."""
        if not self._allocated or process.mv is not None:
            return process
        lent = {
            label: self._allocated[label] for label in process.wires if label in self._allocated
        }
        return process.map_wires(lent) if lent else process

    @staticmethod
    def as_int32(qubit: Any) -> Any:
        """Return a traced qubit, an integer scalar, in 32 bits; one out of range stays so."""
        here, there = jnp.iinfo(qubit.dtype), jnp.iinfo(jnp.int32)
        low, high = max(int(here.min), there.min), min(int(here.max), there.max)
        clipped = jax.lax.clamp(
            jnp.asarray(low, qubit.dtype), qubit, jnp.asarray(high, qubit.dtype)
        )
        return clipped.astype(jnp.int32)

    def get_qubit(self, wire: Wire) -> Any:
        """Return the qubit of a wire, whether the program computes it or not."""
        return self.get_dynamic_qubit(wire) if is_dynamic(wire) else self(wire)

    def find_static_qubit(self, wire: Wire) -> int | None:
        """Return the qubit of a wire, if it is known: JAX may trace what constants decide."""
        if not is_dynamic(wire):
            return self(wire)
        qubit = evaluate_constant(self.get_dynamic_qubit(wire))
        return int(qubit) if qubit is not None and 0 <= qubit < len(self) else None

    def get_dynamic_qubit(self, wire: Any) -> Any:
        """Return the qubit of a wire that the program computes; its range is checked there.

        Raises:
            CompileError: where it is no integer, or the wires have other names than 0, 1, ...
        """
        if wire.dtype == bool:
            # An outcome, as wires of Python's True and False are 1 and 0.
            wire = jnp.asarray(wire).astype(jnp.int32)
        if wire.shape or not jnp.issubdtype(wire.dtype, jnp.integer):
            raise CompileError(
                f"{self._where}: a wire that is computed in the program must be an integer; one "
                f"is {wire.dtype}{list(wire.shape)}."
            )
        if list(self._index) != list(range(len(self))):
            raise CompileError(
                f"{self._where}: a wire is computed in the program, and the wires of the device "
                f"are {list(self._index)}. Number them from 0: qml.device(..., wires={len(self)})."
            )
        return wire
