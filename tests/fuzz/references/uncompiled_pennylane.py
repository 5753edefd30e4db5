"""PennyLane without a compiler: every circuit on ``default.qubit``."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from pennylane.ops.op_math.composite import CompositeOp

# Wires for measurements in the middle, which PennyLane defers.
SPARE = 4
_now = threading.local()
# PennyLane's cache of diagonalizations belongs to one circuit at a time.
_alone = threading.RLock()


def device(name: str, wires: int) -> Any:
    return qml.device("default.qubit", wires=wires + SPARE)


def qnode(device: Any, **options: Any) -> Callable[..., Any]:
    wires = len(device.wires) - SPARE

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any) -> Any:
            _now.wires = wires
            returned: list[Any] = []

            def measured(*args: Any) -> Any:
                returned[:] = _as_tuple(function(*args))
                return [part for part in returned if _is_measured(part)]

            circuit = qml.QNode(measured, device, mcm_method="deferred", **options)
            with _alone:
                # Its keys are equal for different tracers, so it returns tracers of other circuits.
                CompositeOp._eigs.clear()
                results = iter(circuit(*args))
            values = tuple(
                _arrays(next(results), wires) if _is_measured(part) else part for part in returned
            )
            return values if len(values) > 1 else values[0]

        return call

    return decorate


def _as_tuple(returned: Any) -> tuple[Any, ...]:
    return returned if isinstance(returned, tuple) else (returned,)


def _is_measured(part: Any) -> bool:
    """Tell what is measured from what Python has computed, which a QNode may return too."""
    return isinstance(part, qml.measurements.MeasurementProcess)


def _arrays(result: Any, wires: int) -> Any:
    """Write counts as arrays, of outcomes and of how often each came; spare wires are no result."""
    if isinstance(result, dict):
        return jnp.array([int(key, 2) for key in result]), jnp.array(list(result.values()))
    if result.shape == (2 ** (wires + SPARE),):
        return result[:: 2**SPARE]
    return result


class NoSuchWiresError(ValueError):
    """Raised where what is computed to be a wire is none."""


def known(wires: Any) -> Any:
    """Return wires that were computed as labels of PennyLane's."""
    labels = jax.tree.map(int, wires)
    if not all(0 <= label < _now.wires for label in jax.tree.leaves(labels)):
        raise NoSuchWiresError(f"there are no such wires: {labels}")
    return labels


def measure(wires: Any, **options: Any) -> Any:
    return qml.measure(known(wires), **options)


def ctrl(operation: Any, control: Any) -> Any:
    return qml.ctrl(operation, control=known(control))


def probs(wires: Any = None, op: Any = None) -> Any:
    if op is not None:
        return qml.probs(op=op)
    return qml.probs(wires=wires or range(_now.wires))


def counts(**options: Any) -> Any:
    return qml.counts(wires=range(_now.wires), **options)


class UncompiledPennyLane:
    """The module ``pennylane``, but for what this changes."""

    device = staticmethod(device)
    qnode = staticmethod(qnode)
    ctrl = staticmethod(ctrl)
    probs = staticmethod(probs)
    counts = staticmethod(counts)

    def __getattr__(self, name: str) -> Any:
        found = getattr(qml, name)
        if isinstance(found, type) and issubclass(found, qml.operation.Operator):
            return lambda *args, **named: found(*args, **known(named))
        return found
