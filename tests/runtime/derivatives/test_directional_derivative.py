"""Derivatives of any order in directions of dynamic-count parameters, called as programs do."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.runtime.circuit_calls import FACTORY, HANDLE, LIBRARY, f64
from tests.runtime.derivatives.test_dynamic_count import EXPVALS, FIRST, RX, call

# Of one static-count and three dynamic-count gates, which turn about the same axis: Z is the cosine
# of the sum, and Y less its sine.
ANGLES = np.array([0.3, 0.5, 0.7, 0.2])
SUM = ANGLES.sum()
# The variance of Z, which is sin^2 of the sum, and the mean of Z.
VARIANCE = np.array([1, 3, 0, 0, 3, 0])
HALF = np.array([0.5, -0.5])
QUARTER_TURNS = np.array([np.pi / 2, -np.pi / 2])
INTEGER = jax.ShapeDtypeStruct((), np.int32)
NO_SHIFT = np.zeros((1, 0), np.int32), np.zeros((1, 0))
PARTS = np.array([[1.0, 2.0, -0.5], [0.3, 0.0, 1.5]])


def run(read: Any) -> Any:
    """Run the circuit, with another gate after the place of the derivative."""

    @jax.jit
    def program() -> Any:
        numbers = {"qubits": 1, "shots": 0, "record": 1, "tree": 0, "seeded": 0, "rows": 0}
        numbers["engine"] = 1
        names = {"library": LIBRARY, "factory": FACTORY, "kwargs": "{}", "name": "c", "site": "h:1"}
        state = call("begin", HANDLE, **{k: np.int64(v) for k, v in numbers.items()}, **names)

        def gate(state: Any, offset: int, angles: Any, n: int = 1) -> Any:
            operands = (
                state,
                angles,
                jnp.int32(offset),
                np.zeros(0, np.int32),
                jnp.int32(n),
            )
            static = {"names": "RX", "code": RX, "constants": np.zeros(0)}
            return call("gates", HANDLE, *operands, **static)

        state = gate(state, 0, ANGLES[:1])
        state = gate(state, FIRST, ANGLES[1:], n=3)
        values = (HANDLE, f64(), f64())
        state, *_ = call("measure", values, state, np.zeros(0), code=EXPVALS, jacobian=np.int64(0))
        state, _ = call("jacobian", (HANDLE, f64(2, 1)), state)
        state, steps = call("steps", (HANDLE, INTEGER), state)
        state = gate(state, FIRST + 3, np.array([0.9]))
        found = read(state, steps)
        call("end", (), call("after", HANDLE, state, found))
        return found

    return program()


def direction(state: Any, proxy: Any, parts: Any, number: int = 0, bits: int = 53) -> Any:
    return call(
        "direction",
        f64(len(parts)),
        state,
        proxy,
        parts,
        jnp.int32(FIRST + number),
        bits=np.int64(bits),
    )


def derivative(
    state: Any,
    steps: Any,
    directions: Any,
    *,
    points: Any = NO_SHIFT,
    kept: bool = False,
    adjoint: bool = False,
    result: Any = None,
    measured: Any = (EXPVALS, [1, 1], [-1, -1]),
) -> Any:
    index, amount = points
    code, sizes, squares = measured
    return call(
        "directional_derivative",
        f64(len(directions), len(index), 2) if result is None else result,
        state,
        np.zeros(0),
        ANGLES[:1],
        HALF,
        QUARTER_TURNS,
        jnp.int32(0),
        steps,
        index,
        amount,
        directions,
        code=code,
        sizes=np.array(sizes),
        squares=np.array(squares),
        adjoint=np.int64(adjoint),
        kept=np.int64(kept),
    )


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_of_any_order(order: int, adjoint: bool) -> None:
    """At two points of the static-count parameter, and along the rows' directions."""
    shifts = np.zeros((2, 1), np.int32), np.array([[0.0], [0.4]])

    def read(state: Any, steps: Any) -> Any:
        proxies = direction(state, jnp.zeros(2), PARTS)
        first = jnp.stack([proxies] * order, axis=1)
        crossed = jnp.stack([proxies[::-1], *[proxies] * (order - 1)], axis=1)
        rows = jnp.concatenate([first, crossed])
        return derivative(state, steps, rows, points=shifts, adjoint=adjoint)

    slopes = PARTS.sum(axis=1)
    along = np.concatenate([slopes**order, slopes[::-1] * slopes ** (order - 1)])
    at = SUM + np.array([0.0, 0.4]) + order * np.pi / 2
    expected = np.stack([np.cos(at), -np.sin(at)], axis=1)
    np.testing.assert_allclose(run(read), along[:, None, None] * expected, atol=1e-12)


