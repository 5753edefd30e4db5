"""Controls whose values the program computes.

A control that asks for zero is one that asks for one between two flips of its wire.  So a flip that
depends on the value stands around one that asks for one: a Z, or nothing, between Hadamards.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml


def split_values(control: Any, values: Any) -> tuple[Any, list[Any]]:
    """Return control values that Python knows, and gates that stand around the controlled part.

    Args:
        control: wires.
        values: one for each, or one; or None.
    """
    has_several = isinstance(values, Sequence) or np.ndim(values) > 0
    each = list(values) if has_several else [values]
    if not any(isinstance(value, jax.core.Tracer) for value in each):
        return values, []
    wires = qml.wires.Wires(control)
    known = [True if isinstance(value, jax.core.Tracer) else bool(value) for value in each]
    flips = [
        gate
        for wire, value in zip(wires, each, strict=True)
        if isinstance(value, jax.core.Tracer)
        for gate in _flip_unless(value, wire)
    ]
    return known, flips


def between(flips: Sequence[Any], op: Any) -> Any:
    """Return an operation between flips, as one."""
    # The first factor of a product is applied last.
    return qml.prod(*reversed(flips), op, *reversed([*map(_again, flips)]))


def _flip_unless(value: Any, wire: Any) -> list[Any]:
    angle = jnp.where(jnp.asarray(value).astype(bool), 0.0, jnp.pi)
    with qml.QueuingManager.stop_recording():
        return [qml.Hadamard(wire), qml.PhaseShift(angle, wire), qml.Hadamard(wire)]


def _again(gate: Any) -> Any:
    with qml.QueuingManager.stop_recording():
        return type(gate)(*gate.data, wires=gate.wires)
