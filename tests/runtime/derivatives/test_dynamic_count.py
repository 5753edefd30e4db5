"""Derivatives by parameters whose number only the run knows, called as compiled programs do."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.runtime.circuit_calls import FACTORY, HANDLE, LIBRARY, f64

FIRST = 1 << 30
# RX(params[0]) on wire 0; the expectation values of Z and Y.
RX, EXPVALS = np.array([0, 0, 1, 1, 0, 0, 0]), np.array([0, 3, 0, 0, 2, 0])
ANGLES = [0.3, 0.5, 0.7]
SUM = sum(ANGLES)
BITS = {"bits": np.int64(24)}
COTANGENTS = np.array([[1.0, 0.0], [0.5, 2.0]])


def call(target: str, results: Any, *operands: Any, **attributes: Any) -> Any:
    target = f"bellhop_circuit_{target}"
    return jax.ffi.ffi_call(target, results, has_side_effect=True)(*operands, **attributes)


def run(read: Any, *, engine: int = 0) -> Any:
    """Run a circuit of one static-count and two dynamic-count gates, and read its derivative."""

    @jax.jit
    def program() -> Any:
        numbers = {"qubits": 1, "shots": 0, "record": 2, "tree": 0, "seeded": 0, "rows": 0}
        numbers["program"] = -1
        numbers |= {"engine": engine, "precision": 64}
        names = {"library": LIBRARY, "factory": FACTORY, "kwargs": "{}", "name": "c", "site": "h:1"}
        state = call("begin", HANDLE, **{k: np.int64(v) for k, v in numbers.items()}, **names)
        for offset, angle in zip([0, FIRST, FIRST + 1], ANGLES, strict=True):
            state = call(
                "gates",
                HANDLE,
                state,
                np.array([angle]),
                jnp.int32(offset),
                jnp.zeros(0, np.int32),
                names="RX",
                code=RX,
                constants=np.zeros(0),
            )
        values = (HANDLE, f64(), f64(), f64(2, 1))
        both = call("measure", values, state, np.zeros(0), code=EXPVALS, jacobian=np.int64(1))
        state, _, _, jacobian = both
        found = read(state)
        state = call("after", HANDLE, state, found)
        call("end", (), state)
        return jacobian, found

    return program()


def cotangents(state: Any, perturbation: Any, number: int, rows: int, count: int) -> Any:
    return call("cotangents", f64(rows, count), state, perturbation, jnp.int32(number))


@pytest.mark.parametrize("engine", [0, 1])
def test_products_with_the_derivative(engine: int) -> None:
    """Each angle turns about the same axis, so that all derivatives are those of the sum."""

    def read(state: Any) -> Any:
        perturbation = call("vjp", f64(2), state, COTANGENTS, jnp.int32(0), **BITS)
        # Of the last two there are no gates.
        both = cotangents(state, perturbation, FIRST, 2, 4)
        return jnp.concatenate([both, cotangents(state, perturbation, FIRST + 1, 2, 1)], axis=1)

    by_angle = np.array([-np.sin(SUM), -np.cos(SUM)])
    jacobian, found = run(read, engine=engine)
    np.testing.assert_allclose(jacobian, by_angle[:, None], atol=1e-12)
    products = COTANGENTS @ by_angle
    expected = np.stack([products, products, 0 * products, 0 * products, products], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_sum_of_proxies_is_one_of_products() -> None:
    def read(state: Any) -> Any:
        first = call("vjp", f64(1), state, COTANGENTS[:1], jnp.int32(0), **BITS)
        second = call("vjp", f64(1), state, COTANGENTS[1:] + 0 * first, jnp.int32(0), **BITS)
        perturbations = [first + 0 * second, second, first + second, 0 * second]
        return jnp.concatenate(
            [cotangents(state, perturbation, FIRST, 1, 2) for perturbation in perturbations]
        )

    _, found = run(read)
    one, other = COTANGENTS @ np.array([-np.sin(SUM), -np.cos(SUM)])
    expected = np.array([one, other, one + other, 0])
    np.testing.assert_allclose(found, np.stack([expected, expected], axis=1), atol=1e-12)


def test_a_proxy_that_there_is_not() -> None:
    def read(state: Any) -> Any:
        perturbation = call("vjp", f64(1), state, COTANGENTS[:1], jnp.int32(0), **BITS)
        return cotangents(state, perturbation + 1, FIRST, 1, 2)

    with pytest.raises(RuntimeError, match="loop's parameters were not computed"):
        run(read)


def test_more_products_than_a_proxy_names() -> None:
    def read(state: Any) -> Any:
        perturbation = jnp.zeros(1)
        for _ in range(25):
            perturbation = call(
                "vjp", f64(1), state, COTANGENTS[:1] + 0 * perturbation, jnp.int32(0), **BITS
            )
        return perturbation

    with pytest.raises(
        RuntimeError, match="differentiated and measured 25 times, expected at most 24"
    ):
        run(read)


@pytest.mark.parametrize(
    ("columns", "derivative", "message"),
    [
        (3, 0, "expected cotangents of 2 values, got 3"),
        (2, 1, "index of a stored derivative, below 1, got 1"),
    ],
)
def test_what_has_no_vjp(columns: int, derivative: int, message: str) -> None:
    def read(state: Any) -> Any:
        return call("vjp", f64(1), state, np.ones((1, columns)), jnp.int32(derivative), **BITS)

    with pytest.raises(RuntimeError, match=message):
        run(read)


def test_outcomes_are_kept() -> None:
    def read(state: Any) -> Any:
        for number, outcome in enumerate([True, False]):
            state = call("remember", HANDLE, state, jnp.array(outcome), jnp.int32(FIRST + number))
        bit = jax.ShapeDtypeStruct((), bool)
        found = [call("recall", bit, state, jnp.int32(FIRST + number)) for number in (1, 0)]
        return jnp.stack(found).astype(float)

    np.testing.assert_array_equal(run(read)[1], [0, 1])


def test_an_outcome_that_was_not_kept() -> None:
    def read(state: Any) -> Any:
        bit = jax.ShapeDtypeStruct((), bool)
        return call("recall", bit, state, jnp.int32(FIRST)).astype(float)

    with pytest.raises(RuntimeError, match="outcome .* was not recorded. Please report"):
        run(read)
