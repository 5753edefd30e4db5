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
COTANGENTS = np.array([[1.0, 0.0], [0.5, 2.0]])


def call(target: str, results: Any, *operands: Any, **attributes: Any) -> Any:
    target = f"bellhop_circuit_{target}"
    return jax.ffi.ffi_call(target, results, has_side_effect=True)(*operands, **attributes)


def run(read: Any) -> Any:
    """Run a circuit of one counted and two uncounted gates, and read its derivative."""

    @jax.jit
    def program() -> Any:
        numbers = {"qubits": 1, "shots": 0, "record": 1, "tree": 0, "seeded": 0, "rows": 0}
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
                turns=np.int64(1),
            )
        values = (HANDLE, f64(), f64())
        state, *_ = call("measure", values, state, np.zeros(0), code=EXPVALS, jacobian=np.int64(0))
        state, jacobian = call("jacobian", (HANDLE, f64(2, 1)), state)
        found = read(state)
        state = call("after", HANDLE, state, found)
        call("end", (), state)
        return jacobian, found

    return program()


def weights(state: Any, token: Any, number: int, rows: int, count: int) -> Any:
    return call("weights", f64(rows, count), state, token, jnp.int32(number))


def test_products_with_the_derivative() -> None:
    """Each angle turns about the same axis, so that all derivatives are those of the sum."""

    def read(state: Any) -> Any:
        token = call("weigh", f64(2), state, COTANGENTS)
        # Of the last two there are no gates.
        both = weights(state, token, FIRST, 2, 4)
        return jnp.concatenate([both, weights(state, token, FIRST + 1, 2, 1)], axis=1)

    by_angle = np.array([-np.sin(SUM), -np.cos(SUM)])
    jacobian, found = run(read)
    np.testing.assert_allclose(jacobian, by_angle[:, None], atol=1e-12)
    products = COTANGENTS @ by_angle
    expected = np.stack([products, products, 0 * products, 0 * products, products], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_token_is_good_until_the_next() -> None:
    def read(state: Any) -> Any:
        first = call("weigh", f64(1), state, COTANGENTS[:1])
        second = call("weigh", f64(1), state, COTANGENTS[1:] + 0 * first)
        return weights(state, first + 0 * second, FIRST, 1, 2)

    with pytest.raises(jax.errors.JaxRuntimeError, match="that were not weighed last"):
        run(read)


def test_cotangents_of_other_measurements() -> None:
    def read(state: Any) -> Any:
        return call("weigh", f64(1), state, np.ones((1, 3)))

    with pytest.raises(
        jax.errors.JaxRuntimeError, match="of 2 expectation values is weighed with 3 numbers"
    ):
        run(read)
