"""Mid-circuit outcomes: boolean tracers with integer arithmetic.

With the outcomes ``m0`` and ``m1``, both 1::

              here     boolean arrays in JAX       integer arrays in JAX
    m0 + m1   2        True                        2
    ~m0       False    False                       -2, which counts as true

The first column is the behaviour of outcomes in PennyLane.  Otherwise an outcome is a boolean
array.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bellhop._jax.jaxprs import PROGRAM_TRACER

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


def to_outcome(value: jax.core.Tracer) -> jax.core.Tracer:
    """Convert a new boolean tracer to a mid-circuit outcome, in place, and return it.

    The outcome is the same tracer with the arithmetic of outcomes in PennyLane: ``m0 + m1`` adds
    integers.

    Args:
        value: boolean scalar tracer that has no other references yet.
    """
    # JAX has no public way to change a tracer's operators. So the tracer's class is replaced by a
    # subclass.
    tracer_type: Any = type(value)
    value.__class__ = _outcome_type(tracer_type)
    return value


@functools.cache
def _outcome_type(tracer_type: Any) -> Any:
    """Make a subclass of a JAX tracer class, for mid-circuit outcomes in PennyLane.

    Its operators are as for outcomes in PennyLane: for example ``+`` adds integers. The subclass,
    ``MidCircuitOutcome``, is created once for each `tracer_type`.

    Args:
        tracer_type: the tracer class.
    """
    number = lambda value: _to_integer(value, tracer_type)
    # PennyLane recognizes JAX arrays by the module of their type.
    methods: dict[str, Any] = {"__slots__": (), "__module__": tracer_type.__module__}
    for function in _ARITHMETIC:
        name = function.__name__
        methods[f"__{name}__"] = _make_arithmetic(function, number)
        methods[f"__r{name}__"] = _make_arithmetic(_swap_operands(function), number)
    for name, function in _LOGIC.items():
        methods[f"__{name}__"] = _make_logic(function, tracer_type)
        methods[f"__r{name}__"] = _make_logic(_swap_operands(function), tracer_type)
    for function in _COMPARISONS:
        methods[f"__{function.__name__}__"] = _make_comparison(function, number)
    # A class that defines comparison needs an explicit hash; wires are hashed.
    methods["__hash__"] = object.__hash__
    methods["__invert__"] = lambda self: to_outcome(jnp.logical_not(self))
    methods["__neg__"] = lambda self: -number(self)
    methods["__pos__"] = number
    methods["__abs__"] = number
    return type("MidCircuitOutcome", (tracer_type,), methods)


def _to_integer(value: object, tracer_type: Any) -> Any:
    """Convert a mid-circuit outcome to an integer tracer; return other values unchanged."""
    return jnp.asarray(value, int) if type(value) is _outcome_type(tracer_type) else value


def _make_arithmetic(
    function: Callable[[Any, Any], Any], number: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return an operator method, such as ``__add__``, that computes with outcomes as integers."""
    return lambda self, other: function(number(self), number(other))


def _make_comparison(
    function: Callable[[Any, Any], Any], number: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return a comparison method, such as ``__lt__``, whose result is an outcome."""
    return lambda self, other: to_outcome(function(number(self), number(other)))


def _make_logic(function: Callable[[Any, Any], Any], tracer_type: Any) -> Callable[..., Any]:
    """Make an operator method, such as ``__and__``, for mid-circuit outcomes.

    Args:
        function: implementation of the operator in ``jax.numpy``, such as ``jnp.bitwise_and``.
        tracer_type: tracer class whose boolean scalars become outcomes; all other results of
            ``function`` are returned as they are.
    """

    def method(self: Any, other: object) -> Any:
        """Apply `function`; convert a boolean scalar result to an outcome."""
        result = function(self, other)
        is_outcome = result.dtype == bool and result.ndim == 0 and type(result) is tracer_type
        return to_outcome(result) if is_outcome else result

    return method


def _swap_operands(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the function with its two arguments in reverse order."""
    return lambda right, left: function(left, right)


# Create the class at import: jaxlib caches argument handling by the address of a class, even after
# the class was freed, and a later class may get the same address.
_outcome_type(PROGRAM_TRACER)
