"""Operations of PennyLane's as parameters of equations: with placeholders for what is traced.

``qml.ctrl(qml.RX(2 * x, i), control=0)`` holds two tracers, of which one stands deep inside.  So
``TracedOperator.of`` goes through what an operation is made of::

    made: ctrl(RX(<0>, wires=<1>), control=0)    operands: 2 * x, i

and ``with_values`` puts other values in the place of these.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import pennylane as qml

from bellhop._jax.private import hold_weakly_in_caches


@dataclass(frozen=True)
class _Placeholder:
    """Stands for an operand."""

    number: int


@dataclass(frozen=True, eq=False)
class TracedOperator:
    """Objects of PennyLane's without the values that are traced.

    Attributes:
        made: them, with placeholders.
        wires: theirs, as far as they are known; None where some are traced.
    """

    made: Any
    wires: tuple[Any, ...] | None

    @classmethod
    def of(cls, made: Any, wires: Sequence[Any] = ()) -> tuple["TracedOperator", list[Any]]:
        """Return objects without what is traced, and that.

        Args:
            made: an operation, wires, or tuples of such.
            wires: those that it acts on.
        """
        operands: list[Any] = []

        def taken(value: Any) -> _Placeholder:
            operands.append(value)
            return _Placeholder(len(operands) - 1)

        are_known = not any(isinstance(wire, jax.core.Tracer) for wire in wires)
        template = _with_leaves(made, jax.core.Tracer, taken)
        return cls(template, tuple(wires) if are_known else None), operands

    def with_values(self, values: Sequence[Any]) -> Any:
        """Return the objects with values in the place of what was traced."""
        return _with_leaves(self.made, _Placeholder, lambda leaf: values[leaf.number])

    def __repr__(self) -> str:
        return getattr(self.made, "name", str(self.made))


hold_weakly_in_caches(TracedOperator)


def _with_leaves(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """Return an object whose leaves of some type are changed, wherever they stand in it.

    What has no such leaf stays the same object.
    """
    done: dict[int, Any] = {}

    def visit(value: Any) -> Any:
        if isinstance(value, kind):
            key = id(value)
            if key not in done:
                done[key] = change(value)
            return done[key]
        parts = _parts(value)
        if parts is None:
            return value
        if id(value) in done:
            return done[id(value)]
        changed = {name: visit(part) for name, part in parts.items()}
        same = all(changed[name] is part for name, part in parts.items())
        done[id(value)] = value if same else _rebuilt(value, changed)
        return done[id(value)]

    return visit(value)


def _parts(value: Any) -> Mapping[Any, Any] | None:
    """Return what an object holds, by name or place; None for what is not looked into."""
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    if isinstance(value, dict):
        # Sums of Pauli words are dictionaries of coefficients.
        return value
    is_ours = isinstance(value, qml.operation.Operator | qml.measurements.MeasurementProcess)
    if is_ours or type(value).__module__.startswith("pennylane."):
        return getattr(value, "__dict__", None)
    return None


def _rebuilt(value: Any, parts: dict[Any, Any]) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*parts.values())
    if isinstance(value, list | tuple):
        return type(value)(parts.values())
    if isinstance(value, dict):
        made = value.copy()
        made.update(parts)
        return made
    made = object.__new__(type(value))
    # Not by its constructor, which would queue it and may look at values.
    made.__dict__.update(parts)
    if isinstance(made, qml.wires.Wires):
        made._hash = None
    return made
