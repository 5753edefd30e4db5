"""Random hybrid programs: loops, conditionals, callbacks and regions around and between gates.

What bellhop compiles is held against the same program run by Python on default.qubit, values
against values and gradients against finite differences of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import bellhop

GATES = {"RX": 1, "RY": 1, "PhaseShift": 1, "CRY": 2, "IsingXY": 2, "SingleExcitation": 2}
numbers = st.floats(-2, 2).map(lambda number: round(number, 2))


def gate(draw: Any) -> tuple[Any, ...]:
    name = draw(st.sampled_from(sorted(GATES)))
    wires = draw(st.permutations(range(2)))[: GATES[name]]
    return "gate", name, tuple(wires), draw(numbers), draw(st.integers(0, 1))


@st.composite
def statements(draw: Any, depth: int = 2) -> list[tuple[Any, ...]]:
    """Draw statements, which change one number and apply gates whose angles depend on it."""
    kinds = ["gate", "gate", "callback", "region", "arithmetic"]
    if depth:
        kinds += ["loop", "cond"]
    drawn: list[tuple[Any, ...]] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(kinds))
        inner = statements(depth - 1)
        if kind == "gate":
            drawn.append(gate(draw))
        elif kind == "loop":
            drawn.append((kind, draw(st.integers(0, 3)), draw(inner)))
        elif kind == "cond":
            drawn.append((kind, draw(numbers), draw(inner), draw(inner)))
        elif kind == "arithmetic":
            drawn.append((kind, draw(numbers), draw(st.integers(0, 1))))
        else:
            drawn.append((kind,))
    return drawn


@dataclass(frozen=True)
class Constructs:
    """What statements are made of."""

    for_loop: Callable[..., Any]
    cond: Callable[..., Any]
    callback: Callable[..., Any]
    region: Callable[..., Any]


@bellhop.pure_callback
def wave(y: Any) -> float:
    return np.sin(2 * y)


wave.jvp(lambda primals, tangents: (wave(*primals), 2 * jnp.cos(2 * primals[0]) * tangents[0]))

OURS = Constructs(
    bellhop.for_loop,
    bellhop.cond,
    wave,
    bellhop.accelerate(lambda y: jnp.cos(y) + y / 2, dev=jax.devices("cpu")[-1]),
)


def _loop(count: int) -> Callable[..., Any]:
    def decorate(body: Any) -> Any:
        def loop(y: Any) -> Any:
            for i in range(count):
                y = body(i, y)
            return y

        return loop

    return decorate


PYTHON = Constructs(
    _loop,
    lambda pred, first, second: first if pred else second,
    lambda y: np.sin(2 * y),
    lambda y: np.cos(y) + y / 2,
)


def run(
    program: list[tuple[Any, ...]], made_of: Constructs, x: Any, y: Any, margins: list[float]
) -> Any:
    """Run statements; return the number. ``margins`` gets how close conditions came to a change."""
    for kind, *details in program:
        if kind == "gate":
            name, wires, factor, index = details
            getattr(qml, name)(factor * y + x[index], wires=wires)
        elif kind == "arithmetic":
            y = details[0] * y * x[details[1]] + 0.1
        elif kind == "loop":
            count, body = details

            def iteration(i: Any, y: Any, body: Any = body) -> Any:
                return run(body, made_of, x, y + 0.05 * i, margins)

            y = made_of.for_loop(count)(iteration)(y)
        elif kind == "cond":
            threshold, first, second = details
            if made_of is PYTHON:
                margins.append(abs(y - threshold))
            branches = [
                lambda y, body=body: run(body, made_of, x, y, margins) for body in (first, second)
            ]
            y = made_of.cond(y > threshold, *branches)(y)
        else:
            y = getattr(made_of, kind)(y)
    return y


def hybrid(program: Any, made_of: Constructs, device: str, margins: list[float]) -> Any:
    @qml.qnode(qml.device(device, wires=2))
    def circuit(x: Any, y: Any) -> Any:
        qml.RY(x[1], 0)
        y = run(program, made_of, x, y, margins)
        qml.CNOT([0, 1])
        qml.RX(y, 1)
        return qml.expval(qml.Z(0) @ qml.Y(1)), qml.probs(wires=1)

    def whole(x: Any) -> Any:
        energy, probs = circuit(x, made_of.callback(x[0]))
        return made_of.region(energy + 2 * probs[0]) * x[1]

    return whole


def _slope(f: Callable[[float], Any], h: float = 2e-5) -> Any:
    """Return the derivative at zero, by central differences of the fourth order."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


@pytest.mark.large
@settings(max_examples=8)
@given(statements(), st.tuples(numbers, numbers))
def test_program(program: Any, point: Any) -> None:
    margins: list[float] = []
    reference = hybrid(program, PYTHON, "default.qubit", margins)
    x = np.array(point)
    expected = reference(x)
    # A condition that is about to change has no derivative.
    assume(min(margins, default=1.0) > 1e-2)
    slope = [_slope(lambda t, step=step: reference(x + t * step)) for step in np.eye(2)]
    ours = hybrid(program, OURS, "lightning.qubit", [])
    value, gradient = bellhop.qjit(bellhop.value_and_grad(ours))(jnp.array(x))
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-6)
