"""What a QNode returns, made of the values of its circuit's runs."""

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
    """What a circuit returns, made of the values of its runs.

    Attributes:
        statistics: of a run, one for each leaf of what the quantum function returned.
        tree: the structure of that.
        shots: of the circuit.
        precision: of measurements.
        where: the QNode, for errors.
    """

    statistics: Sequence[Statistic]
    tree: Any
    shots: Shots
    precision: Precision
    where: str

    def take_values(self) -> list[Any]:
        """Return the values of a run, one array after the other; keep no more than their places."""
        every = [statistic.values for statistic in self.statistics]
        self.statistics = [statistic.map_values(lambda _: 0) for statistic in self.statistics]
        return jax.tree.leaves(every)

    def finish(self, values: Sequence[Any], *, total: Any = None, is_accepted: Any = None) -> Any:
        """Return the results in their structure.

        Args:
            values: of all runs.
            total: what those of measurements are to be divided by, if anything.
            is_accepted: for each shot, or for all, whether they were kept, if some may not be.
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
            of_shots = slice(ends[number] - self.shots.copies[number], ends[number])

            def take_part(statistic: Statistic, value: object) -> Any:
                place = of_shots if statistic.is_per_shot else number
                return jax.tree.map(lambda array: array[place], value)

            return self._build_results(list(map(take_part, self.statistics, each)))

        return tuple(map(finish_copy, range(len(ends)))) if self.shots.is_vector else finish_copy(0)

    def finish_rows(self, rows: Any, *, differ: bool) -> Any:
        """Return the results of a batch: what is no measurement is not of the batch.

        Args:
            rows: the results of each, with the axis of rows.
            differ: whether such values may differ from row to row, as outcomes do.
        """
        if differ:
            return rows
        are_measured = [statistic.is_measured for statistic in self.statistics]
        return drop_duplicate_rows(rows, self.tree, are_measured, is_vector=self.shots.is_vector)

    def _map_measured(
        self, each: Sequence[Any], change: Callable[[Statistic, Any], Any]
    ) -> list[Any]:
        """Change the values of measurements, but no others."""
        return [
            jax.tree.map(functools.partial(change, statistic), values)
            if statistic.is_measured
            else values
            for statistic, values in zip(self.statistics, each, strict=True)
        ]

    def _mask_rejected(self, statistic: Statistic, values: Any, is_accepted: Any) -> Any:
        """Return values of a statistic with what stands for shots that were not kept."""
        if statistic.is_per_shot:
            return fill_rejected_samples(values, is_accepted, self.where)
        # Means over shots are those of the shots that were kept already.
        return values if is_accepted.ndim else jnp.where(is_accepted, values, jnp.nan)

    def _build_results(self, each: Sequence[Any]) -> Any:
        results = [s.finish(values) for s, values in zip(self.statistics, each, strict=True)]
        return jax.tree.unflatten(
            self.tree, self._map_measured(results, lambda _, r: self.precision.cast_result(r))
        )


def drop_duplicate_rows(
    rows: Any, tree: PyTree, are_measured: Sequence[bool], *, is_vector: bool
) -> Any:
    """Return the results of all rows of a batch, with one of each value that is no measurement.

    Args:
        rows: the results, with the axis of rows; of each copy, where shots are a vector.
        tree: the structure of the results.
        are_measured: which of its leaves are measurements.
        is_vector: whether shots are a vector.
    """

    def finish_copy(rows: Any) -> Any:
        leaves = [
            values if is_measured else jax.tree.map(lambda array: array[0], values)
            for values, is_measured in zip(tree.flatten_up_to(rows), are_measured, strict=True)
        ]
        return jax.tree.unflatten(tree, leaves)

    return tuple(map(finish_copy, rows)) if is_vector else finish_copy(rows)
