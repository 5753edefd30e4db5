"""Batches of circuits, called as compiled programs do."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.runtime.circuit_calls import FACTORY, HANDLE, LIBRARY, call, f64

# RX(params[0]) on the first dynamic wire, RY(params[1]) on wire 0; then the means of both Z.
NAMES, GATES = "RX\nRY", np.array([0, 0, 1, 1, 0, 0, -1, 1, 0, 1, 1, 0, 1, 0])
EXPVALS = np.array([0, 3, 0, 0, 3, 1])
STEPS = jax.ShapeDtypeStruct((), np.int32)
PARAMS = np.array([[0.1, 0.7], [-0.4, 0.2], [2.0, 0.0]])


def begin(rows: int, *, record: int = 0, tree: int = 0) -> Any:
    numbers = {"qubits": 2, "shots": 0, "record": record, "tree": tree, "seeded": 0, "rows": rows}
    numbers |= {"engine": 1, "precision": 64, "program": 0}
    texts = {"library": LIBRARY, "factory": FACTORY, "kwargs": "{}", "name": "c", "site": "here:1"}
    numbers_64 = {name: np.int64(value) for name, value in numbers.items()}
    return call("bellhop_circuit_begin", HANDLE, **texts, **numbers_64)


def gates(state: Any, params: Any, wires: Any) -> Any:
    return call(
        "bellhop_circuit_gates",
        HANDLE,
        state,
        params,
        jnp.int32(0),
        jnp.asarray(wires, np.int32),
        names=NAMES,
        code=GATES,
        constants=np.zeros(0),
    )


def measure(state: Any, *results: Any, jacobian: int = 0) -> Any:
    attributes = {"code": EXPVALS, "jacobian": np.int64(jacobian)}
    return call("bellhop_circuit_measure", (HANDLE, *results), state, np.zeros(0), **attributes)


def end(state: Any) -> None:
    call("bellhop_circuit_end", (), state)


def expected(params: Any, wire: int) -> Any:
    x, y = params
    on_same = np.cos(x) * np.cos(y), 1.0
    return on_same if wire == 0 else (np.cos(y), np.cos(x))


@pytest.mark.parametrize("wires", [[1], [[0], [1], [1]]], ids=["shared", "of each row"])
def test_rows_have_parameters_and_wires_of_their_own(wires: Any) -> None:
    @jax.jit
    def program(params: Any) -> Any:
        state, *values = measure(gates(begin(3), params, wires), f64(3), f64(3))
        end(state)
        return values

    of_rows = np.broadcast_to(wires, (3, 1))[:, 0]
    values = [expected(row, wire) for row, wire in zip(PARAMS, of_rows, strict=True)]
    np.testing.assert_allclose(np.stack(program(PARAMS), axis=1), values, atol=1e-12)
    # Parameters that all rows share.
    shared = [expected(PARAMS[0], wire) for wire in of_rows]
    np.testing.assert_allclose(np.stack(program(PARAMS[0]), axis=1), shared, atol=1e-12)


@pytest.mark.parametrize("rows", [0, 3], ids=["a circuit alone", "batch"])
def test_jacobians_come_with_the_values(rows: int) -> None:
    batch = (rows,) if rows else ()
    params = PARAMS if rows else PARAMS[0]

    @jax.jit
    def program(params: Any) -> Any:
        state = gates(begin(rows, record=2), params, [1])
        state, *results = measure(state, f64(*batch), f64(*batch), f64(*batch, 2, 2), jacobian=1)
        end(state)
        return results

    first, second, jacobian = program(params)
    x, y = np.moveaxis(params, -1, 0)
    np.testing.assert_allclose(first, np.cos(y), atol=1e-12)
    np.testing.assert_allclose(second, np.cos(x), atol=1e-12)
    zero = np.zeros_like(x)
    rows_of_both = np.stack(
        [np.stack([zero, -np.sin(y)], -1), np.stack([-np.sin(x), zero], -1)], -2
    )
    np.testing.assert_allclose(jacobian, rows_of_both, atol=1e-12)


def refused(program: Any, match: str) -> None:
    with pytest.raises(Exception, match=match):
        jax.block_until_ready(jax.jit(program)())


def test_what_is_refused() -> None:
    refused(lambda: end(begin(2, tree=3)), "postselections fail is not supported for a batch")
    refused(
        lambda: end(begin(2, tree=5)), "shots that share an execution are not supported for a batch"
    )
    refused(
        lambda: end(gates(begin(2), PARAMS, [0])),
        r"values of a batch: expected shape \[n\] or \[2, n\], got \[3, 2\]",
    )
    refused(
        lambda: call("bellhop_circuit_steps", (HANDLE, STEPS), begin(2, record=2)),
        "not supported for a batch of circuits: expected a single circuit",
    )
    refused(
        lambda: measure(gates(begin(2), PARAMS[0], [0]), f64(2), f64(2), f64(2), jacobian=1),
        "Jacobian of measured values: expected a result of type f64",
    )
    refused(
        lambda: gates(begin(2), PARAMS[:2, :1], [0]),
        "sequence of gates: expected 2 parameters, got 1",
    )
    # A row that fails is named by its number.
    refused(
        lambda: measure(gates(begin(2), PARAMS[:2], [[0], [7]]), f64(2), f64(2)),
        "Row 1 of a batch of 2",
    )
