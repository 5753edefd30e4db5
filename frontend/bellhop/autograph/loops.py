"""``for`` and ``while`` of converted functions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from malt.operators.variables import UndefinedReturnValue

from bellhop.autograph.containers import check_not_mutated
from bellhop.autograph.if_statements import FunctionResult, KnownResult
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
    """A ``range`` with bounds that the program computes."""

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
            f"a range ({user_site()}) whose length the program computes can only be looped over by "
            "a compiled for statement."
        )


def range_(*bounds: Any) -> Any:
    """Return ``range``, also of bounds that the program computes."""
    return TracedRange(*bounds) if any(map(is_traced, bounds)) else range(*bounds)


@dataclass
class TracedEnumerate:
    """An ``enumerate`` that knows what it enumerates."""

    iterable: Any
    start: Any = 0

    def __iter__(self) -> Iterator[Any]:
        return enumerate(self.iterable, self.start)


@dataclass
class _Elements:
    """What a loop goes over.

    Attributes:
        length: the number of elements, which the program may compute.
        element: returns one by its number.
        progress: the description of the loop's bar, if it has one.
    """

    length: Any
    element: Callable[[Any], Any]
    progress: str | None = None

    @property
    def is_static(self) -> bool:
        return not is_traced(self.length)


def _find_elements(target: Any) -> _Elements | None:
    """Return the elements of what a compiled loop can go over, or None."""
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
    """Run a ``for`` statement; AutoGraph defines the interface.

    Ranges, arrays and what becomes an array are compiled as loops; over anything else Python
    loops, as it also does where the body cannot be compiled.
    """
    variables = Variables(names, get_state, set_state)
    elements = None if is_disabled() else _find_elements(target)
    if elements is None:
        if not is_disabled():
            kind = type(target).__name__
            check_not_strict("the for loop", f"it goes over a {kind}, which is no range or array")
        _run_python_for(target, extra_test, body)
        return
    before = variables.get()
    try:
        with check_not_mutated("for loop", body):
            after = _compile_with_result(
                variables, lambda: _compile_for(elements, extra_test, body, variables)
            )
    except Exception as error:
        if not elements.is_static:
            raise
        variables.set(before)
        fall_back("the for loop", error)
        _run_python_for(target, extra_test, body)
    else:
        variables.set(after)


def _run_python_for(target: Iterable[Any], extra_test: Test | None, body: Body) -> None:
    for element in target:
        if extra_test is not None:
            goes_on = extra_test()
            if is_traced(goes_on):
                raise AutoGraphError(
                    f"the for loop at {user_site()} is left by break or return under a condition "
                    f"that the program computes, and what it goes over, {type(target).__name__}, "
                    "cannot be compiled as a loop. Loop over a range or an array."
                )
            if not goes_on:
                return
        body(element)


def _compile_for(
    elements: _Elements, extra_test: Test | None, body: Body, variables: Variables
) -> State:
    before, first = variables.get(), 0
    if elements.is_static and elements.length == 0:
        return before
    if any(map(is_undefined, before)) and elements.is_static and elements.length > 0:
        # The first iteration gives them values, of types that the others keep.
        before, first = variables.run(before, body, elements.element(0)), 1
    before = _define_variables("for loop", variables, before)
    carried = CarriedVariables(variables, before)

    def iterate(i: Any, leaves: Sequence[Any]) -> list[Any]:
        after = variables.run(carried.values(leaves), body, elements.element(i))
        _find_result(before, after)
        return carried.find_arrays(after)

    def is_unfinished(leaves: Sequence[Any]) -> Any:
        assert extra_test is not None
        variables.set(carried.values(leaves))
        return extra_test()

    if extra_test is None or elements.is_static:

        def guarded(i: Any, *leaves: Any) -> Any:
            if extra_test is None:
                return unwrap_carry(tuple(iterate(i, leaves)))
            holds = is_unfinished(leaves)
            # Of a known length, the loop has a derivative; what comes after a break is passed by.
            result = cond(holds, lambda: tuple(iterate(i, leaves)), lambda: tuple(leaves))()
            return unwrap_carry(tuple(result or ()))

        loop_over = for_loop(first, elements.length, progress=elements.progress)
        result = loop_over(guarded)(*carried.leaves)
    else:

        @while_loop(
            lambda i, *leaves: jnp.logical_and(i < elements.length, is_unfinished(leaves)),
            progress=elements.progress,
        )
        def loop(i: Any, *leaves: Any) -> Any:
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
    """Run a ``while`` statement; AutoGraph defines the interface."""
    variables = Variables(names, get_state, set_state)
    if is_disabled():
        _run_python_while(test, body)
        return
    before = variables.get()
    first = test()
    variables.set(before)
    is_number = is_traced(first) or isinstance(first, bool | int | float | np.generic | jax.Array)
    if not is_number:
        # The truth of a list, say, is Python's to tell.
        _run_python_while(test, body)
        return
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


def _run_python_while(test: Test, body: Body) -> None:
    while test():
        body()


def _compile_while(test: Test, body: Body, variables: Variables) -> State:
    before = _define_variables("while loop", variables, variables.get())
    carried = CarriedVariables(variables, before)

    def condition(*leaves: Any) -> Any:
        variables.set(carried.values(leaves))
        return test()

    @while_loop(condition)
    def loop(*leaves: Any) -> Any:
        after = variables.run(carried.values(leaves), body)
        _find_result(before, after)
        return unwrap_carry(tuple(carried.find_arrays(after)))

    return carried.values(_as_sequence(loop(*carried.leaves), len(carried.leaves)))


def _find_result(before: State, after: State) -> None:
    for position, (old, new) in enumerate(zip(before, after, strict=True)):
        if isinstance(old, UndefinedReturnValue) and new is not old and is_array_like(new):
            raise KnownResult(position, FunctionResult.from_value(new))


def _compile_with_result(variables: Variables, compiled: Callable[[], State]) -> State:
    """Compile a loop; where the function returns in it, begin with zeros for the result.

    Nobody reads them: what reads it stands in a conditional on having returned.
    """
    before = variables.get()
    while True:
        variables.set(before)
        try:
            return compiled()
        except KnownResult as result:
            before = _replace_item(before, result.position, result.value.with_zeros())


def _finish_endless_loop(test: Test, variables: Variables, after: State) -> State:
    """Return the variables after a loop that ends by a return alone: the function has returned."""
    for position, name in enumerate(variables.names):
        if is_return_flag(name) and is_traced(after[position]):
            variables.set(_replace_item(after, position, False))
            if test() is True:
                return _replace_item(after, position, True)
    return after


def _replace_item(state: State, position: int, value: object) -> State:
    return (*state[:position], value, *state[position + 1 :])


def _define_variables(label: str, variables: Variables, values: State) -> State:
    """Return the values of variables before a loop: what has none has none in it nor after it."""

    def value(name: str, value: object) -> Any:
        if not is_undefined(value) or isinstance(value, UndefinedReturnValue):
            return value
        error = (
            f"{describe_variable(name, value)} has no value before the {label} at {user_site()}, "
            f"whose "
            "length the program computes, so that it might have none after it. Give it one before "
            "the loop."
        )
        if not can_be_unset(name):
            raise AutoGraphError(error)
        return Unset(name, error)

    return tuple(map(value, variables.names, values))


def _as_sequence(result: PyTree, count: int) -> Sequence[Any]:
    """Return what a loop, or a conditional, returned as a sequence."""
    if count == 0:
        return ()
    return (result,) if count == 1 else result
