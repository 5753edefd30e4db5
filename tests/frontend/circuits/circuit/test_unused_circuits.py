"""Circuits whose results nobody uses: those without effects do not run."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(x: Any) -> Any:
    qml.RX(x[0], wires=0)
    qml.RY(x[1], wires=1)
    return qml.expval(qml.Z(0) @ qml.Z(1))


X, V = np.array([0.4, 0.7]), np.array([0.3, -0.2])


def product(x: Any) -> Any:
    """Return what the circuit does."""
    return jnp.cos(x[0]) * jnp.cos(x[1])


def jitted(f: Any) -> Any:
    return jax.jit(lambda x: (f(x), 2 * x))


# A program of the circuit, or of what it computes, and how often that runs.
PROGRAMS: dict[str, tuple[Any, int]] = {
    "not used": (lambda f: lambda x: (f(x), x)[1], 0),
    "in a jit": (lambda f: lambda x: jitted(f)(x)[1], 0),
    "in a branch": (
        lambda f: lambda x: jax.lax.cond(x[0] > 0, jitted(f), lambda x: (0.0, x), x)[1],
        0,
    ),
    "in a scan": (
        lambda f: lambda x: jax.lax.scan(lambda c, _: (2 * c, f(c)), x, None, length=3)[0],
        0,
    ),
    "carried by a loop": (
        lambda f: (
            lambda x: jax.lax.fori_loop(0, 3, lambda i, c: (2 * c[0], c[1] + f(c[0])), (x, 0.0))[0]
        ),
        0,
    ),
    "feeds what is not used": (lambda f: lambda x: (f(x * f(x)), x)[1], 0),
    "one of two": (lambda f: lambda x: (f(2 * x), f(x))[1], 1),
    "used": (lambda f: f, 1),
    "Hessian-vector product": (lambda f: lambda x: jax.jvp(jax.grad(f), (x,), (V,))[1], 1),
    "Hessian": (jax.hessian, 1),
}


def runs_of(profile: Any) -> int:
    return sum(row.calls for row in profile.rows if row.kind.startswith("circuit"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_how_often_a_circuit_runs(name: str) -> None:
    program, runs = PROGRAMS[name]
    f = bellhop.qjit(program(circuit))
    for _ in range(2):
        with bellhop.profile() as p:
            result = f(X)
        np.testing.assert_allclose(result, program(product)(X), atol=1e-10)
        assert runs_of(p) == runs


def shot(x: Any) -> Any:
    qml.RX(x[0], wires=0)
    return qml.sample(wires=0)


def measured(x: Any) -> Any:
    qml.RX(x[0], wires=0)
    return bellhop.measure(0)


def printed(x: Any) -> Any:
    bellhop.debug.print("runs")
    qml.RX(x[0], wires=0)
    return qml.expval(qml.Z(0))


@pytest.mark.parametrize(
    ("function", "shots"),
    [(shot, 5), (measured, None), (printed, None)],
    ids=["shots", "outcome", "print"],
)
def test_what_has_effects_runs(function: Any, shots: int | None, capfd: Any) -> None:
    """It draws, and what is drawn next depends on that, or prints."""
    node = qml.set_shots(qml.QNode(function, qml.device("lightning.qubit", wires=1)), shots)
    f = bellhop.qjit(lambda x: (node(x), x)[1])
    f(X)
    with bellhop.profile() as p:
        f(X)
    assert runs_of(p) == 1
    assert capfd.readouterr().out == ("runs\n" * 2 if function is printed else "")


def test_an_error_goes_with_the_circuit() -> None:
    """As that of a pure callback does."""

    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def flip(wire: Any) -> Any:
        qml.X(wire)
        return qml.expval(qml.Z(0))

    compiled = bellhop.qjit(flip)
    with pytest.raises(bellhop.CircuitError):
        compiled(5)
    for jit in (bellhop.qjit, jax.jit):
        assert jit(lambda wire: (compiled(wire), wire)[1])(5) == 5
