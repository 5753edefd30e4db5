"""PennyLane without a compiler: every circuit on ``default.qubit``."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml


def device(name: str, wires: int) -> Any:
    return qml.device("default.qubit", wires=wires)


def qnode(device: Any, **options: Any) -> Callable[..., Any]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        circuit = qml.QNode(function, device, **options)

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            results = circuit(*args)
            return tuple(map(_arrays, results)) if isinstance(results, tuple) else _arrays(results)

        return call

    return decorate


def _arrays(result: Any) -> Any:
    """Write counts as arrays, of outcomes and of how often each came."""
    if not isinstance(result, dict):
        return result
    return jnp.array([int(key, 2) for key in result]), jnp.array(list(result.values()))


def known(wires: Any) -> Any:
    """Return wires that were computed as labels of PennyLane's."""
    return jax.tree.map(int, wires)


def measure(wires: Any, **options: Any) -> Any:
    return qml.measure(known(wires), **options)


def ctrl(operation: Any, control: Any) -> Any:
    return qml.ctrl(operation, control=known(control))


class UncompiledPennyLane:
    """The module ``pennylane``, but for what this changes."""

    device = staticmethod(device)
    qnode = staticmethod(qnode)
    ctrl = staticmethod(ctrl)

    def __getattr__(self, name: str) -> Any:
        found = getattr(qml, name)
        if isinstance(found, type) and issubclass(found, qml.operation.Operator):
            return lambda *args, **named: found(*args, **known(named))
        return found
