"""Compiled ``if``, conditional expressions and logical operators."""

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from malt.operators.variables import UndefinedReturnValue

from bellhop.arguments.structure_difference import describe_structures
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
from bellhop.errors import AutoGraphError, format_value

Body = Callable[[], None]

# The last negation and its operand: in the branches of `if not x`, the value of x is known.
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
    """Run an ``if`` statement, which is compiled if the condition is traced.

    Rewritten code calls it for the statement. Python runs a branch if `pred` is not traced.

    Args:
        pred: the condition.
        body: runs the first branch.
        orelse: runs the second branch, which may be empty.
        get_state: returns the values of the variables that the branches assign.
        set_state: sets their values.
        names: names of these variables.
        _: AutoGraph's number of variables that are read later; not used.
    """
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
        except RetraceWithResult as missing:
            conditional.results[missing.position] = missing.value
        except _RetraceWithBothResults as differing:
            conditional.sides[differing.position] = differing.sides
        except _RetraceWithUnset as unset:
            conditional.unset |= unset.errors


class FunctionResult(NamedTuple):
    """Structure of a result that a converted function returns, with types in place of arrays.

    If only one branch of an ``if`` returns from the function, the other branch needs a result of
    the same structure: zeros, which are never read.

    Attributes:
        leaves: `jax.ShapeDtypeStruct` in place of arrays; other leaves as they are.
        tree: structure of the leaves, a ``PyTreeDef``, in which measurements are nodes.
    """

    leaves: list[Any]
    tree: Any

    @classmethod
    def from_value(cls, value: object) -> "FunctionResult":
        """Describe a result, a pytree, by replacing its arrays by their types."""
        leaves, tree = jax.tree.flatten(value)
        return cls(list(map(_leaf_shape, leaves)), tree)

    def with_zeros(self) -> Any:
        """Build a result of this structure, with zeros in place of arrays."""
        return _rebuild(self.tree, list(map(_leaf_zeros, self.leaves)))


def _rebuild(tree: PyTree, leaves: list[Any]) -> Any:
    """Unflatten a pytree, without queuing PennyLane's measurements that it contains."""
    if "pennylane" not in sys.modules:
        return jax.tree.unflatten(tree, leaves)
    from pennylane import QueuingManager

    with QueuingManager.stop_recording():
        return jax.tree.unflatten(tree, leaves)


def _leaf_shape(leaf: object) -> Any:
    """Return a `jax.ShapeDtypeStruct` for an array; return another leaf unchanged."""
    if not isinstance(leaf, jax.Array):
        return leaf
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


def _leaf_zeros(leaf: object) -> Any:
    """Return zeros for a `jax.ShapeDtypeStruct`; return another leaf unchanged."""
    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    return jnp.zeros(leaf.shape, leaf.dtype)


@dataclass(eq=False)
class RetraceWithResult(Exception):
    """Exception that makes `if_stmt` or a loop trace its statement again, with a known result type.

    It is raised when the type of the function's result becomes known, because one branch, or the
    body of a loop, returns from the function. Where the function does not return, it then gets
    zeros of this type as result.

    Attributes:
        position: index of the variable with the function's result.
        value: type and structure of the result.
    """

    position: int
    value: FunctionResult


@dataclass(eq=False)
class _RetraceWithBothResults(Exception):
    """Exception that makes `if_stmt` trace its branches again, for results with two measurements.

    It is raised when the branches return different measurements. Each branch then returns the
    values of both measurements, with zeros for the measurement of the other branch.

    Attributes:
        position: index of the variable with the function's result.
        sides: type and structure of the result of each branch.
    """

    position: int
    sides: list[FunctionResult]


@dataclass(eq=False)
class _RetraceWithUnset(Exception):
    """Exception that makes `if_stmt` trace its branches again, without some variables.

    It is raised when variables have incompatible values after the branches. The branches then do
    not return these variables, which become `Unset`.

    Attributes:
        errors: message for a later use of the variable, by index of the variable.
    """

    errors: dict[int, str]


