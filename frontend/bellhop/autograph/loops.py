"""Compiled ``for`` and ``while`` statements."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from malt.operators.variables import UndefinedReturnValue

from bellhop.autograph.containers import check_not_mutated
from bellhop.autograph.if_statements import FunctionResult, RetraceWithResult
from bellhop.autograph.settings import check_not_strict, fall_back, is_disabled
from bellhop.autograph.variables import (
    CarriedVariables,
    State,
    Unset,
    Variables,
    can_be_unset,
    describe_variable,
    is_array_like,
    is_return_flag,
    is_traced,
    is_undefined,
)
from bellhop.base.source import user_site
from bellhop.base.types import PyTree
from bellhop.control_flow.cond import cond
from bellhop.control_flow.for_loop import count_iterations, for_loop, range_element
from bellhop.control_flow.loop_carry import unwrap_carry
from bellhop.control_flow.progress import TrackedIterable
from bellhop.control_flow.scalars import as_integer
from bellhop.control_flow.while_loop import while_loop
from bellhop.errors import AutoGraphError

Body = Callable[..., None]
Test = Callable[[], Any]


class TracedRange:
    """A ``range`` with traced bounds, which only compiled loops can iterate over.

    Args:
        *bounds: arguments as for ``range``: stop; start and stop; or start, stop and step.

    Attributes:
        bounds: start, stop and step, as traced or Python integers.
    """

    def __init__(self, *bounds: Any) -> None:
        if len(bounds) > 3:
            raise TypeError(f"range takes at most 3 arguments, got {len(bounds)}.")
        start, stop, step = (*bounds, 1)[:3] if len(bounds) > 1 else (0, bounds[0], 1)
        self.bounds = (
            as_integer("range: the start", start),
            as_integer("range: the stop", stop),
            as_integer("range: the step", step),
        )

    def __iter__(self) -> Iterator[Any]:
        raise AutoGraphError(
            f"a range ({user_site()}) of dynamic length can only be used in a compiled for "
            "statement. Write a for statement over the range, or use bellhop.for_loop."
        )


def range_(*bounds: Any) -> Any:
    """Create a ``range`` in converted code, where its bounds may be traced.

    Args:
        *bounds: arguments of ``range``.

    Returns:
        a ``range``; a `TracedRange` if a bound is traced.
    """
    return TracedRange(*bounds) if any(map(is_traced, bounds)) else range(*bounds)


@dataclass
class TracedEnumerate:
    """An ``enumerate`` in converted code, whose iterable compiled loops can read.

    In Python it iterates like ``enumerate``.

    Attributes:
        iterable: the iterable whose elements are counted.
        start: index of the first element.
    """

    iterable: Any
    start: Any = 0

    def __iter__(self) -> Iterator[Any]:
        return enumerate(self.iterable, self.start)


@dataclass
class _Elements:
    """The elements over which a compiled ``for`` loop iterates, accessible by index.

    Attributes:
        length: number of elements, possibly traced.
        element: function that returns the element with an index, which may be traced.
        progress: description of the loop's progress bar; None for no bar.
    """

    length: Any
    element: Callable[[Any], Any]
    progress: str | None = None

    @property
    def is_static(self) -> bool:
        """Whether the number of elements is known during tracing."""
        return not is_traced(self.length)


def _find_elements(target: Any) -> _Elements | None:
    """Find the elements of an iterable over which a compiled loop can iterate.

    Args:
        target: iterable of a ``for`` statement: a range, an array or a sequence that JAX can
            convert to one, also within ``enumerate`` and ``progress``.

    Returns:
        the elements; None for other iterables, over which Python must iterate.
    """
    if isinstance(target, TracedEnumerate):
        inner = _find_elements(target.iterable)
        if inner is None:
            return None
        element = inner.element
        return _Elements(inner.length, lambda i: (target.start + i, element(i)), inner.progress)
    if isinstance(target, TrackedIterable):
        inner = _find_elements(target.iterable)
        if inner is not None:
            inner.progress = target.description
        return inner
    if isinstance(target, range):
        return _Elements(len(target), lambda i: range_element(i, target.start, target.step))
    if isinstance(target, TracedRange):
        start, _, step = target.bounds
        return _Elements(count_iterations(target.bounds), lambda i: range_element(i, start, step))
    if isinstance(target, list | tuple) and target:
        try:
            target = jnp.asarray(target)
        except (TypeError, ValueError):
            return None
    if isinstance(target, jax.Array | np.ndarray) and jnp.ndim(target) > 0:
        array = jnp.asarray(target)
        return _Elements(array.shape[0], lambda i: array[i])
    return None


def for_stmt(
    target: Any,
    extra_test: Test | None,
    body: Body,
    get_state: Callable[[], State],
    set_state: Callable[[State], None],
    names: Sequence[str],
    _: dict[str, Any],
) -> None:
    """Run a ``for`` statement, which is compiled if its iterable and body allow it.

    Rewritten code calls it in place of the statement. Loops over ranges, arrays and sequences that
    convert to arrays are compiled. Python runs loops over other iterables and under
    ``disable_autograph``, and, with a warning, loops of static length whose body cannot be
    compiled.

    Args:
        target: the iterable; the name of the argument is AutoGraph's.
        extra_test: returns whether to continue, for loops with ``break`` or ``return``; or None.
        body: runs the body for one element.
        get_state: returns the values of the variables that the body assigns.
        set_state: sets their values.
        names: names of these variables.
        _: AutoGraph's options of the loop, not used.

    Raises:
        AutoGraphError: in strict mode, if Python would run the loop. Any exception is raised again
            that prevents the compilation of a loop of dynamic length.
    """
    variables = Variables(names, get_state, set_state)
    elements = None if is_disabled() else _find_elements(target)
    if elements is None:
        reason = f"the loop iterates over {_describe_iterable(target)}, expected a range or array"
        if not is_disabled():
            check_not_strict("the for loop", reason)
        _run_python_loop(target, extra_test, body, reason)
        return
    before = variables.get()
    try:
        with check_not_mutated("for loop", body):
            after = _compile_with_result(
                variables, lambda: _compile_for_loop(elements, extra_test, body, variables)
            )
    except Exception as error:
        if not elements.is_static:
            raise
        variables.set(before)
        fall_back("the for loop", error)
        problem = str(error).partition("\n")[0].rstrip(".")
        reason = f"as a compiled loop it raised {type(error).__name__}: {problem}"
        _run_python_loop(target, extra_test, body, reason)
    else:
        variables.set(after)


def _describe_iterable(target: object) -> str:
    """Describe the user's iterable of a ``for`` statement for errors, such as ``a zip``."""
    while isinstance(target, TracedEnumerate | TrackedIterable):
        target = target.iterable
    if isinstance(target, list | tuple) and not target:
        return f"an empty {type(target).__name__}"
    return f"a {type(target).__name__}"


