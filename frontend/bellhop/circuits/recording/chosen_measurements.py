"""Measurements that a condition of the program chooses: ``return`` under an ``if``."""

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
    """Return the expectation values of one result where a condition holds, else of the other.

    They are those of sums, in which one of the observables has the coefficient zero.
    """
    weight = jnp.where(pred, 1.0, 0.0)

    def mean(a: Any, b: Any) -> Any:
        with qml.QueuingManager.stop_recording():
            return qml.expval(qml.ops.LinearCombination([weight, 1 - weight], [a.obs, b.obs]))

    return jax.tree.map(mean, one, other, is_leaf=is_measurement)


def _measured(result: Any) -> tuple[list[Any], Any]:
    return jax.tree.flatten(result, is_leaf=is_measurement)
