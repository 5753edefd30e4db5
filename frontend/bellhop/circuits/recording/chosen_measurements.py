"""Measurements that a condition of the program chooses: ``return`` under an ``if``.

``if x > 0: return qml.expval(qml.X(0))``, else ``return qml.expval(qml.Z(0))``, returns ::

    qml.expval(weight * qml.X(0) + (1 - weight) * qml.Z(0)),  weight = 1.0 where x > 0, else 0.0
"""

from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop.circuits.measure.process import is_measurement
from bellhop.circuits.measure.processes import is_linear


def is_measured(result: Any) -> bool:
    """Tell whether there are measurements in a result."""
    return any(map(is_measurement, _measured(result)[0]))


def can_be_chosen(one: Any, other: Any) -> bool:
    """Tell whether the program can choose between two results that measure different things."""
    (ones, one_tree), (others, other_tree) = map(_measured, (one, other))
    return one_tree == other_tree and all(map(is_linear, ones + others))


def chosen(pred: Any, one: Any, other: Any) -> Any:
    """Return measurements with the values of ``one`` where a condition holds, else of ``other``.

    Each is the expectation value of a sum in which one of the observables has coefficient zero.
    """
    weight = jnp.where(pred, 1.0, 0.0)

    def mean(a: Any, b: Any) -> Any:
        with qml.QueuingManager.stop_recording():
            return qml.expval(qml.ops.LinearCombination([weight, 1 - weight], [a.obs, b.obs]))

    return jax.tree.map(mean, one, other, is_leaf=is_measurement)


def _measured(result: Any) -> tuple[list[Any], Any]:
    return jax.tree.flatten(result, is_leaf=is_measurement)