def _run_python_loop(
    target: Iterable[Any], extra_test: Test | None, body: Body, reason: str
) -> None:
    """Run a ``for`` statement in Python, element by element.

    Args:
        target: the iterable.
        extra_test: returns whether to continue, for loops with ``break`` or ``return``; or None.
        body: runs the body for one element.
        reason: why the statement is not compiled, a clause for errors.

    Raises:
        AutoGraphError: if `extra_test` returns a traced value.
    """
    for element in target:
        if extra_test is not None:
            should_continue = extra_test()
            if is_traced(should_continue):
                raise AutoGraphError(
                    f"the for loop at {user_site()} has a break or return under a traced condition "
                    f"but is not compiled: {reason}. Write a loop that can be compiled, or break "
                    "under a condition that is not traced."
                )
            if not should_continue:
                return
        body(element)


def _compile_for_loop(
    elements: _Elements, extra_test: Test | None, body: Body, variables: Variables
) -> State:
    """Trace a ``for`` statement into a loop; return the variables after the loop.

    Args:
        elements: the elements of the iterable.
        extra_test: returns whether to continue, for loops with ``break`` or ``return``; or None.
        body: runs the body for one element.
        variables: the variables that the body assigns.

    Raises:
        AutoGraphError: if a variable cannot be carried by the loop.
        RetraceWithResult: if the body returns from the function, to compile the loop again with a
            value for the result.
    """
    before, first = variables.get(), 0
    if elements.is_static and elements.length == 0:
        return before
    if any(map(is_undefined, before)) and elements.is_static and elements.length > 0:
        # Run the first iteration outside of the loop: it defines the variables and their types.
        before, first = variables.run(before, body, elements.element(0)), 1
    before = _define_variables("for loop", variables, before)
    carried = CarriedVariables(variables, before)

    def iterate(i: Any, leaves: Sequence[Any]) -> list[Any]:
        """Trace an iteration; return the loop-carried arrays after it, given the arrays before."""
        after = variables.run(carried.values(leaves), body, elements.element(i))
        _find_result(before, after)
        return carried.find_arrays(after)

    def is_unfinished(leaves: Sequence[Any]) -> Any:
        """Trace the test whether to continue, for the loop-carried arrays `leaves`."""
        assert extra_test is not None
        variables.set(carried.values(leaves))
        return extra_test()

    if extra_test is None or elements.is_static:

        def guarded(i: Any, *leaves: Any) -> Any:
            """Trace one iteration of the loop, which does nothing after a ``break``.

            Args:
                i: index of the iteration.
                *leaves: the loop-carried arrays before the iteration.

            Returns:
                the arrays after the iteration: a tuple; for one array the array, for none None.
            """
            if extra_test is None:
                return unwrap_carry(tuple(iterate(i, leaves)))
            should_continue = is_unfinished(leaves)
            # A loop with a static trip count has a derivative; iterations after a break are
            # skipped.
            result = cond(
                should_continue, lambda: tuple(iterate(i, leaves)), lambda: tuple(leaves)
            )()
            return unwrap_carry(tuple(result or ()))

        loop_over = for_loop(first, elements.length, progress=elements.progress)
        result = loop_over(guarded)(*carried.leaves)
    else:

        @while_loop(
            lambda i, *leaves: jnp.logical_and(i < elements.length, is_unfinished(leaves)),
            progress=elements.progress,
        )
        def loop(i: Any, *leaves: Any) -> Any:
            """Trace an iteration of a loop with dynamic trip count; also increment the index."""
            return (i + 1, *iterate(i, leaves))

        ended = loop(first, *carried.leaves)
        result = unwrap_carry(ended[1:]) if carried.leaves else None
    return carried.values(_as_sequence(result, len(carried.leaves)))


