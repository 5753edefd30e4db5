"""Angles that are computed one by one in straight-line code, and compiled as vectors."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

ROWS = 5


def of_slices(x: Any, y: Any) -> Iterator[Any]:
    for i in range(ROWS):
        yield x[i, 1]
        yield x[i][0] * 2 + i
        yield x[-1 - i, i % 3] - y


def of_a_number(x: Any, y: Any) -> Iterator[Any]:
    for i in range(ROWS):
        yield y * i
        yield y
        yield qml.math.sin(y + i) ** 2 + x[0, 0]


def alternating(x: Any, y: Any) -> Iterator[Any]:
    for i in range(2 * ROWS):
        yield qml.math.cos(x[i // 2, 0]) * y if i % 2 else x[i // 2, 2] - 0.3 * i


def of_the_one_before(x: Any, y: Any) -> Iterator[Any]:
    angle = y
    for i in range(2 * ROWS):
        angle = qml.math.sin(angle) + x[i // 2, 1]
        yield angle


def running_sums(x: Any, y: Any) -> Iterator[Any]:
    first, second = 0.0, y
    for i in range(ROWS):
        first, second = first + x[i, 0], second * x[i, 1]
        yield first
        yield second


def of_rows(x: Any, y: Any) -> Iterator[Any]:
    for i in range(ROWS):
        yield qml.math.sum(x[i]) * y
        yield qml.math.where(x[i, 0] > 0.5, x[i, 0], y)


def of_elements(x: Any, y: Any) -> Iterator[Any]:
    for row in x:
        yield from row
    for column in x.T:
        for element in column:
            yield element * y


def nothing_alike(x: Any, y: Any) -> Iterator[Any]:
    yield x[0, 0]
    yield y
    yield qml.math.sin(y)
    yield y * x[1, 2]
    yield 0.3


ANGLES = [
    of_slices,
    of_a_number,
    alternating,
    of_the_one_before,
    running_sums,
    of_rows,
    of_elements,
    nothing_alike,
]


def circuit_of(angles: Callable[..., Iterator[Any]]) -> Callable[..., Any]:
    def circuit(x: Any, y: Any) -> Any:
        for k, angle in enumerate(angles(x, y)):
            (qml.RX, qml.RY, qml.RZ)[k % 3](angle, wires=k % 2)
            qml.CNOT(wires=[k % 2, 1 - k % 2])
        return qml.expval(qml.PauliZ(0)), qml.expval(qml.PauliX(1))

    return circuit


@pytest.fixture(scope="module")
def inputs() -> tuple[np.ndarray, float]:
    return np.random.default_rng(7).uniform(size=(ROWS, 3)), 0.7


@pytest.mark.parametrize("angles", ANGLES, ids=lambda angles: angles.__name__)
def test_values_and_derivatives(
    compare_derivative: Any, angles: Callable[..., Iterator[Any]], inputs: Any
) -> None:
    compare_derivative(circuit_of(angles), *inputs, wires=2)


def test_batches(lightning: Any, reference: Any, assert_close: Any, inputs: Any) -> None:
    x, y = inputs
    xs = np.stack([x, 2 * x, x - 1])
    compiled = bellhop.qjit(jax.vmap(lightning(circuit_of(alternating), 2), in_axes=(0, None)))
    expected = [reference(circuit_of(alternating), 2)(each, y) for each in xs]
    assert_close(compiled(jnp.asarray(xs), y), tuple(map(np.stack, zip(*expected, strict=True))))


def test_in_the_body_of_a_loop(lightning: Any, reference: Any, assert_close: Any, inputs: Any):
    def circuit(loop: Callable[..., Any], x: Any, y: Any) -> Any:
        def body(iteration: Any) -> None:
            for k, angle in enumerate(of_slices(x, y)):
                qml.RX(angle * y + iteration, wires=k % 2)
                qml.CNOT(wires=[0, 1])

        loop(body)
        return qml.expval(qml.PauliZ(0))

    compiled = lightning(lambda *args: circuit(lambda f: bellhop.for_loop(0, 3)(f)(), *args), 2)
    plain = reference(lambda *args: circuit(lambda f: list(map(f, range(3))), *args), 2)
    args = [qml.numpy.array(arg, requires_grad=True) for arg in inputs]
    value, derivative = bellhop.qjit(bellhop.value_and_grad(compiled, argnums=(0, 1)))(
        *map(jnp.asarray, inputs)
    )
    assert_close(value, plain(*inputs))
    assert_close(derivative, qml.grad(plain)(*args))


def test_in_a_branch(lightning: Any, reference: Any, assert_close: Any, inputs: Any) -> None:
    def gates(x: Any, y: Any) -> None:
        for k, angle in enumerate(of_rows(x, y)):
            qml.RX(angle, wires=k % 2)
            qml.CNOT(wires=[0, 1])

    def compiled(x: Any, y: Any) -> Any:
        bellhop.cond(y > 0)(lambda: gates(x, y))()
        return qml.expval(qml.PauliZ(0))

    def plain(x: Any, y: Any) -> Any:
        gates(x, y)
        return qml.expval(qml.PauliZ(0))

    actual = bellhop.qjit(lightning(compiled, 2))(*map(jnp.asarray, inputs))
    assert_close(actual, reference(plain, 2)(*inputs))


def test_effects_and_callbacks_between_them_stay(lightning: Any, reference: Any, inputs: Any):
    seen = []

    @bellhop.pure_callback
    def half(value: Any) -> float:
        return value / 2

    def circuit(x: Any, y: Any, half: Any, note: Any) -> Any:
        for i in range(ROWS):
            angle = half(x[i, 0]) + y * i
            note(angle)
            qml.RX(angle, wires=0)
            qml.CNOT(wires=[0, 1])
        return qml.expval(qml.PauliZ(0))

    def note(angle: Any) -> None:
        bellhop.debug.callback(lambda value: seen.append(float(value)))(angle)

    x, y = inputs
    compiled = bellhop.qjit(lightning(lambda x, y: circuit(x, y, half, note), 2))
    expected: list[float] = []
    plain = reference(lambda x, y: circuit(x, y, lambda v: v / 2, expected.append), 2)
    np.testing.assert_allclose(compiled(jnp.asarray(x), y), plain(x, y), atol=1e-9)
    np.testing.assert_allclose(sorted(seen), sorted(expected), atol=1e-12)


@pytest.mark.parametrize("angles", [of_slices, of_a_number, alternating, of_rows, of_elements])
def test_program_does_not_grow_with_the_gates(
    lightning: Any, monkeypatch: Any, angles: Callable[..., Iterator[Any]]
) -> None:
    """Compile time is that of the program's operations, nearly all of them in XLA."""

    def lines(rows: int) -> int:
        monkeypatch.setattr(f"{__name__}.ROWS", rows)
        function = bellhop.qjit(bellhop.grad(_first(lightning(circuit_of(angles), 2)), argnums=0))
        function(jnp.ones((rows, 3)), 0.7)
        text = function.mlir_opt.splitlines()
        return sum(not line.lstrip().startswith("//") for line in text)

    assert lines(24) <= 1.2 * lines(8)


def _first(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*args)[0]


@pytest.mark.large
def test_a_long_chain_is_computed_once(lightning: Any, reference: Any, assert_close: Any) -> None:
    """Its pieces are not vectors of the same depth, each element of which is computed again."""
    steps = 150

    def circuit(x: Any) -> Any:
        for k in range(steps):
            x = qml.math.sin(x) * 1.05
            qml.RX(x, wires=k % 2)
            qml.CNOT(wires=[0, 1])
        return qml.expval(qml.PauliZ(0))

    compiled, plain = (
        bellhop.qjit(bellhop.value_and_grad(lightning(circuit, 2))),
        reference(circuit, 2),
    )
    value, derivative = compiled(0.3)
    x = qml.numpy.array(0.3, requires_grad=True)
    assert_close(value, plain(x))
    assert_close(derivative, qml.grad(plain)(x))
    assert compiled.mlir.count("stablehlo.sine") == steps
