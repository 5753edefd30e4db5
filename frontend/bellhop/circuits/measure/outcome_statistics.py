"""Statistics of the outcomes of mid-circuit measurements themselves."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop.circuits.process_kind import kind
from bellhop.errors import CompileError

mp = qml.measurements


def values_of(process: Any, where: str) -> list[Any]:
    """Return the outcomes that a process measures.

    Raises:
        CompileError: where they were not made by ``bellhop.measure``.
    """
    several = isinstance(process.mv, list)
    values = process.mv if several else [process.mv]
    for value in values:
        if not isinstance(value, jax.core.Tracer) or value.shape:
            raise CompileError(
                f"{where}: {kind(process)} of {value!r}, which is not the outcome of a "
                "mid-circuit measurement. Measure with bellhop.measure."
            )
    return values


def as_index(outcomes: Sequence[Any]) -> Any:
    """Return the number that outcomes are the bits of."""
    index: Any = jnp.zeros((), int)
    for outcome in outcomes:
        index = 2 * index + jnp.asarray(outcome, int)
    return index


def as_number(outcome: Any) -> Any:
    """Return an outcome, or an expression of some, as a number."""
    return jnp.asarray(outcome, int if outcome.dtype == bool else None)


def exact_of_outcomes(process: Any, where: str) -> tuple[list[Any], Callable[[Any], Any]]:
    """Return numbers of one run, and what makes a result of their means over all runs."""
    outcomes = values_of(process, where)
    match process:
        case mp.ExpectationMP():
            return [as_number(outcomes[0]).astype(float)], lambda means: means[0]
        case mp.VarianceMP():
            value = as_number(outcomes[0]).astype(float)
            return [value, value**2], lambda means: means[1] - means[0] ** 2
        case mp.ProbabilityMP():
            frequencies = jax.nn.one_hot(as_index(outcomes), 2 ** len(outcomes), dtype=float)
            return [frequencies], lambda means: means[0]
    raise CompileError(
        f"{where}: {kind(process)} of mid-circuit outcomes without shots: not supported by "
        "bellhop. Set them: qml.set_shots(circuit, 100)."
    )
