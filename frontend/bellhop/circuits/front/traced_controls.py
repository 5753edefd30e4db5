"""Support traced control values, by flips around controls on one.

A control on zero is a control on one between two flips of its wire.  So a control with a traced
value is a control on one between two conditional flips: ``H PhaseShift(pi or 0) H``, which is ``X``
if the value is zero and the identity otherwise.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.base.types import Wire
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.tracing.state import current_circuit


def wrap_controlled_constructor(
    kind: Any, name: str, original: Callable[..., Any]
) -> Callable[..., Any]:
    """Make a ``__new__`` of a controlled operation that accepts traced control values.

    With traced control values in a circuit that is being traced, it returns a product: conditional
    flips of the control wires, the operation with static values, and the flips again.  Other calls
    construct the operation as before.

    Args:
        kind: the class of the operation.
        name: the name of the constructor's argument with the control values.
        original: the original ``__new__`` of the class.
    """
    signature = inspect.signature(kind.__init__)

    @functools.wraps(original)
    def new(cls: Any, *args: Any, **options: Any) -> Any:
        """Construct the operation, or a product with conditional flips for traced values.

        For a subclass of ``kind``, the original ``__new__`` is called.
        """
        # Subclasses may have other arguments.
        is_supported = cls is kind and current_circuit() is not None
        if not is_supported or not _has_dynamic((*args, *options.values())):
            return original(cls, *args, **options)
        bound = signature.bind(None, *args, **options)
        values = bound.arguments.get(name)
        wires = qml.wires.Wires(bound.arguments.get("control_wires", bound.arguments.get("wires")))
        if kind is qml.FlipSign and is_dynamic(values) and not values.ndim:
            values = _to_bits(values, len(wires))
        split = SplitControlValues.from_values(wires[: len(_to_list(values))], values)
        if not split.flips:
            return original(cls, *args, **options)
        bound.arguments[name] = split.static
        return split.surround(cls(*bound.args[1:], **bound.kwargs))

    return new


def _has_dynamic(values: Sequence[Any]) -> bool:
    """Return whether some of the values, or of the values in nested lists, are traced."""
    return any(
        is_dynamic(value) or (isinstance(value, list | tuple) and _has_dynamic(value))
        for value in values
    )


@dataclass(frozen=True)
class SplitControlValues:
    """Static control values, and conditional flips in place of traced control values.

    A control on a traced value is a control on True between two conditional flips of its wire.
    ``from_values`` makes the object from control values of which some may be traced.

    Attributes:
        static: the control values, with True in place of each traced value.
        flips: PennyLane gates to apply before and again after the controlled operation; empty if no
            control value is traced.
    """

    static: Any
    flips: Sequence[Any]

    @classmethod
    def from_values(cls, control: Any, values: Any) -> "SplitControlValues":
        """Replace traced control values by static values and conditional flips.

        A control on a traced value ``v`` becomes a control on True, with gates before and after it
        that flip the control wire if ``v`` is false.

        Args:
            control: the control wires.
            values: a control value for each wire, or one value for a single wire, or None. If no
                value is traced, ``static`` of the result is ``values``.
        """
        each = _to_list(values)
        if not any(map(is_dynamic, each)):
            return cls(values, [])
        wires = qml.wires.Wires(control)
        static = [True if is_dynamic(value) else bool(value) for value in each]
        flips = [
            gate
            for wire, value in zip(wires, each, strict=True)
            if is_dynamic(value)
            for gate in _flip_unless(value, wire)
        ]
        return cls(static, flips)

    def surround(self, op: qml.operation.Operator) -> Any:
        """Return the product of the flips, a controlled operation, and the flips again.

        Args:
            op: the operation with the control values ``static``.

        Returns:
            the product, with copies of the flips at its end; ``op`` itself without flips.
        """
        if not self.flips:
            return op
        # The first factor of a product is applied last.
        return qml.prod(*reversed(self.flips), op, *reversed([*map(_copy_gate, self.flips)]))


def _to_bits(number: Any, count: int) -> list[Any]:
    """Return the ``count`` bits of a traced integer, the most significant bit first."""
    return [(number >> place) & 1 for place in reversed(range(count))]


def _to_list(values: Any) -> list[Any]:
    """Convert a sequence or array to a list, and wrap a scalar or None in a list."""
    has_several = isinstance(values, Sequence) or np.ndim(values) > 0
    return list(values) if has_several else [values]


def _flip_unless(value: object, wire: Wire) -> list[Any]:
    """Return gates that flip a wire if a traced value is false; else they are the identity."""
    angle = jnp.where(jnp.asarray(value).astype(bool), 0.0, jnp.pi)
    with qml.QueuingManager.stop_recording():
        return [qml.Hadamard(wire), qml.PhaseShift(angle, wire), qml.Hadamard(wire)]


def _copy_gate(gate: Any) -> Any:
    """Return a new gate of the same class, parameters and wires, which is not queued."""
    with qml.QueuingManager.stop_recording():
        return type(gate)(*gate.data, wires=gate.wires)
