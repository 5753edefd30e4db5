"""Controls whose values the program computes.

A control that asks for zero is one that asks for one between two flips of its wire.  So a flip that
depends on the value stands around one that asks for one: a Z, or nothing, between Hadamards.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
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
    """Return what makes an operation, or one between flips where its values are computed.

    Args:
        kind: its class.
        name: of the argument that has the values.
        original: the class's own ``__new__``.
    """
    signature = inspect.signature(kind.__init__)

    @functools.wraps(original)
    def new(cls: Any, *args: Any, **options: Any) -> Any:
        # A class made of it has arguments of its own.
        is_here = cls is kind and current_circuit() is not None
        if not is_here or not _has_dynamic((*args, *options.values())):
            return original(cls, *args, **options)
        given = signature.bind(None, *args, **options)
        values = given.arguments.get(name)
        wires = qml.wires.Wires(given.arguments.get("control_wires", given.arguments.get("wires")))
        if kind is qml.FlipSign and is_dynamic(values) and not values.ndim:
            values = _to_bits(values, len(wires))
        known, flips = split_control_values(wires[: len(_to_list(values))], values)
        if not flips:
            return original(cls, *args, **options)
        given.arguments[name] = known
        return surround_with_flips(flips, cls(*given.args[1:], **given.kwargs))

    return new


def _has_dynamic(values: Sequence[Any]) -> bool:
    return any(
        is_dynamic(value) or (isinstance(value, list | tuple) and _has_dynamic(value))
        for value in values
    )


def split_control_values(control: Any, values: Any) -> tuple[Any, list[Any]]:
    """Return control values that Python knows, and gates that stand around the controlled part.

    Args:
        control: wires.
        values: one for each, or one; or None.
    """
    each = _to_list(values)
    if not any(map(is_dynamic, each)):
        return values, []
    wires = qml.wires.Wires(control)
    known = [True if is_dynamic(value) else bool(value) for value in each]
    flips = [
        gate
        for wire, value in zip(wires, each, strict=True)
        if is_dynamic(value)
        for gate in _flip_unless(value, wire)
    ]
    return known, flips


def _to_bits(number: Any, count: int) -> list[Any]:
    return [(number >> place) & 1 for place in reversed(range(count))]


def _to_list(values: Any) -> list[Any]:
    has_several = isinstance(values, Sequence) or np.ndim(values) > 0
    return list(values) if has_several else [values]


def surround_with_flips(flips: Sequence[Any], op: qml.operation.Operator) -> Any:
    """Return an operation between flips, as one."""
    # The first factor of a product is applied last.
    return qml.prod(*reversed(flips), op, *reversed([*map(_copy_gate, flips)]))


def _flip_unless(value: object, wire: Wire) -> list[Any]:
    angle = jnp.where(jnp.asarray(value).astype(bool), 0.0, jnp.pi)
    with qml.QueuingManager.stop_recording():
        return [qml.Hadamard(wire), qml.PhaseShift(angle, wire), qml.Hadamard(wire)]


def _copy_gate(gate: Any) -> Any:
    with qml.QueuingManager.stop_recording():
        return type(gate)(*gate.data, wires=gate.wires)
