"""Mapping of wire labels and traced wires to qubit indices."""

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Wire
from bellhop.errors import CompileError
from bellhop.jaxprs.constant_eval import evaluate_constant


def is_dynamic(value: object) -> TypeGuard[Any]:
    """Return whether a wire or parameter is traced."""
    return isinstance(value, jax.core.Tracer)


def _is_allocated(label: Wire) -> bool:
    """Return whether a label is a ``DynamicWire``, which ``qml.allocate`` makes."""
    # Only these labels have a key.
    return hasattr(label, "key")


class WireMap:
    """Maps wire labels to qubit indices.

    Each call of a QNode has its own map. A call of the object, ``wires(label)``, returns the qubit
    index of a static label.

    Args:
        labels: the wire labels, in the order of the qubits.
        where: the QNode's name and line, for error messages.
        find_spare: returns the labels that no gate uses, which ``qml.allocate`` may use.
    """

    class TracedWireError(CompileError):
        """Raised for a traced wire where only static wires are supported.

        Measurement code replaces it by an error that names the measurement.
        """

    def __init__(
        self, labels: Any, where: str, find_spare: Callable[[], Sequence[Any]] = lambda: ()
    ) -> None:
        self._where = where
        self._index = {label: index for index, label in enumerate(labels)}
        # Maps each allocated `DynamicWire` to a wire of the device.
        self._allocated: dict[Any, Any] = {}
        self.find_spare = find_spare

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels, in the order of the qubits."""
        return tuple(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def __call__(self, label: Wire) -> int:
        """Return the qubit index of a static wire.

        Raises:
            CompileError: if the wire is unknown, deallocated, traced or a float.
        """
        if is_dynamic(label):
            raise self.TracedWireError(
                f"{self._where}: a wire is traced, expected a static wire. Apply "
                "qml.SWAP(wires=[i, 0]), and use wire 0 in place of the traced wire i."
            )
        label = self._allocated.get(label, label)
        if _is_allocated(label):
            raise CompileError(
                f"{self._where}: an allocated wire is used after qml.deallocate, in another "
                "circuit, or by a transform that folds the circuit. Use the wire between "
                "qml.allocate and qml.deallocate, and without such a transform."
            )
        if isinstance(label, float | np.floating):
            # A float that equals an integer label would find it in the dictionary.
            raise CompileError(
                f"{self._where}: a wire is {label!r} of type {type(label).__name__}, expected an "
                f"integer or a label of the device, {list(self._index)}. Convert the wire: "
                "int(wire)."
            )
        if label not in self._index:
            raise CompileError(
                f"{self._where}: there is no wire {label!r} on the device; its wires are "
                f"{list(self._index)}. Use one of these wires, or a device with more wires."
            )
        return self._index[label]

    def map_allocated(self, label: Wire, wire: Wire) -> None:
        """Map an allocated wire to a wire of the device, until ``unmap_allocated``.

        ``label`` is the ``DynamicWire`` of ``qml.allocate``. ``wire`` is the label of a wire of the
        device, or a traced wire.
        """
        self._allocated[label] = wire

    def unmap_allocated(self, label: Wire) -> None:
        """Remove the mapping of an allocated wire, which is deallocated."""
        del self._allocated[label]

    def map_process(self, process: Any) -> Any:
        """Replace allocated wires in a measurement process by wires of the device.

        Returns:
            a copy on wires of the device; ``process`` itself if it has no allocated wires, or
            measures mid-circuit outcomes.
        """
        if not self._allocated or process.mv is not None:
            return process
        lent = {
            label: self._allocated[label] for label in process.wires if label in self._allocated
        }
        return process.map_wires(lent) if lent else process

    @staticmethod
    def clip_to_int32(qubit: Any) -> Any:
        """Convert a traced qubit index to int32, clipped so that it stays out of range.

        An index that is too large for int32 becomes the largest int32, not a valid index.

        Args:
            qubit: integer scalar of any integer type.
        """
        source, target = jnp.iinfo(qubit.dtype), jnp.iinfo(jnp.int32)
        low, high = max(int(source.min), target.min), min(int(source.max), target.max)
        clipped = jax.lax.clamp(
            jnp.asarray(low, qubit.dtype), qubit, jnp.asarray(high, qubit.dtype)
        )
        return clipped.astype(jnp.int32)

    def get_qubit(self, wire: Wire) -> Any:
        """Return the qubit index of a static or traced wire: an int or a traced integer."""
        return self.get_dynamic_qubit(wire) if is_dynamic(wire) else self(wire)

    def find_static_qubit(self, wire: Wire) -> int | None:
        """Return the qubit index of a wire that is known during tracing.

        A traced wire that depends on constants alone is evaluated.

        Args:
            wire: wire label, or a tracer.

        Returns:
            the index as an int; None if the value of a traced wire is unknown or out of range.

        Raises:
            CompileError: for a static label that is unknown to the device, for a traced wire that
                is not an integer, and for any traced wire if the labels are not 0, 1, ... in order.
        """
        if not is_dynamic(wire):
            return self(wire)
        qubit = evaluate_constant(self.get_dynamic_qubit(wire))
        return int(qubit) if qubit is not None and 0 <= qubit < len(self) else None

    def get_dynamic_qubit(self, wire: Any) -> Any:
        """Return the qubit index of a traced wire, without a range check.

        The labels must be ``0, 1, ...`` in order, so the index is the wire itself, except that a
        bool becomes int32.

        Args:
            wire: integer or bool scalar tracer.

        Raises:
            CompileError: if the wire is not an integer, or the labels are not 0, 1, ... in order.
        """
        if wire.dtype == bool:
            # A mid-circuit outcome: True and False are wires 1 and 0, as in Python.
            wire = jnp.asarray(wire).astype(jnp.int32)
        if wire.shape or not jnp.issubdtype(wire.dtype, jnp.integer):
            raise CompileError(
                f"{self._where}: a traced wire must be an integer scalar, got "
                f"{wire.dtype}{list(wire.shape)}. Pass an integer."
            )
        if list(self._index) != list(range(len(self))):
            raise CompileError(
                f"{self._where}: a wire is traced, and the device has the wires "
                f"{list(self._index)}, expected wires numbered from 0. Use qml.device(..., "
                f"wires={len(self)})."
            )
        return wire