class _IfStatement:
    """Traces an ``if`` statement with a traced condition into a conditional.

    `if_stmt` creates it and calls `run`. If `run` raises `RetraceWithResult`,
    `_RetraceWithBothResults` or `_RetraceWithUnset`, `if_stmt` stores the information in an
    attribute and calls `run` again.

    Args:
        pred: the condition, a tracer or an outcome of a measurement.
        variables: variables that the branches assign.
        bodies: functions that run the two branches.

    Attributes:
        results: for a branch that does not return from the function, the result's structure in the
            other branch, by index of the variable with the result.
        sides: measurements of each branch if they differ, by index of the result variable.
        unset: messages for variables with incompatible values, by index of the variable.
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
        """Trace both branches as a `cond`; return the values of the variables after the statement.

        Raises:
            RetraceWithResult, _RetraceWithBothResults, _RetraceWithUnset: to trace the branches
                again.
            AutoGraphError: if the program cannot select between the branches' values.
        """
        states: list[State] = []

        def branch(index: int) -> Callable[[], Any]:
            """Make the function of branch 0 (`pred` is true) or branch 1 that `cond` traces."""

            def run() -> Any:
                """Trace the branch; return for each variable a list of its arrays, or None.

                `_leaves` decides which arrays are returned, and None for variables without arrays.
                """
                # A circuit traces both branches a second time if one has a loop with a dynamic trip
                # count.
                del states[index:]
                after = self._variables.run(self._refine_variables(index), self._bodies[index])
                states.append(self._complete_result(after, states))
                if index == 1:
                    self._check(*states)
                # Mark measurements in the remaining variables as returned.
                values = states[index]
                if (measurements := _find_measurements()) is not None:
                    measurements.mark_returned(
                        [x for at, x in enumerate(values) if at not in self.unset]
                    )
                return [self._leaves(index, *item) for item in enumerate(values)]

            return run

        self._variables.set(self._before)
        results = cond(self._pred, branch(0), branch(1))()
        first_state, second_state = states
        if results is None:
            results = [None] * len(first_state)
        after = tuple(
            map(self._merge_variable, range(len(first_state)), first_state, second_state, results)
        )
        if (measurements := _find_measurements()) is not None:
            measurements.replace_measurements([first_state, second_state], after)
        return after

    def _leaves(self, index: int, position: int, value: object) -> list[Any] | None:
        """List the arrays in a variable's value that a branch of the conditional must return.

        Args:
            index: index of the branch, 0 or 1.
            position: index of the variable.
            value: the variable's value after the branch.

        Returns:
            the leaves of the value. If the branches' values are different measurements, the leaves
            of both values, with zeros in place of the other branch's. None if the branch does not
            return the variable, since it becomes `Unset` or has other leaves than arrays.
        """
        if position in self.unset or not is_array_like(value):
            return None
        if position not in self.sides:
            return jax.tree.leaves(value)
        values = [side.with_zeros() for side in self.sides[position]]
        values[index] = value
        return jax.tree.leaves(values)

    def _merge_variable(self, position: int, a: Any, b: Any, leaves: Any) -> Any:
        """Return a variable's value after the whole ``if`` statement.

        Args:
            position: index of the variable.
            a: its value after the first branch.
            b: its value after the second branch.
            leaves: the arrays that the compiled conditional selected for it, or None.

        Returns:
            the selected value; the branches' common value if it is static; or `Unset`. Of different
            measurements, the measurement that the condition selects.
        """
        if position in self.unset:
            return Unset(self._variables.names[position], self.unset[position])
        # A value that both branches share is static.
        if not is_array_like(a) or _is_same_pytree(a, b):
            return a
        if position not in self.sides:
            return _rebuild(jax.tree.structure(a), leaves or [])
        sides = _rebuild(jax.tree.structure([a, b]), leaves or [])
        return _find_measurements().select_measurements(self._pred, *sides)

    def _refine_variables(self, index: int) -> State:
        """Return the variables at the start of a branch, using the known truth of the condition.

        In branch 0 of ``if x:``, the variable ``x`` is True, and in branch 1 False; in branch 0 of
        ``if not x:`` it is False.
        """

        def value(variable: Any) -> Any:
            """Return True or False if the branch decides a variable, else the variable itself."""
            if variable is self._pred:
                return index == 0
            if self._negated is not None and variable is self._negated:
                return index == 1
            return variable

        return tuple(map(value, self._before))

    def _complete_result(self, after: State, states: list[State]) -> State:
        """Replace missing values after a branch, which are never read, by zeros.

        Such values are the result of a function that has not returned, and missing variables after
        a ``return`` (`_is_never_read`). A value whose type is not known from the other branch stays
        missing.

        Args:
            after: the variables after the branch.
            states: the variables after each branch that has been traced already; empty for the
                first branch.

        Returns:
            the variables after the branch, with the zeros.
        """
        completed = list(after)
        for position, value in enumerate(after):
            if not self._is_never_read(value, after):
                continue
            result = self.results.get(position)
            if states and is_array_like(states[0][position]):
                result = FunctionResult.from_value(states[0][position])
            if result is not None:
                completed[position] = result.with_zeros()
        return tuple(completed)

    def _is_never_read(self, value: object, after: State) -> bool:
        """Return whether a variable has no value after a branch, and the value is never read.

        True for the result of a function that has not returned, and for all variables without a
        value once the function has returned.

        Args:
            value: the variable's value after the branch.
            after: all variables after the branch, among them AutoGraph's flag for a ``return``.
        """
        if isinstance(value, UndefinedReturnValue):
            return True
        return is_undefined(value) and any(
            is_return_flag(name) and flag is True
            for name, flag in zip(self._variables.names, after, strict=True)
        )

    def _check(self, one: State, other: State) -> None:
        """Check that a conditional can select between the variables after each branch.

        Args:
            one: the variables after the first branch.
            other: the variables after the second branch.

        Raises:
            AutoGraphError: if it cannot, for a variable that needs a value.
            RetraceWithResult, _RetraceWithBothResults, _RetraceWithUnset: to trace the statement
                again.
        """
        unset = {}
        names = self._variables.names
        for position, (name, a, b) in enumerate(zip(names, one, other, strict=True)):
            if position in self.unset:
                continue
            if self._is_never_read(a, one) and is_array_like(b):
                raise RetraceWithResult(position, FunctionResult.from_value(b))
            problem = self._find_problem(position, describe_variable(name, a), a, b)
            if problem is None:
                continue
            error = f"the if at {user_site()}: {problem}"
            if not can_be_unset(name):
                raise AutoGraphError(error)
            unset[position] = error
        if unset:
            raise _RetraceWithUnset(unset)

    def _find_problem(self, position: int, label: str, a: Any, b: Any) -> str | None:
        """Find out why a conditional cannot select between two values of a variable.

        Args:
            position: index of the variable.
            label: description of the variable, for the message.
            a: value after the first branch.
            b: value after the second branch.

        Returns:
            sentences for an error; None if the values can be selected or are the same.

        Raises:
            _RetraceWithBothResults: if the values are different measurements that can be selected.
        """
        if is_undefined(a) != is_undefined(b):
            value = b if is_undefined(a) else a
            if self._variables.names[position].startswith("retval_"):
                if is_array_like(value):
                    return f"only one branch gives {label} a value. Return a value on every path."
                return (
                    f"{label} is {_describe_value(value)} after one branch only, expected arrays "
                    "or numbers. Return these on every path, or use a condition that is not traced."
                )
            return (
                f"only one branch gives {label} a value. Assign a value before the if, or in both "
                "branches."
            )
        if is_undefined(a) or is_same(a, b):
            return None
        if not (is_array_like(a) and is_array_like(b)):
            return (
                f"{label} is {_describe_value(a)} after one branch and {_describe_value(b)} after "
                "the other, expected arrays or numbers. Use numbers in their place, or a condition "
                "that is not traced."
            )
        structures = jax.tree.structure(a), jax.tree.structure(b)
        if structures[0] == structures[1] or position in self.sides:
            return None
        known = _find_measurements()
        is_measured = known is not None and known.has_measurements(a)
        if is_measured and known.can_select_between(a, b):
            raise _RetraceWithBothResults(
                position, [FunctionResult.from_value(a), FunctionResult.from_value(b)]
            )
        if is_measured and known.has_measurements(b):
            return (
                f"{label} is {a} after one branch and {b} after the other. Use the same "
                "measurement in both branches, or measure expectation values."
            )
        texts = describe_structures(*structures)
        return (
            f"{label} has the structure {texts[0]} after one branch and {texts[1]} after the "
            "other. Use the same structure in both branches."
        )


def _describe_value(value: object) -> str:
    """Describe a variable's value for errors, such as ``'a' of type str``."""
    if isinstance(value, jax.Array):
        return f"an array {jax.typeof(value)}"
    return f"{format_value(value)} of type {type(value).__name__}"


