"""Measurement processes in results of quantum functions and their branches.

A traced condition may select between measurements.  ``if x > 0: return qml.expval(qml.X(0))``, else
``return qml.expval(qml.Z(0))``, returns ::

    qml.expval(weight * qml.X(0) + (1 - weight) * qml.Z(0)),  weight = 1.0 where x > 0, else 0.0
"""

from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from pennylane.queuing import QueuingManager

from bellhop.circuits.ir.measurement_types import is_measurement


def mark_returned(result: object) -> None:
    """Mark the measurements of a result as returned, in PennyLane's active queue.

    A measurement in the queue that is not marked is later reported as not returned, an error.
    """
    for process in _find_measurements(result):
        QueuingManager.update_info(process, is_returned=True)


def replace_measurements(before: Any, after: Any) -> None:
    """Replace measurements in PennyLane's active queue by measurements of another result.

    Measurements of ``after`` are appended to the queue. Measurements that only ``before`` has are
    marked as returned: measurements of the queue that are neither marked nor returned would be an
    error.

    Args:
        before: pytree with the measurements to replace.
        after: pytree with the measurements that replace them, which the user may return.
    """
    processes = {id(process): process for process in _find_measurements(after)}
    for process in _find_measurements(before):
        if id(process) not in processes:
            QueuingManager.update_info(process, is_returned=True)
    for process in processes.values():
        if QueuingManager.recording() and process not in QueuingManager.active_context():
            QueuingManager.append(process)


def has_measurements(result: object) -> bool:
    """Return whether a pytree has a measurement process among its leaves."""
    return bool(_find_measurements(result))


def can_select_between(one: object, other: object) -> bool:
    """Return whether ``select_measurements`` supports the results of two branches.

    True if both pytrees have the same structure, and all leaves are expectation values of
    observables.
    """
    (ones, one_tree), (others, other_tree) = map(_flatten, (one, other))
    return one_tree == other_tree and all(map(_is_expval, ones + others))


def select_measurements(pred: Any, one: object, other: object) -> Any:
    """Select between expectation values by a traced condition, like ``jnp.where``.

    Each leaf is the expectation value of ``weight * A + (1 - weight) * B``, with weight 1 or 0.

    Args:
        pred: bool scalar.
        one: pytree of expectation values, which are selected if ``pred`` is True.
        other: pytree of the same structure, selected if ``pred`` is False.

    Returns:
        pytree of the same structure, with PennyLane's expectation values as leaves.
    """
    weight = jnp.where(pred, 1.0, 0.0)

    def combine_expvals(a: Any, b: Any) -> Any:
        """Return the expectation value of ``weight * A + (1 - weight) * B``."""
        with QueuingManager.stop_recording():
            return qml.expval(qml.ops.LinearCombination([weight, 1 - weight], [a.obs, b.obs]))

    return jax.tree.map(combine_expvals, one, other, is_leaf=is_measurement)


def _is_expval(leaf: Any) -> bool:
    """Return whether a leaf is the expectation value of an observable."""
    return isinstance(leaf, qml.measurements.ExpectationMP) and leaf.mv is None


def _find_measurements(result: object) -> list[Any]:
    """Return the measurement processes among the leaves of a pytree."""
    return list(filter(is_measurement, _flatten(result)[0]))


def _flatten(result: object) -> tuple[list[Any], Any]:
    """Flatten a pytree, with measurement processes as leaves; return leaves and structure."""
    return jax.tree.flatten(result, is_leaf=is_measurement)
