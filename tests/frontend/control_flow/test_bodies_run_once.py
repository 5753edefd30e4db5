"""Python runs a body once, and once more for wider types of what a loop carries, as in JAX."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.needs import STIM

import bellhop

DEVICES = ["lightning.qubit", "default.qubit", "default.mixed", "null.qubit"]
# What a loop begins with, one iteration, and how often Python runs that.
CARRIED: dict[str, tuple[Any, Callable[[Any], Any], int]] = {
    "float": (0.5, lambda x: x / 2, 1),
    "number": (1, lambda x: x * 2, 1),
    "bool": (True, jnp.logical_not, 1),
    "key": (jax.random.key(0), lambda key: jax.random.fold_in(key, 1), 1),
    "bool to int": (True, lambda x: x + 1, 2),
    "number to float": (0, lambda x: x + 0.5, 2),
    "int32 to int64": (np.int32(1), lambda x: x + jnp.int64(1), 2),
    "float to complex": (0.5, lambda x: x * 1j, 2),
}
Run = Callable[[Callable[[Any], Any], Any, Any], Any]
LOOPS: dict[str, Run] = {
    "for": lambda body, x, n: bellhop.for_loop(0, 3)(lambda i, x: body(x))(x),
    "long for": lambda body, x, n: bellhop.for_loop(0, 3000)(lambda i, x: body(x))(x),
    "computed for": lambda body, x, n: bellhop.for_loop(0, n)(lambda i, x: body(x))(x),
    "while": lambda body, x, n: bellhop.while_loop(lambda i, x: i < n)(
        lambda i, x: (i + 1, body(x))
    )(0, x),
    "branch in for": lambda body, x, n: bellhop.for_loop(0, 3)(
        lambda i, x: bellhop.cond(i < n, lambda: body(x), lambda: x)()
    )(x),
    "effect in for": lambda body, x, n: bellhop.for_loop(0, 3)(
        lambda i, x: (bellhop.debug.print("{}", i), body(x))[1]
    )(x),
}


def switch_of(switch: Any, x: Any) -> Any:
    switch.branch(1)(lambda: x)
    return switch()


CONDITIONALS: dict[str, Run] = {
    "cond": lambda body, x, n: bellhop.cond(n > 1, lambda: body(x), lambda: x)(),
    "switch": lambda body, x, n: switch_of(bellhop.switch(n)(lambda: body(x)), x),
}
REGIONS: dict[str, Run] = {
    "adjoint": lambda body, x, n: bellhop.adjoint(lambda: (LOOPS["for"](body, x, n), None)[1])(),
    "adjoint of computed": lambda body, x, n: bellhop.adjoint(
        lambda: (LOOPS["computed for"](body, x, n), None)[1]
    )(),
    "ctrl": lambda body, x, n: bellhop.ctrl(
        lambda: (LOOPS["while"](body, x, n), None)[1], control=1
    )(),
}


def runs_of(run: Run, carried: str, device: str) -> int:
    """Return how often Python runs the body of a construct in a circuit."""
    first, step, _ = CARRIED[carried]
    runs: list[Any] = []

    def body(x: Any) -> Any:
        runs.append(x)
        qml.S(0)
        return step(x)

    def circuit(n: Any) -> Any:
        run(body, first, n)
        return qml.expval(qml.Z(0))

    shots = 4 if device == "default.clifford" else None
    node = qml.set_shots(qml.QNode(circuit, qml.device(device, wires=2)), shots)
    bellhop.qjit(node)(2)
    return len(runs)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("carried", CARRIED)
@pytest.mark.parametrize("loop", [*LOOPS, *REGIONS])
def test_loops(loop: str, carried: str, device: str) -> None:
    assert runs_of((LOOPS | REGIONS)[loop], carried, device) == CARRIED[carried][2]


@STIM.mark
@pytest.mark.parametrize("carried", CARRIED)
@pytest.mark.parametrize("loop", ["for", "adjoint"])
def test_loops_of_stim(loop: str, carried: str) -> None:
    assert runs_of((LOOPS | REGIONS)[loop], carried, "default.clifford") == CARRIED[carried][2]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("carried", CARRIED)
@pytest.mark.parametrize("conditional", CONDITIONALS)
def test_conditionals(conditional: str, carried: str, device: str) -> None:
    """Branches need no wider types: their results are converted behind them."""
    assert runs_of(CONDITIONALS[conditional], carried, device) == 1


@pytest.mark.parametrize("carried", ["float", "number", "bool", "number to float"])
def test_loops_of_jax(carried: str) -> None:
    """JAX's loops around circuits run theirs as often."""
    first, step, _ = CARRIED[carried]
    node = qml.QNode(lambda: qml.expval(qml.Z(0)), qml.device("lightning.qubit", wires=1))
    every: list[list[Any]] = []

    def noted(loop: Callable[..., Any]) -> Callable[[], Any]:
        runs: list[Any] = []
        every.append(runs)
        return lambda: loop(lambda _, x: (runs.append(x), node(), step(x))[2])

    for loop in (
        lambda body: jax.lax.fori_loop(0, 3, body, first),
        lambda body: jax.lax.scan(lambda x, i: (body(i, x), i), first, jnp.arange(3))[0],
        lambda body: jax.lax.while_loop(lambda x: x < 0, lambda x: body(0, x), first),
        lambda body: bellhop.for_loop(0, 3)(body)(first),
    ):
        bellhop.qjit(noted(loop))()
    assert [len(runs) for runs in every] == [CARRIED[carried][2]] * 4


@pytest.mark.parametrize("device", DEVICES[:2])
@pytest.mark.parametrize("n", [3, None])
def test_wider_types_decide_what_a_body_does(n: int | None, device: str) -> None:
    """What was traced of the first types could not be widened: of a number, jnp.real is nothing."""

    def step(_: Any, k: Any, z: Any) -> tuple[Any, Any]:
        qml.RX(jnp.real(z), 0)
        return jnp.floor(k) + 0.75, jnp.real(z) + z * 1j

    def circuit(n: Any) -> Any:
        carried = bellhop.for_loop(0, n)(step)(1, 0.25)
        return *carried, qml.expval(qml.Z(0))

    node = qml.QNode(circuit, qml.device(device, wires=1))
    program = bellhop.qjit(lambda k: node(k if n is None else n))
    k, z, angle = 1.0, 0.25 + 0j, 0.0
    for _ in range(3):
        angle += z.real
        k, z = np.floor(k) + 0.75, z.real + z * 1j
    np.testing.assert_allclose(program(3), [k, z, np.cos(angle)])