def _is_same_pytree(one: object, other: object) -> bool:
    """Return whether two values, of a variable after each branch, are identical or equal numbers.

    The values may be pytrees, which are compared leaf by leaf.
    """
    return is_same(one, other) or (
        jax.tree.structure(one) == jax.tree.structure(other)
        and all(map(is_same, jax.tree.leaves(one), jax.tree.leaves(other)))
    )


def _find_measurements() -> Any:
    """Import the module `returned_measurements`; None if PennyLane is not imported."""
    if "pennylane" not in sys.modules:
        return None
    from bellhop.circuits.front import returned_measurements

    return returned_measurements


def if_exp(pred: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], _: str) -> Any:
    """Evaluate a conditional expression, which is compiled if the condition is traced.

    Rewritten code calls it in place of ``a if pred else b``.

    Args:
        pred: the condition.
        if_true: returns the value of ``a``.
        if_false: returns the value of ``b``.
        _: source of the expression, from AutoGraph; not used.
    """
    if not is_traced(pred) or is_disabled():
        return if_true() if pred else if_false()
    return cond(pred, if_true, if_false)()


def _has_number_operands(first: Any, second: Any) -> bool:
    """Return whether both operands are scalars, of which the first is traced."""
    return isinstance(first, jax.core.Tracer) and all(
        isinstance(value, jax.Array | np.generic | bool | int | float | complex)
        and not jnp.shape(value)
        for value in (first, second)
    )


def and_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """Evaluate ``a and b`` in rewritten code; `a` and `b` return the operands.

    If the first operand is traced, both are evaluated. Scalars then give one of the operands, as in
    Python; arrays give the elementwise logical and, and measurement outcomes their ``&``.
    """
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
    """Evaluate ``a or b`` in rewritten code; `a` and `b` return the operands.

    If the first operand is traced, both are evaluated. Scalars then give one of the operands, as in
    Python; arrays give the elementwise logical or, and measurement outcomes their ``|``.
    """
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
    """Evaluate ``not a`` in rewritten code.

    If ``a`` is traced, it is stored with the result, so that in the branches of ``if not a`` the
    value of ``a`` is known.
    """
    if not is_traced(a):
        return not a
    result = jnp.logical_not(a) if isinstance(a, jax.core.Tracer) else ~a
    _last.negation = result, a
    return result
