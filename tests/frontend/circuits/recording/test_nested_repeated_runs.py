"""Loops of loops of gates: the iterations of both in one call of the runtime."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.gate_counts import iterations_of_calls

import bellhop
from bellhop.circuits.backends.compiled.record import loop_precompute, traced_bodies

pytestmark = pytest.mark.usefixtures("loops_stay")

OUTER, INNER = 3, 5
Loop = Callable[..., Any]


def in_python(length: int) -> Loop:
    def loop(body: Callable[..., Any], *carried: Any) -> Any:
        for i in range(length):
            result = body(i, *carried)
            carried = (result,) if carried else ()
        return carried[0] if carried else None

    return loop


def compiled_loop(length: Any) -> Loop:
    return lambda body, *carried: bellhop.for_loop(0, length)(body)(*carried)


def nothing(*applied: Any) -> None:
    """What an iteration that carries nothing returns."""


def of_both_numbers(outer: Loop, inner: Loop, x: Any) -> None:
    def body(i: Any) -> None:
        def body(k: Any) -> None:
            qml.RX(x[0] * i + k, 0)
            qml.CNOT([0, 1])
            qml.RY(x[1] * k, 1)

        inner(body)

    outer(body)


def of_what_the_outer_carries(outer: Loop, inner: Loop, x: Any) -> None:
    def body(i: Any, angle: Any) -> Any:
        inner(lambda k: nothing(qml.RX(angle * k, 0), qml.CRY(angle, [0, 1])))
        return angle * x[0] + x[1]

    qml.RY(outer(body, x[0]), 0)


def of_what_the_inner_carries(outer: Loop, inner: Loop, x: Any) -> None:
    def body(k: Any, angle: Any) -> Any:
        qml.RX(angle, 0)
        qml.CRY(x[0] * k, [0, 1])
        return angle * x[1]

    # The inner loop ends where the next outer iteration begins.
    qml.RY(outer(lambda i, angle: inner(body, angle + i), x[0]), 1)


def on_computed_wires(outer: Loop, inner: Loop, x: Any) -> None:
    outer(lambda i: inner(lambda k: nothing(qml.RX(x[0] * k, i % 2), qml.CNOT([k % 2, 1 - k % 2]))))
    qml.RY(x[1], 0)


def in_three_loops(outer: Loop, inner: Loop, x: Any) -> None:
    def body(i: Any) -> None:
        outer(lambda j: inner(lambda k: nothing(qml.RX(x[0] * i + j - k, 0), qml.RY(x[1], 0))))

    outer(body)


ONE_CALL = [
    of_both_numbers,
    of_what_the_outer_carries,
    of_what_the_inner_carries,
    on_computed_wires,
]


def gates_before_the_inner(outer: Loop, inner: Loop, x: Any) -> None:
    outer(lambda i: nothing(qml.RY(x[1] * i, 0), inner(lambda k: nothing(qml.RX(x[0] * k, 0)))))


def gates_after_the_inner(outer: Loop, inner: Loop, x: Any) -> None:
    outer(lambda i: nothing(inner(lambda k: nothing(qml.RX(x[0] * k, 0))), qml.RY(x[1] * i, 0)))


def two_inner_loops(outer: Loop, inner: Loop, x: Any) -> None:
    def body(i: Any) -> None:
        inner(lambda k: nothing(qml.RX(x[0] * k, 0)))
        inner(lambda k: nothing(qml.RY(x[1] * i, 0)))

    outer(body)


APART = [gates_before_the_inner, gates_after_the_inner, two_inner_loops]


def circuit_of(gates: Any, outer: Loop, inner: Loop) -> Callable[[Any], Any]:
    def circuit(x: Any) -> Any:
        gates(outer, inner, x)
        return qml.expval(qml.PauliZ(0) @ qml.PauliY(1) + qml.PauliZ(1) + qml.PauliX(0))

    return circuit


POINT = np.array([0.4, 1.3])


@pytest.mark.parametrize(
    "gates", [*ONE_CALL, in_three_loops, *APART], ids=lambda gates: gates.__name__
)
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["known", "unknown"])
def test_value_and_derivatives(
    gates: Any, is_dynamic: bool, lightning: Any, reference: Any, assert_close: Any
) -> None:
    def results(x: Any, length: Any) -> Any:
        loops = compiled_loop(length if is_dynamic else OUTER), compiled_loop(INNER)
        ours = lightning(circuit_of(gates, *loops), 2)
        return ours(x), bellhop.grad(ours)(x)

    theirs = reference(circuit_of(gates, in_python(OUTER), in_python(INNER)), 2)
    expected = theirs(POINT), qml.grad(theirs)(qml.numpy.array(POINT, requires_grad=True))
    with pytest.MonkeyPatch.context() as patch:
        # The last block of outer iterations is not full.
        patch.setattr(loop_precompute, "_MAX_BLOCK_ITERATIONS", OUTER - 1)
        compiled = bellhop.qjit(results)
        assert_close(compiled(jnp.asarray(POINT), OUTER), expected)


@pytest.mark.parametrize("gates", ONE_CALL, ids=lambda gates: gates.__name__)
def test_nest_is_one_call(gates: Any, lightning: Any) -> None:
    loops = compiled_loop(OUTER), compiled_loop(INNER)
    function = bellhop.qjit(lightning(circuit_of(gates, *loops), 2))
    function(jnp.asarray(POINT))
    assert iterations_of_calls(function).count(OUTER * INNER) == 1
    assert INNER not in iterations_of_calls(function)


def test_three_loops_are_one_call(lightning: Any) -> None:
    loops = compiled_loop(OUTER), compiled_loop(INNER)
    function = bellhop.qjit(lightning(circuit_of(in_three_loops, *loops), 2))
    function(jnp.asarray(POINT))
    assert iterations_of_calls(function) == [OUTER * OUTER * INNER]
    assert "stablehlo.while" not in function.mlir_opt


@pytest.mark.parametrize("gates", APART, ids=lambda gates: gates.__name__)
def test_outer_loop_with_more_stays(gates: Any, lightning: Any) -> None:
    loops = compiled_loop(OUTER), compiled_loop(INNER)
    function = bellhop.qjit(lightning(circuit_of(gates, *loops), 2))
    function(jnp.asarray(POINT))
    assert INNER in iterations_of_calls(function)
    assert "stablehlo.while" in function.mlir_opt


def test_long_loops_are_not_held_at_once(lightning: Any, reference: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(traced_bodies, "_MAX_ITERATIONS_PER_CALL", OUTER * INNER - 1)
    loops = compiled_loop(OUTER), compiled_loop(INNER)
    function = bellhop.qjit(lightning(circuit_of(of_both_numbers, *loops), 2))
    expected = reference(circuit_of(of_both_numbers, in_python(OUTER), in_python(INNER)), 2)(POINT)
    np.testing.assert_allclose(function(jnp.asarray(POINT)), expected, atol=1e-9)
    assert iterations_of_calls(function) == [INNER]


@pytest.mark.parametrize("name", ["merge-loop-boundaries", "merge-rotations"])
def test_merged_at_the_boundaries(lightning: Any, reference: Any, name: str) -> None:
    def gates(outer: Loop, inner: Loop, x: Any) -> None:
        def body(k: Any) -> None:
            qml.RX(x[0] * k, 0)
            qml.CNOT([0, 1])
            qml.RX(x[1] + k, 0)

        outer(lambda i: inner(body))

    loops = compiled_loop(OUTER), compiled_loop(INNER)
    ours = bellhop.pipeline({name: {}})(lightning(circuit_of(gates, *loops), 2))
    compiled = bellhop.qjit(lambda x: (ours(x), bellhop.grad(ours)(x)))
    theirs = reference(circuit_of(gates, in_python(OUTER), in_python(INNER)), 2)
    value, gradient = compiled(jnp.asarray(POINT))
    np.testing.assert_allclose(value, theirs(POINT), atol=1e-9)
    expected = qml.grad(theirs)(qml.numpy.array(POINT, requires_grad=True))
    np.testing.assert_allclose(gradient, expected, atol=1e-9)


def test_output_of_an_inner_loop_stays_where_it_is(lightning: Any, capfd: Any) -> None:
    def body(i: Any) -> None:
        def body(k: Any) -> None:
            bellhop.debug.print("{} {}", i, k, ordered=True)
            qml.RX(0.1 * k, 0)

        bellhop.for_loop(0, 2)(body)()

    def circuit() -> Any:
        bellhop.for_loop(0, 2)(body)()
        return qml.expval(qml.PauliZ(0))

    bellhop.qjit(lightning(circuit, 1))()
    jax.effects_barrier()
    assert capfd.readouterr().out.split("\n")[:4] == ["0 0", "0 1", "1 0", "1 1"]