def while_stmt(
    test: Test,
    body: Body,
    get_state: Callable[[], State],
    set_state: Callable[[State], None],
    names: Sequence[str],
    _: dict[str, Any],
) -> None:
    """Run a ``while`` statement, which is compiled if its condition is a number.

    Rewritten code calls it in place of the statement. The condition of a compiled loop is traced
    once more before the loop: its Python side effects happen again, its callbacks are not called
    again. Python runs loops under ``disable_autograph`` and loops with other conditions, such as
    lists, and, with a warning, loops that cannot be compiled and whose first condition is not
    traced.

    Args:
        test: returns the condition.
        body: runs the body once.
        get_state: returns the values of the variables that the body assigns.
        set_state: sets their values.
        names: names of these variables.
        _: AutoGraph's options of the loop, not used.

    Raises:
        AutoGraphError: in strict mode, if a loop cannot be compiled. Any exception is raised again
            that prevents the compilation of a loop with a traced condition.
    """
    variables = Variables(names, get_state, set_state)
    if is_disabled():
        _run_python_while(test, body)
        return
    before = variables.get()
    first = _trace_and_discard(test)
    if not (is_traced(first) or isinstance(first, bool | int | float | np.generic | jax.Array)):
        # Only Python evaluates the truth of other objects, such as lists.
        while first:
            body()
            first = test()
        return
    variables.set(before)
    try:
        with check_not_mutated("while loop", body):
            after = _compile_with_result(variables, lambda: _compile_while(test, body, variables))
        after = _finish_endless_loop(test, variables, after)
    except Exception as error:
        if is_traced(first):
            raise
        variables.set(before)
        fall_back("the while loop", error)
        _run_python_while(test, body)
    else:
        variables.set(after)


def _trace_and_discard(test: Test) -> Any:
    """Trace the condition of a loop, without adding its operations to the program; return it."""
    conditions: list[Any] = []
    jax.make_jaxpr(lambda: conditions.append(test()))()
    return conditions[0]


def _run_python_while(test: Test, body: Body) -> None:
    """Run a ``while`` statement in Python."""
    while test():
        body()


