"""Measurements in what a quantum function returns, and in what its parts return to it.

A condition of the program may choose between them.  ``if x > 0: return qml.expval(qml.X(0))``, else
``return qml.expval(qml.Z(0))``, returns ::

    qml.expval(weight * qml.X(0) + (1 - weight) * qml.Z(0)),  weight = 1.0 where x > 0, else 0.0
"""

from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from pennylane.queuing import QueuingManager

from bellhop.base.types import PyTree
from bellhop.circuits.ir.measurement_types import is_measurement


def mark_returned(result: PyTree) -> None:
    """Tell the active queue that the measurements in a result are returned to the caller."""
    for process in _find_measurements(result):
        QueuingManager.update_info(process, is_returned=True)


def replace_measurements(before: Any, after: Any) -> None:
    """Replace measurements in the active queue.

    Args:
        before: a result, whose measurements are no longer measured.
        after: a result, whose measurements are measured instead.
    """
    processes = {id(process): process for process in _find_measurements(after)}
    for process in _find_measurements(before):
        if id(process) not in processes:
            QueuingManager.update_info(process, is_returned=True)
    for process in processes.values():
        if QueuingManager.recording() and process not in QueuingManager.active_context():
            QueuingManager.append(process)


def has_measurements(result: PyTree) -> bool:
    """Return whether there are measurements in a result."""
    return bool(_find_measurements(result))


def can_select_between(one: object, other: object) -> bool:
    """Return whether the program can choose between two results that measure different things."""
    (ones, one_tree), (others, other_tree) = map(_flatten, (one, other))
    return one_tree == other_tree and all(map(_is_expval, ones + others))


def select_measurements(pred: Any, one: object, other: object) -> Any:
    """Return measurements with the values of ``one`` where a condition holds, else of ``other``.

    Each is the expectation value of a sum in which one of the observables has coefficient zero.
    """
    weight = jnp.where(pred, 1.0, 0.0)

    def combine_expvals(a: Any, b: Any) -> Any:
        with QueuingManager.stop_recording():
            return qml.expval(qml.ops.LinearCombination([weight, 1 - weight], [a.obs, b.obs]))

    return jax.tree.map(combine_expvals, one, other, is_leaf=is_measurement)


def _is_expval(leaf: Any) -> bool:
    """Return whether a leaf is an expectation value, which is linear in its observable."""
    return isinstance(leaf, qml.measurements.ExpectationMP) and leaf.mv is None


def _find_measurements(result: PyTree) -> list[Any]:
    return list(filter(is_measurement, _flatten(result)[0]))


def _flatten(result: PyTree) -> tuple[list[Any], Any]:
    return jax.tree.flatten(result, is_leaf=is_measurement)
