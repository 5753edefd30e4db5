"""Statements in forms that AutoGraph alone does not convert, against Python."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop


def nested_expressions(x):
    return (10 if (1 if x > 2 else 0) == 1 else 20) if x > 1 else (30 if x > 0 else 40)


def matched(x):
    match x + 0:
        case 1:
            y = 10
        case 2 | 3:
            y = 15
        case _ if x > 50:
            return 16
        case None:
            y = 17
        case _:
            y = 20
    return y + 1


def return_in_an_elif(x):
    if x > 2:
        y = 1
    elif x > 1:
        return 7
    else:
        y = 2
    return y + 1


def endless(x):
    while True:
        x = 2 * x
        if x > 20:
            return x


def endless_with_a_break(x):
    while True:
        x = 2 * x - 5
        if x > 20:
            return x
        if x < 0:
            break
    return 0


def returned_from_a_loop(x):
    for i in range(x):
        if i * i > 2:
            return i
    return -1


@pytest.mark.parametrize(
    "function",
    [
        nested_expressions,
        matched,
        return_in_an_elif,
        endless,
        endless_with_a_break,
        returned_from_a_loop,
    ],
)
def test_values(function):
    with warnings.catch_warnings(action="error"):
        compiled = bellhop.qjit(function, autograph=True)
        for x in (1, 2, 3, 7, 60):
            assert compiled(x) == function(x)


def test_elements_are_swapped():
    def swapped(x):
        x[0], x[1] = x[1], x[0]
        (x[2], y), *rest = (x[0], 5.0), x[1], 2.0
        return x, y, rest

    x, *others = bellhop.qjit(swapped, autograph=True)(jnp.arange(3.0))
    expected, *expected_others = swapped(np.arange(3.0))
    np.testing.assert_array_equal(x, expected)
    assert others == expected_others


def test_patterns_that_look_inside_are_refused():
    def function(x):
        match x:
            case [a, _]:
                return a
        return x

    line = function.__code__.co_firstlineno + 1
    message = rf"{__file__}:{line}\) has the pattern \[a, _\], expected .*Write the statement with"
    with pytest.raises(bellhop.AutoGraphError, match=message):
        bellhop.qjit(function, autograph=True)(jnp.ones(2))


def _functions_of_branches(x):
    if x > 0:
        scale = x * 2

        def scaled(y):
            return scale * y

        x = scaled(x)
    else:
        offset = 1.0
        word = "less"
        x = (lambda y: y - offset)(x) + len(word)
    return x


def _functions_of_iterations(n):
    total = 0.0
    for i in range(n):
        square = i * 1.0

        def squared():
            return square * square  # noqa: B023

        total = total + squared()
    while total > 10:
        part = total / 2
        total = (lambda: part - 1)()  # noqa: B023
    return total


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(_functions_of_branches, (1.5, -1.5)), (_functions_of_iterations, (0, 1, 5))],
)
def test_what_inner_functions_read_need_not_outlive_the_branch_or_iteration(function, arguments):
    compiled = bellhop.qjit(function, autograph=True)
    for argument in arguments:
        np.testing.assert_allclose(compiled(argument), function(argument))


def test_who_reads_a_variable_without_a_value_gets_the_error():
    def read_later(x):
        if x > 0:
            y = x
        else:
            z = x  # noqa: F841

        def later():
            return y

        return later()

    with pytest.raises(
        bellhop.AutoGraphError, match="only one branch gives 'y'.* The variable is read at"
    ):
        bellhop.qjit(read_later, autograph=True)(1.0)


def _assigning_condition(n):
    w = last = 0
    while (w := w + 2) < n:
        if w == 6:
            continue
        last = w
        if w > 12:
            break
    return w, last


def test_the_condition_of_while_is_evaluated_once_for_each_iteration():
    seen = []

    @bellhop.io_callback
    def is_small(x) -> bool:
        seen.append(float(x))
        return x < 3

    @bellhop.qjit(autograph=True)
    def count(x):
        while is_small(x):
            x = x + 1
        return x

    @bellhop.qjit(autograph=True)
    def add_up(x):
        items = [1, 2, 3, 4]

        def shorten():
            items.pop()
            return items

        while shorten():
            x = x + 1
        return x

    assert count(0.0) == 3
    assert seen == [0, 1, 2, 3]
    assert add_up(0) == 3
    with jax.disable_jit():
        seen.clear()
        assert count(1.0) == 3
    assert seen == [1, 2, 3]


def test_a_condition_of_while_may_assign():
    compiled = bellhop.qjit(_assigning_condition, autograph=True)
    for n in (0, 7, 9, 40):
        assert compiled(n) == _assigning_condition(n)


def _assigns_in_and(x):
    return 0.0 if (y := x + 1) > 0 and y < 5 else y


def _assigns_in_a_branch(x):
    return (y := x + 1) if x > 0 else (y := x)  # noqa: F841


@pytest.mark.parametrize("function", [_assigns_in_and, _assigns_in_a_branch])
def test_an_assignment_in_what_becomes_a_function_is_refused(function):
    with pytest.raises(
        bellhop.AutoGraphError, match="is not converted by autograph. Write the assignment"
    ) as caught:
        bellhop.qjit(function, autograph=True)(1.0)
    assert f"{__file__}:{function.__code__.co_firstlineno + 1}" in str(caught.value)
