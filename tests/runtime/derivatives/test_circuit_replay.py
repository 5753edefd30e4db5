"""bellhop_circuit_replay and its Jacobian, called as compiled programs do."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.runtime.circuit_calls import FACTORY, HANDLE, LIBRARY, call, f64

# RX(params[0]), RY(params[1]) on wire 0; then expval and variance of Z.
NAMES, GATES = "RX\nRY", np.array([0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0, 1, 0])
EXPVAL, VARIANCE = [0, 3, 0], [1, 3, 0]
PARAMS = np.array([0.4, 0.7])


def run_again(
    index: Any,
    amount: Any,
    *,
    target: str = "bellhop_circuit_replay",
    results: Any = None,
    code: Any = (*EXPVAL, *VARIANCE),
    record: int = 1,
    offset: int = 0,
    params: Any = PARAMS,
) -> Any:
    """Return what is measured of the circuit as it is, and of it at shifted parameters."""
    rows = len(index)

    @jax.jit
    def program(params: Any) -> Any:
        begin = {"qubits": 1, "shots": 0, "record": record, "tree": 0, "seeded": 0, "rows": 0}
        begin["engine"] = 1
        state = call(
            "bellhop_circuit_begin",
            HANDLE,
            library=LIBRARY,
            factory=FACTORY,
            kwargs="{}",
            name="circuit",
            site="here:1",
            **{name: np.int64(value) for name, value in begin.items()},
        )
        state = call(
            "bellhop_circuit_gates",
            HANDLE,
            state,
            PARAMS,
            jnp.int32(offset),
            jnp.zeros(0, np.int32),
            names=NAMES,
            code=GATES,
            constants=np.zeros(0),
        )
        state, *again = call(
            target,
            (HANDLE, *(results or [f64(rows), f64(rows)])),
            state,
            np.zeros(0),
            params,
            np.asarray(index, np.int32),
            np.asarray(amount, np.float64),
            code=np.asarray(code, np.int64),
        )
        state, value = call(
            "bellhop_circuit_measure",
            (HANDLE, f64()),
            state,
            np.zeros(0),
            code=np.array(EXPVAL),
            jacobian=np.int64(0),
        )
        call("bellhop_circuit_end", (), state)
        return value, again

    return program(params)


def test_values_at_shifted_parameters() -> None:
    index, amount = [[0, 1], [1, 1], [0, 0]], [[0.1, 0.2], [0.3, -0.5], [0.0, 0.0]]
    value, (means, variances) = run_again(index, amount)
    shifted = np.array([[0.5, 0.9], [0.4, 0.5], [0.4, 0.7]])
    expected = np.prod(np.cos(shifted), axis=1)
    np.testing.assert_allclose(value, np.prod(np.cos(PARAMS)), atol=1e-12)
    np.testing.assert_allclose(means, expected, atol=1e-12)
    np.testing.assert_allclose(variances, 1 - expected**2, atol=1e-12)


def test_jacobians_at_shifted_parameters() -> None:
    target = "bellhop_circuit_replay_jacobian"
    options = {"target": target, "results": [f64(2, 1, 2)], "code": EXPVAL}
    _, (jacobians,) = run_again([[0], [1]], [[0.1], [0.3]], **options)
    for jacobian, (x, y) in zip(jacobians, [(0.5, 0.7), (0.4, 1.0)], strict=True):
        expected = [[-np.sin(x) * np.cos(y), -np.cos(x) * np.sin(y)]]
        np.testing.assert_allclose(jacobian, expected, atol=1e-12)


def test_parameters_that_are_not_differentiable_stay() -> None:
    _, (means, _) = run_again([[0]], [[0.3]], offset=-1)
    np.testing.assert_allclose(means, [np.prod(np.cos(PARAMS))], atol=1e-12)


def test_no_rows() -> None:
    empty = np.zeros((0, 1))
    _, (means, variances) = run_again(empty, empty)
    assert means.shape == variances.shape == (0,)


def test_many_rows() -> None:
    rows = 4000
    index, amount = np.tile([[0], [1]], (rows // 2, 1)), np.linspace(-1, 1, rows)[:, None]
    _, (means, _) = run_again(index, amount)
    shifted = np.tile(PARAMS, (rows, 1))
    shifted[np.arange(rows), index[:, 0]] += amount[:, 0]
    np.testing.assert_allclose(means, np.prod(np.cos(shifted), axis=1), atol=1e-12)


ERRORS = {
    "not recorded": ({"record": 0}, "it was not begun with record = 1"),
    "parameter that is not there": ({"index": [[2]]}, "parameter 2 of 2 is shifted"),
    "negative parameter": ({"index": [[-1]]}, "parameter -1 of 2 is shifted"),
    "too few parameters": ({"params": PARAMS[:1], "index": [[0]]}, "uses 2 parameters"),
    "offset past the parameters": ({"offset": 3}, "expected at least 3 parameters, got 2"),
    "shifts that do not fit": ({"amount": [[0.1, 0.2]]}, "1 indices and 2 amounts of shifts"),
    "state": (
        {"code": [3], "results": [jax.ShapeDtypeStruct((1, 2), np.complex128)]},
        "expected type f64",
    ),
    "jacobian of a wrong shape": (
        {
            "target": "bellhop_circuit_replay_jacobian",
            "results": [f64(1, 2, 2)],
            "code": EXPVAL,
        },
        "expected 2 numbers for its Jacobians, got 4",
    ),
    "jacobian of a variance": (
        {
            "target": "bellhop_circuit_replay_jacobian",
            "results": [f64(1, 1, 2)],
            "code": VARIANCE,
        },
        "expected a Jacobian with 1 rows, and 0 expectation values were measured",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(name: str) -> None:
    options, message = ERRORS[name]
    given: dict[str, Any] = {"index": [[0]], "amount": [[0.1]], **options}
    with pytest.raises(RuntimeError, match=message):
        run_again(**given)
    # Later circuits work.
    run_again([[0]], [[0.1]])
