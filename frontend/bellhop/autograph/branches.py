"""``if``, conditional expressions and logical operators of converted functions."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from malt.operators.variables import UndefinedReturnValue

from bellhop._source import user_site
from bellhop.autograph.containers import left_alone
from bellhop.autograph.modes import is_disabled
from bellhop.autograph.state import (
    State,
    Variables,
    described,
    is_array_like,
    is_same,
    is_traced,
    is_undefined,
)
from bellhop.control_flow.cond import cond
from bellhop.errors import AutoGraphError

Body = Callable[[], None]

# The last negation and what was negated: a condition that is `not x` says what x is.
_last = threading.local()


def if_stmt(
    pred: Any,
    body: Body,
    orelse: Body,
    get_state: Callable[[], State],
    set_state: Callable[[State], None],
    names: Sequence[str],
    _: int,
) -> None:
    """Run the branch of an ``if``; AutoGraph defines the interface."""
    if not is_traced(pred) or is_disabled():
        (body if pred else orelse)()
        return
    variables = Variables(names, get_state, set_state)
    conditional = _Conditional(pred, variables, (body, orelse))
    while True:
        try:
            with left_alone("if", body, orelse):
                after = conditional.run()
            variables.set(after)
            return
        except _ResultIsOf as missing:
            conditional.results[missing.position] = missing.value


class _ResultIsOf(Exception):
    """The function returns in the second branch, and the first must know what."""

    def __init__(self, position: int, value: Any) -> None:
        super().__init__()
        self.position = position
        self.value = jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), _dtype(x)), value)


def _dtype(x: Any) -> Any:
    return jnp.result_type(x)


class _Conditional:
    """An ``if`` whose condition the program computes.

    Attributes:
        results: for branches that do not return from the function what the other one returns,
            by the position of that variable.
    """

    def __init__(self, pred: Any, variables: Variables, bodies: Sequence[Body]) -> None:
        self.results: dict[int, Any] = {}
        self._pred = pred
        self._variables = variables
        self._bodies = bodies
        self._before = variables.get()
        negation, negated = getattr(_last, "negation", (None, None))
        self._negated = negated if negation is pred else None

    def run(self) -> State:
        """Return the variables after it."""
        states: list[State] = []

        def branch(number: int) -> Callable[[], Any]:
            def run() -> Any:
                # A circuit traces both branches anew where one has a loop of unknown length.
                del states[number:]
                after = self._variables.run(self._known(number), self._bodies[number])
                states.append(self._completed(after, states))
                if number == 1:
                    self._check(*states)
                return tuple(v if is_array_like(v) else None for v in states[number])

            return run

        self._variables.set(self._before)
        results = cond(self._pred, branch(0), branch(1))()
        one, other = states
        if results is None:
            return one
        # What both branches agree on is known without the program.
        return tuple(
            a if is_same(a, b) or not is_array_like(a) else result
            for a, b, result in zip(one, other, results, strict=True)
        )

    def _known(self, number: int) -> State:
        """Return the variables as a branch finds them, with what its condition says of them."""

        def value(variable: Any) -> Any:
            if variable is self._pred:
                return number == 0
            if self._negated is not None and variable is self._negated:
                return number == 1
            return variable

        return tuple(map(value, self._before))

    def _completed(self, after: State, states: list[State]) -> State:
        """Put zeros for the result of the function where this branch does not return.

        Nobody reads them: what comes next stands in a conditional on having returned.
        """
        completed = list(after)
        for position, value in enumerate(after):
            if not isinstance(value, UndefinedReturnValue):
                continue
            other = states[0][position] if states else self.results.get(position)
            if other is not None and not is_undefined(other) and is_array_like_shape(other):
                completed[position] = jax.tree.map(
                    lambda x: jnp.zeros(jnp.shape(x), getattr(x, "dtype", None) or _dtype(x)), other
                )
        return tuple(completed)

    def _check(self, one: State, other: State) -> None:
        where = f"the if at {user_site()}"
        for position, (name, a, b) in enumerate(
            zip(self._variables.names, one, other, strict=True)
        ):
            what = described(name, a)
            if isinstance(a, UndefinedReturnValue) and is_array_like(b):
                raise _ResultIsOf(position, b)
            if is_undefined(a) != is_undefined(b):
                raise AutoGraphError(
                    f"{where}: only one branch gives {what} a value. Give it one before, or in "
                    "both branches."
                )
            if is_undefined(a) or is_same(a, b):
                continue
            if not (is_array_like(a) and is_array_like(b)):
                raise AutoGraphError(
                    f"{where}: {what} is of type {type(a).__name__} after one branch and of "
                    f"{type(b).__name__} after the other. A compiled conditional chooses between "
                    "arrays and numbers only."
                )
            if jax.tree.structure(a) != jax.tree.structure(b):
                raise AutoGraphError(
                    f"{where}: {what} has the structure {jax.tree.structure(a)} after one branch "
                    f"and {jax.tree.structure(b)} after the other. Give it one structure."
                )


def is_array_like_shape(value: Any) -> bool:
    """Tell whether a value, or the shape of one, is a pytree of arrays."""
    leaves = jax.tree.leaves(value)
    return is_array_like(value) or all(isinstance(x, jax.ShapeDtypeStruct) for x in leaves)


def if_exp(pred: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], _: str) -> Any:
    """Return the value of a conditional expression."""
    if not is_traced(pred) or is_disabled():
        return if_true() if pred else if_false()
    return cond(pred, if_true, if_false)()


def _are_numbers(first: Any, second: Any) -> bool:
    """Tell whether ``and`` and ``or`` have one of the operands for a result, not a bool."""
    return isinstance(first, jax.core.Tracer) and all(
        isinstance(value, jax.Array | np.generic | bool | int | float | complex)
        and not jnp.shape(value)
        for value in (first, second)
    )


def and_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """Return ``a and b``; of values that the program computes, both are."""
    first = a()
    if not is_traced(first):
        return first and b()
    second = b()
    if _are_numbers(first, second):
        return jnp.where(first, second, first)
    if isinstance(first, jax.core.Tracer):
        return jnp.logical_and(first, second)
    return first & second


def or_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """Return ``a or b``; of values that the program computes, both are."""
    first = a()
    if not is_traced(first):
        return first or b()
    second = b()
    if _are_numbers(first, second):
        return jnp.where(first, first, second)
    if isinstance(first, jax.core.Tracer):
        return jnp.logical_or(first, second)
    return first | second


def not_(a: Any) -> Any:
    """Return ``not a``."""
    if not is_traced(a):
        return not a
    result = jnp.logical_not(a) if isinstance(a, jax.core.Tracer) else ~a
    _last.negation = result, a
    return result
