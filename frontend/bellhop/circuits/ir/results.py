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
    """Computes a QNode's result from the values of its circuit's executions.

    A backend traces one execution of the circuit, which gives the statistics.  It takes their
    arrays (``take_values``), combines these over all executions, and passes the combined arrays to
    ``finish``.

    Attributes:
        statistics: one ``Statistic`` for each leaf of the quantum function's result.
        tree: the tree structure of the quantum function's result.
        shots: the shots of the circuit.
        precision: the precision to which measurement results are cast.
        where: the QNode's name and line, for error messages.
    """

    statistics: Sequence[Statistic]
    tree: Any
    shots: Shots
    precision: Precision
    where: str

    def take_values(self) -> list[Any]:
        """Move the arrays of one execution out of ``statistics``, as a flat list.

        This object is changed: its statistics keep zeros in the place of the arrays, so that
        ``finish`` can rebuild their tree structure from a flat list.

        Returns:
            the arrays of the first statistic, then of the second, and so on.
        """
        values = [statistic.values for statistic in self.statistics]
        self.statistics = [statistic.map_values(lambda _: 0) for statistic in self.statistics]
        return jax.tree.leaves(values)

    def finish(self, values: Sequence[Any], *, total: Any = None, is_accepted: Any = None) -> Any:
        """Compute the QNode's result from the values of all executions.

        Args:
            values: arrays in the order of ``take_values()``, combined over all executions: summed,
                or with an entry for each shot.
            total: scalar by which measured values are divided, the probability that all
                postselections hold; None for no division.
            is_accepted: bool ``[shots]``, or a scalar for all shots: whether postselection kept the
                shot; None if all shots are kept. Samples of other shots become a fill value.

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
        ends = list(itertools.accumulate(self.shots.shot_vector))

        def finish_copy(number: int) -> Any:
            """Compute the result for one entry of the shot vector.

            ``number`` is the index of the entry; 0 without a shot vector.
            """
            shot_slice = slice(ends[number] - self.shots.shot_vector[number], ends[number])

            def select_copy(statistic: Statistic, value: object) -> Any:
                """Select this entry's samples, or its element on the axis of shot groups."""
                index = shot_slice if statistic.is_per_shot else number
                return jax.tree.map(lambda array: array[index], value)

            return self._build_results(list(map(select_copy, self.statistics, each)))

        return tuple(map(finish_copy, range(len(ends)))) if self.shots.is_vector else finish_copy(0)

    def finish_rows(self, rows: Any, *, differ: bool) -> Any:
        """Remove the batch axis from returned values that are equal in all batch rows.

        These are the values that are not measurements, in a circuit without mid-circuit outcomes.

        Args:
            rows: the QNode's results, with a leading batch axis in each array.
            differ: whether the circuit has mid-circuit outcomes, so that these values may differ
                between batch rows. They then keep the batch axis.

        Returns:
            ``rows`` with the entry of row 0 for each value that is not a measurement; ``rows``
            itself if ``differ`` is True.
        """
        if differ:
            return rows
        are_measured = [statistic.is_measured for statistic in self.statistics]
        return drop_duplicate_rows(rows, self.tree, are_measured, is_vector=self.shots.is_vector)

    def _map_measured(
        self, each: Sequence[Any], change: Callable[[Statistic, Any], Any]
    ) -> list[Any]:
        """Apply a function to the arrays of the statistics that are measured.

        Args:
            each: for each of ``statistics``, a pytree of arrays. Pytrees of statistics that the
                quantum function returned without a measurement stay as they are.
            change: ``(statistic, array) -> array``.
        """
        return [
            jax.tree.map(functools.partial(change, statistic), values)
            if statistic.is_measured
            else values
            for statistic, values in zip(self.statistics, each, strict=True)
        ]

    def _mask_rejected(self, statistic: Statistic, values: Any, is_accepted: Any) -> Any:
        """Replace the values of shots that postselection dropped.

        Args:
            statistic: the statistic of the values.
            values: array ``[shots, ...]`` of samples, which are replaced by a fill value; or means
                or counts over shots.
            is_accepted: bool array ``[shots]``: means and counts are unchanged, as they include
                accepted shots only. Or a bool scalar for all shots: if it is False, means become
                NaN and counts 0.
        """
        if statistic.is_per_shot:
            return fill_rejected_samples(values, is_accepted, self.where)
        # Means and counts over shots include accepted shots only.
        if is_accepted.ndim:
            return values
        no_shots = 0 if jnp.issubdtype(values.dtype, jnp.integer) else jnp.nan
        return jnp.where(is_accepted, values, jnp.asarray(no_shots, values.dtype))

    def _build_results(self, each: Sequence[Any]) -> Any:
        """Compute the QNode's result by each statistic's ``finish``.

        Measurement results are cast to the circuit's precision.

        Args:
            each: for each statistic, a pytree with the structure of its ``values``.
        """
        results = [s.finish(values) for s, values in zip(self.statistics, each, strict=True)]
        return jax.tree.unflatten(
            self.tree, self._map_measured(results, lambda _, r: self.precision.cast_result(r))
        )


def drop_duplicate_rows(
    rows: Any, tree: PyTree, are_measured: Sequence[bool], *, is_vector: bool
) -> Any:
    """Remove the batch axis from leaves that are not measurements, by selecting row 0.

    All rows of such a leaf are equal.

    Args:
        rows: pytree of results with a leading batch axis; a tuple of such pytrees for a shot
            vector.
        tree: the tree structure of the quantum function's result.
        are_measured: for each leaf of ``tree``, whether it is a measurement.
        is_vector: whether the circuit has a shot vector.
    """

    def finish_copy(rows: Any) -> Any:
        """Remove the batch axis of unmeasured leaves for one entry of the shot vector."""
        leaves = [
            values if is_measured else jax.tree.map(lambda array: array[0], values)
            for values, is_measured in zip(tree.flatten_up_to(rows), are_measured, strict=True)
        ]
        return jax.tree.unflatten(tree, leaves)

    return tuple(map(finish_copy, rows)) if is_vector else finish_copy(rows)
