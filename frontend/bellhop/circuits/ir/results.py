"""Compute a QNode's result from the values of its circuit's executions."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from bellhop.base.types import PyTree
from bellhop.circuits.ir.circuit_config import Shots
from bellhop.circuits.ir.postselection import fill_rejected_samples
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.statistics import Statistic


@dataclasses.dataclass
class Results:
    """Computes the QNode's result from the values of the circuit's executions.

    Attributes:
        statistics: one ``Statistic`` for each leaf of the quantum function's result.
        tree: the tree structure of the quantum function's result.
        shots: the shots of the circuit.
        precision: the precision of measurement results.
        where: the QNode, for errors.
    """

    statistics: Sequence[Statistic]
    tree: Any
    shots: Shots
    precision: Precision
    where: str

    def take_values(self) -> list[Any]:
        """Move the arrays of one execution from the statistics to a list.

        The statistics keep the tree structure, from which ``finish`` rebuilds the values.
        """
        values = [statistic.values for statistic in self.statistics]
        self.statistics = [statistic.map_values(lambda _: 0) for statistic in self.statistics]
        return jax.tree.leaves(values)

    def finish(self, values: Sequence[Any], *, total: Any = None, is_accepted: Any = None) -> Any:
        """Compute the QNode's result from the values of all executions.

        Args:
            values: arrays in the order of ``take_values()``, combined over all executions.
            total: scalar by which measured values are divided; None for no division.
            is_accepted: bool ``[shots]``, or a scalar for all shots: whether postselection kept the
                shot; None if all shots are kept.

        Returns:
            the result in the structure ``tree``; a tuple of results for a shot vector.
        """
        tree = jax.tree.structure([statistic.values for statistic in self.statistics])
        each: list[Any] = jax.tree.unflatten(tree, list(values))
        if total is not None:
            each = self._map_measured(each, lambda _, array: array / total)
        if is_accepted is not None:
            each = self._map_measured(
                each, lambda s, array: self._mask_rejected(s, array, is_accepted)
            )
        if not self.shots.total:
            return self._build_results(each)
        ends = list(itertools.accumulate(self.shots.copies))

        def finish_copy(number: int) -> Any:
            """Return the result for one entry of the shot vector, by its index."""
            shot_slice = slice(ends[number] - self.shots.copies[number], ends[number])

            def select_copy(statistic: Statistic, value: object) -> Any:
                index = shot_slice if statistic.is_per_shot else number
                return jax.tree.map(lambda array: array[index], value)

            return self._build_results(list(map(select_copy, self.statistics, each)))

        return tuple(map(finish_copy, range(len(ends)))) if self.shots.is_vector else finish_copy(0)

    def finish_rows(self, rows: Any, *, differ: bool) -> Any:
        """Remove the batch axis from returned values that are not measurements.

        Args:
            rows: the results, with a leading batch axis.
            differ: whether values that are not measurements may differ between batch rows, as
                mid-circuit outcomes do. They then keep the batch axis.
        """
        if differ:
            return rows
        are_measured = [statistic.is_measured for statistic in self.statistics]
        return drop_duplicate_rows(rows, self.tree, are_measured, is_vector=self.shots.is_vector)

    def _map_measured(
        self, each: Sequence[Any], change: Callable[[Statistic, Any], Any]
    ) -> list[Any]:
        """Apply ``change(statistic, array)`` to measured values only."""
        return [
            jax.tree.map(functools.partial(change, statistic), values)
            if statistic.is_measured
            else values
            for statistic, values in zip(self.statistics, each, strict=True)
        ]

    def _mask_rejected(self, statistic: Statistic, values: Any, is_accepted: Any) -> Any:
        """Replace the values of shots that postselection dropped: by a fill value, 0 or NaN."""
        if statistic.is_per_shot:
            return fill_rejected_samples(values, is_accepted, self.where)
        # Means and counts over shots include accepted shots only.
        if is_accepted.ndim:
            return values
        no_shots = 0 if jnp.issubdtype(values.dtype, jnp.integer) else jnp.nan
        return jnp.where(is_accepted, values, jnp.asarray(no_shots, values.dtype))

    def _build_results(self, each: Sequence[Any]) -> Any:
        """Apply each statistic's ``finish``; return results in the structure ``tree``."""
        results = [s.finish(values) for s, values in zip(self.statistics, each, strict=True)]
        return jax.tree.unflatten(
            self.tree, self._map_measured(results, lambda _, r: self.precision.cast_result(r))
        )


def drop_duplicate_rows(
    rows: Any, tree: PyTree, are_measured: Sequence[bool], *, is_vector: bool
) -> Any:
    """Remove the batch axis from leaves that are not measurements, by selecting row 0.

    Args:
        rows: pytree of results with a leading batch axis; a tuple of them for a shot vector.
        tree: the tree structure of the quantum function's result.
        are_measured: for each leaf of ``tree``, whether it is a measurement.
        is_vector: whether the circuit has a shot vector.
    """

    def finish_copy(rows: Any) -> Any:
        """Remove the batch axis for one entry of the shot vector."""
        leaves = [
            values if is_measured else jax.tree.map(lambda array: array[0], values)
            for values, is_measured in zip(tree.flatten_up_to(rows), are_measured, strict=True)
        ]
        return jax.tree.unflatten(tree, leaves)

    return tuple(map(finish_copy, rows)) if is_vector else finish_copy(rows)
