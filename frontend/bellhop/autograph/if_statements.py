"""``if``, conditional expressions and logical operators of converted functions."""

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from malt.operators.variables import UndefinedReturnValue

from bellhop.arguments.flat_tree import describe_structure
from bellhop.autograph.containers import check_not_mutated
from bellhop.autograph.settings import is_disabled
from bellhop.autograph.variables import (
    State,
    Unset,
    Variables,
    can_be_unset,
    describe_variable,
    is_array_like,
    is_return_flag,
    is_same,
    is_traced,
    is_undefined,
)
from bellhop.base.source import user_site
from bellhop.base.types import PyTree
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
    conditional = _IfStatement(pred, variables, (body, orelse))
    while True:
        try:
            with check_not_mutated("if", body, orelse):
                after = conditional.run()
            variables.set(after)
            return
        except KnownResult as missing:
            conditional.results[missing.position] = missing.value
        except _DifferingResults as differing:
            conditional.sides[differing.position] = differing.sides
        except _UnsetVariables as unset:
            conditional.unset |= unset.errors


class FunctionResult(NamedTuple):
    """What a function returns, without the values that the program computes.

    Attributes:
        leaves: shapes and types, or the values of what is known.
        tree: their structure, of which measurements are a part.
    """

    leaves: list[Any]
    tree: Any

    @classmethod
    def from_value(cls, value: object) -> "FunctionResult":
        """Return what is known of a pytree."""
        leaves, tree = jax.tree.flatten(value)
        return cls(list(map(_leaf_shape, leaves)), tree)

    def with_zeros(self) -> Any:
        """Return it with zeros where values are not known."""
        return _rebuild(self.tree, list(map(_leaf_zeros, self.leaves)))


def _rebuild(tree: PyTree, leaves: list[Any]) -> Any:
    """Return a pytree; measurements in it are no new ones of the circuit."""
    if "pennylane" not in sys.modules:
        return jax.tree.unflatten(tree, leaves)
    from pennylane import QueuingManager

    with QueuingManager.stop_recording():
        return jax.tree.unflatten(tree, leaves)


def _leaf_shape(leaf: object) -> Any:
    if not isinstance(leaf, jax.Array):
        return leaf
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


def _leaf_zeros(leaf: object) -> Any:
    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    return jnp.zeros(leaf.shape, leaf.dtype)


@dataclass(eq=False)
class KnownResult(Exception):
    """The function returns here, and what is traced next must know what."""

    position: int
    value: FunctionResult


@dataclass(eq=False)
class _DifferingResults(Exception):
    """The function measures something else in the second branch, and each must know what."""

    position: int
    sides: list[FunctionResult]


@dataclass(eq=False)
class _UnsetVariables(Exception):
    """What the branches give variables cannot be chosen from, so neither must return it."""

    errors: dict[int, str]


