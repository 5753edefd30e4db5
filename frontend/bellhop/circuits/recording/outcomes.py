"""Outcomes of mid-circuit measurements: booleans of the program that count as 0 and 1.

PennyLane adds outcomes as numbers (``m0 + m1`` is 2 where both are 1) and negates them as
booleans (``~m0``).  An array of JAX's is one or the other: the sum of two booleans is their
disjunction, and the inverse of the integer 1 is -2, which is true.  So an outcome is a boolean
whose arithmetic is that of integers.  In all else it is what JAX makes of a boolean.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

_ARITHMETIC = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
)
_LOGIC = {"and": jnp.bitwise_and, "or": jnp.bitwise_or, "xor": jnp.bitwise_xor}
_COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def as_outcome(value: jax.core.Tracer) -> jax.core.Tracer:
    """Make a new boolean of the program an outcome."""
    # JAX dispatches operators on the type of an array's data, which is its own; so the tracer
    # itself becomes one of a subtype, and stays what it is to all of JAX.
    tracer_type: Any = type(value)
    value.__class__ = _outcome_type(tracer_type)
    return value


@functools.cache
def _outcome_type(tracer_type: Any) -> Any:
    number = lambda value: _number(value, tracer_type)
    # PennyLane knows values of JAX's by the module of their type.
    methods: dict[str, Any] = {"__slots__": (), "__module__": tracer_type.__module__}
    for function in _ARITHMETIC:
        name = function.__name__
        methods[f"__{name}__"] = _arithmetic(function, number)
        methods[f"__r{name}__"] = _arithmetic(_swapped(function), number)
    for name, function in _LOGIC.items():
        methods[f"__{name}__"] = _logic(function, tracer_type)
        methods[f"__r{name}__"] = _logic(_swapped(function), tracer_type)
    for function in _COMPARISONS:
        methods[f"__{function.__name__}__"] = _comparison(function, number)
    methods["__invert__"] = lambda self: as_outcome(jnp.logical_not(self))
    methods["__neg__"] = lambda self: -number(self)
    methods["__pos__"] = number
    methods["__abs__"] = number
    return type("MidCircuitOutcome", (tracer_type,), methods)


def _number(value: Any, tracer_type: Any) -> Any:
    return jnp.asarray(value, int) if type(value) is _outcome_type(tracer_type) else value


def _arithmetic(
    function: Callable[[Any, Any], Any], number: Callable[[Any], Any]
) -> Callable[..., Any]:
    return lambda self, other: function(number(self), number(other))


def _comparison(
    function: Callable[[Any, Any], Any], number: Callable[[Any], Any]
) -> Callable[..., Any]:
    return lambda self, other: as_outcome(function(number(self), number(other)))


def _logic(function: Callable[[Any, Any], Any], tracer_type: Any) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        result = function(self, other)
        is_outcome = result.dtype == bool and result.ndim == 0 and type(result) is tracer_type
        return as_outcome(result) if is_outcome else result

    return method


def _swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: function(other, one)