def test_the_first_may_be_kept() -> None:
    def read(state: Any, steps: Any) -> Any:
        proxies = direction(state, jnp.zeros(2), PARTS)
        return derivative(state, steps, proxies[:, None], kept=True)

    expected = PARTS.sum(axis=1)[:, None] * [-np.sin(SUM), -np.cos(SUM)]
    np.testing.assert_allclose(run(read)[:, 0], expected, atol=1e-12)


def test_of_variances_second_moments_are_differentiated() -> None:
    """That of Z is one, whatever the angles."""

    def read(state: Any, steps: Any) -> Any:
        proxies = direction(state, jnp.zeros(1), PARTS[:1])
        measured = (VARIANCE, [1, 1], [1, -1])
        return derivative(state, steps, proxies[:, None], measured=measured)

    expected = [0, -PARTS[0].sum() * np.sin(SUM)]
    np.testing.assert_allclose(run(read)[0, 0], expected, atol=1e-12)


def test_directions_are_sums_that_stay_as_they_are() -> None:
    """One is the beginning of two others, and nothing is the direction of zeros."""

    def read(state: Any, steps: Any) -> Any:
        begun = direction(state, jnp.zeros(1), PARTS[:1, :1])
        one = direction(state, begun, PARTS[:1, 1:], number=1)
        other = direction(state, begun, PARTS[1:, 1:], number=1)
        more = direction(state, other, PARTS[1:, :1])
        # After the place of the derivative, and of no gate at all.
        unused = direction(state, one, np.full((1, 5), 9.0), number=3)
        same = direction(state, begun, np.zeros((1, 3)))
        proxies = jnp.concatenate([begun, one, other, more, unused, same, jnp.zeros(1)])
        return derivative(state, steps, proxies[:, None])

    (a, b, c), (d, e, f) = PARTS
    expected = np.array([a, a + b + c, a + e + f, a + e + f + d, a + b + c, a, 0])
    expected = expected[:, None] * [-np.sin(SUM), -np.cos(SUM)]
    np.testing.assert_allclose(run(read)[:, 0], expected, atol=1e-12)


def beyond(state: Any, steps: Any) -> Any:
    return derivative(state, steps + 9, jnp.zeros((1, 1)))


def without_amounts(state: Any, steps: Any) -> Any:
    points = np.zeros((1, 1), np.int32), np.zeros((1, 0))
    return derivative(state, steps, jnp.zeros((1, 1)), points=points)


def of_another_circuit(state: Any, steps: Any) -> Any:
    return derivative(state, steps, jnp.full((1, 1), 3.0))


def of_counted_parameters(state: Any, _: Any) -> Any:
    return direction(state, jnp.zeros(1), PARTS[:1], number=-FIRST)


def of_other_rows(state: Any, _: Any) -> Any:
    return direction(state, jnp.zeros(3), PARTS)


def in_more_than_numbers_tell_apart(state: Any, steps: Any) -> Any:
    del steps
    for _ in range(3):
        proxy = direction(state, jnp.zeros(1), PARTS[:1], bits=1)
    return proxy


def in_no_direction(state: Any, steps: Any) -> Any:
    return derivative(state, steps, jnp.zeros((1, 0)))


def of_other_values(state: Any, steps: Any) -> Any:
    return derivative(state, steps, jnp.zeros((1, 1)), result=f64(1, 1, 3))


def kept_twice(state: Any, steps: Any) -> Any:
    return derivative(state, steps, jnp.zeros((1, 2)), kept=True)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (beyond, "asked for after step 11 of 3"),
        (without_amounts, "with 1 indices and 0 amounts"),
        (of_another_circuit, "of dynamic-count parameters is read that was not given"),
        (of_counted_parameters, "of dynamic-count parameters is read that was not given"),
        (of_other_rows, "3 directions are given 2 parts"),
        (in_more_than_numbers_tell_apart, "needs 2 directions, which numbers of"),
        (in_no_direction, "is asked for in no direction"),
        (of_other_values, "derivative of 2 numbers is asked for as 3"),
        (kept_twice, "derivative of 2 numbers is asked for as 4"),
    ],
)
def test_what_is_refused(read: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        run(read)