class _IfStatement:
    """An ``if`` whose condition the program computes.

    Attributes:
        results: for branches that do not return from the function what the other one returns,
            by the position of that variable.
        sides: what each branch measures for the result, where that differs, by position.
        unset: what is wrong with variables that it cannot choose, by position.
    """

    def __init__(self, pred: Any, variables: Variables, bodies: Sequence[Body]) -> None:
        self.results: dict[int, FunctionResult] = {}
        self.sides: dict[int, list[FunctionResult]] = {}
        self.unset: dict[int, str] = {}
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
                after = self._variables.run(self._refine_variables(number), self._bodies[number])
                states.append(self._complete_result(after, states))
                if number == 1:
                    self._check(*states)
                # Its variables have what it measured; what is unset afterwards is lost.
                values = states[number]
                if (known := _find_measurements()) is not None:
                    known.mark_returned([x for at, x in enumerate(values) if at not in self.unset])
                return [self._leaves(number, *item) for item in enumerate(values)]

            return run

        self._variables.set(self._before)
        results = cond(self._pred, branch(0), branch(1))()
        one, other = states
        if results is None:
            results = [None] * len(one)
        after = tuple(map(self._merge_variable, range(len(one)), one, other, results))
        if (known := _find_measurements()) is not None:
            known.replace_measurements([one, other], after)
        return after

    def _leaves(self, index: int, position: int, value: object) -> list[Any] | None:
        """Return the arrays of a variable after a branch, as both branches return them."""
        if position in self.unset or not is_array_like(value):
            return None
        if position not in self.sides:
            return jax.tree.leaves(value)
        values = [side.with_zeros() for side in self.sides[position]]
        values[index] = value
        return jax.tree.leaves(values)

    def _merge_variable(self, position: int, a: Any, b: Any, leaves: Any) -> Any:
        """Return a variable after it, from those after the branches and what was chosen."""
        if position in self.unset:
            return Unset(self._variables.names[position], self.unset[position])
        # What both branches agree on is known without the program.
        if not is_array_like(a) or _is_known(a, b):
            return a
        if position not in self.sides:
            return _rebuild(jax.tree.structure(a), leaves or [])
        sides = _rebuild(jax.tree.structure([a, b]), leaves or [])
        return _find_measurements().select_measurements(self._pred, *sides)

    def _refine_variables(self, index: int) -> State:
        """Return the variables as a branch finds them, with what its condition says of them."""

        def value(variable: Any) -> Any:
            if variable is self._pred:
                return index == 0
            if self._negated is not None and variable is self._negated:
                return index == 1
            return variable

        return tuple(map(value, self._before))

    def _complete_result(self, after: State, states: list[State]) -> State:
        """Put zeros for the result of the function where this branch does not return.

        Nobody reads them: what comes next stands in a conditional on having returned.
        """
        completed = list(after)
        for position, value in enumerate(after):
            if not self._is_never_read(value, after):
                continue
            other = self.results.get(position)
            if states and is_array_like(states[0][position]):
                other = FunctionResult.from_value(states[0][position])
            if other is not None:
                completed[position] = other.with_zeros()
        return tuple(completed)

    def _is_never_read(self, value: object, after: State) -> bool:
        """Tell whether a variable has no value after a branch, and nobody will ask for it."""
        if isinstance(value, UndefinedReturnValue):
            return True
        return is_undefined(value) and any(
            is_return_flag(name) and flag is True
            for name, flag in zip(self._variables.names, after, strict=True)
        )

    def _check(self, one: State, other: State) -> None:
        """Check that the program can choose between the values after each branch.

        Raises:
            AutoGraphError: where it cannot, of a variable that has to have a value.
            KnownResult, _DifferingResults, _UnsetVariables: where it can when it is traced again
            with this.
        """
        unset = {}
        names = self._variables.names
        for position, (name, a, b) in enumerate(zip(names, one, other, strict=True)):
            if position in self.unset:
                continue
            if self._is_never_read(a, one) and is_array_like(b):
                raise KnownResult(position, FunctionResult.from_value(b))
            problem = self._find_problem(position, describe_variable(name, a), a, b)
            if problem is None:
                continue
            error = f"the if at {user_site()}: {problem}"
            if not can_be_unset(name):
                raise AutoGraphError(error)
            unset[position] = error
        if unset:
            raise _UnsetVariables(unset)

    def _find_problem(self, position: int, label: str, a: Any, b: Any) -> str | None:
        """Tell why it cannot choose between two values of a variable, or None."""
        if is_undefined(a) != is_undefined(b):
            return (
                f"only one branch gives {label} a value. Give it one before, or in both branches."
            )
        if is_undefined(a) or is_same(a, b):
            return None
        if not (is_array_like(a) and is_array_like(b)):
            return (
                f"{label} is of type {type(a).__name__} after one branch and of {type(b).__name__} "
                "after the other. A compiled conditional chooses between arrays and numbers only."
            )
        structures = jax.tree.structure(a), jax.tree.structure(b)
        if structures[0] == structures[1] or position in self.sides:
            return None
        known = _find_measurements()
        is_measured = known is not None and known.has_measurements(a)
        if is_measured and known.can_select_between(a, b):
            raise _DifferingResults(
                position, [FunctionResult.from_value(a), FunctionResult.from_value(b)]
            )
        if is_measured and known.has_measurements(b):
            return (
                f"{label} is {a} after one branch and {b} after the other. Measure the same after "
                "both, or expectation values."
            )
        return (
            f"{label} has the structure {describe_structure(structures[0])} after one branch and "
            f"{describe_structure(structures[1])} after the other. Give it one structure."
        )


def _is_known(one: object, other: object) -> bool:
    """Tell whether two values are the same, and known when the program is traced."""
    return is_same(one, other) or (
        jax.tree.structure(one) == jax.tree.structure(other)
        and all(map(is_same, jax.tree.leaves(one), jax.tree.leaves(other)))
    )


def _find_measurements() -> Any:
    """Return what knows measurements in values; None where there are none."""
    if "pennylane" not in sys.modules:
        return None
    from bellhop.circuits.front import returned_measurements

    return returned_measurements


def if_exp(pred: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], _: str) -> Any:
    """Return the value of a conditional expression."""
    if not is_traced(pred) or is_disabled():
        return if_true() if pred else if_false()
    return cond(pred, if_true, if_false)()


def _has_number_operands(first: Any, second: Any) -> bool:
    """Tell whether ``and`` and ``or`` have one of the operands for a result, not a bool."""
    return isinstance(first, jax.core.Tracer) and all(
        isinstance(value, jax.Array | np.generic | bool | int | float | complex)
        and not jnp.shape(value)
        for value in (first, second)
    )


def and_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """Return ``a and b``; both are evaluated where the program computes the first."""
    first = a()
    if not is_traced(first):
        return first and b()
    second = b()
    if _has_number_operands(first, second):
        return jnp.where(first, second, first)
    if isinstance(first, jax.core.Tracer):
        return jnp.logical_and(first, second)
    return first & second


def or_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """Return ``a or b``; both are evaluated where the program computes the first."""
    first = a()
    if not is_traced(first):
        return first or b()
    second = b()
    if _has_number_operands(first, second):
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