def _compile_while(test: Test, body: Body, variables: Variables) -> State:
    """Trace a ``while`` statement into a loop; return the variables after the loop.

    Args:
        test: returns the condition.
        body: runs the body once.
        variables: the variables that the body assigns.

    Raises:
        AutoGraphError: if a variable cannot be carried by the loop.
        RetraceWithResult: if the body returns from the function, to compile the loop again with a
            value for the result.
    """
    before = _define_variables("while loop", variables, variables.get())
    carried = CarriedVariables(variables, before)

    def condition(*leaves: Any) -> Any:
        """Trace the condition for the loop-carried arrays."""
        variables.set(carried.values(leaves))
        return test()

    @while_loop(condition)
    def loop(*leaves: Any) -> Any:
        """Trace an iteration; return the loop-carried arrays after it."""
        after = variables.run(carried.values(leaves), body)
        _find_result(before, after)
        return unwrap_carry(tuple(carried.find_arrays(after)))

    return carried.values(_as_sequence(loop(*carried.leaves), len(carried.leaves)))


def _find_result(before: State, after: State) -> None:
    """Raise `RetraceWithResult` if an iteration of a loop returned from the function.

    `before` and `after` are the loop's variables before and after the iteration.
    """
    for position, (old, new) in enumerate(zip(before, after, strict=True)):
        if isinstance(old, UndefinedReturnValue) and new is not old and is_array_like(new):
            raise RetraceWithResult(position, FunctionResult.from_value(new))


def _compile_with_result(variables: Variables, compile_loop: Callable[[], State]) -> State:
    """Compile a loop in which the function may return; return the variables after it.

    If the function returns in the loop, the loop is compiled again with zeros as the function's
    result before the loop. The zeros are never read: later statements run only if the function has
    not returned.

    Args:
        variables: the variables that the loop's body assigns.
        compile_loop: compiles the loop; returns the variables after it, or raises
            `RetraceWithResult`.
    """
    before = variables.get()
    while True:
        variables.set(before)
        try:
            return compile_loop()
        except RetraceWithResult as result:
            before = _replace_item(before, result.position, result.value.with_zeros())


def _finish_endless_loop(test: Test, variables: Variables, after: State) -> State:
    """After a loop that can only end by a ``return``, make AutoGraph's return flag True.

    The statements after such a loop, for instance ``while True``, are then known not to run.

    Args:
        test: returns the condition of the loop.
        variables: the variables that the loop's body assigns.
        after: values of the variables after the loop.

    Returns:
        `after`, with True in place of the traced return flag if the loop is endless.
    """
    for position, name in enumerate(variables.names):
        if is_return_flag(name) and is_traced(after[position]):
            variables.set(_replace_item(after, position, False))
            if _trace_and_discard(test) is True:
                return _replace_item(after, position, True)
    return after


def _replace_item(state: State, position: int, value: object) -> State:
    """Return a copy of a tuple with another item at one position."""
    return (*state[:position], value, *state[position + 1 :])


def _define_variables(label: str, variables: Variables, values: State) -> State:
    """Replace values of variables that are missing before a loop by `Unset`.

    Args:
        label: name of the statement, for errors.
        variables: the variables that the loop's body assigns.
        values: values of the variables before the loop.

    Returns:
        the values, with `Unset` for missing values other than the function's result.

    Raises:
        AutoGraphError: for a missing value that the loop must carry.
    """

    def define(name: str, define: object) -> Any:
        """Return a variable's value, or `Unset` if the value is missing.

        Args:
            name: the name of the variable.
            define: its value before the loop, or AutoGraph's marker for a missing value.
        """
        if not is_undefined(define) or isinstance(define, UndefinedReturnValue):
            return define
        error = (
            f"{describe_variable(name, define)} has no value before the {label} at {user_site()}, "
            "which has a dynamic trip count and may run zero times. Assign a value before the "
            "loop."
        )
        if not can_be_unset(name):
            raise AutoGraphError(error)
        return Unset(name, error)

    return tuple(map(define, variables.names, values))


def _as_sequence(result: PyTree, count: int) -> Sequence[Any]:
    """Convert the result of a loop to a sequence of `count` values.

    `for_loop` and `while_loop` return a single value without a tuple, and None for no values.
    """
    if count == 0:
        return ()
    return (result,) if count == 1 else result
