"""Density matrices, purities and entropies after measurements: those of a mixture."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

DEVICES = ("default.qubit", "lightning.qubit")
WIRES = ("S", "A", "B")


def on(device: str, function: Callable[..., Any], **options: Any) -> Any:
    return qml.QNode(function, qml.device(device, wires=WIRES), **options)


def uncompiled(function: Callable[..., Any]) -> Any:
    # Without wires, since it defers measurements to others.
    return qml.QNode(function, qml.device("default.qubit"), mcm_method="deferred")


def prepare(x: Any, postselect: int | None = None) -> None:
    qml.RY(x, "S")
    qml.CNOT(["S", "A"])
    qml.RX(x / 2, "B")
    first = qml.measure("A", postselect=postselect, reset=True)
    qml.cond(first, qml.RX, qml.RY)(2 * x, "S")
    qml.CRY(x, ["S", "A"])
    qml.cond(qml.measure("S"), qml.RX)(x, "B")


def mixed(x: Any, postselect: int | None = None) -> dict[str, Any]:
    prepare(x, postselect)
    return {
        "density_matrix": qml.density_matrix(["B", "S"]),
        "purity": qml.purity(["S", "A"]),
        "vn_entropy": qml.vn_entropy(["A"], log_base=2),
        "mutual_info": qml.mutual_info(["S"], ["B", "A"]),
        "var": qml.var(qml.Y("B")),
    }


@pytest.mark.parametrize(("device", "postselect"), [(DEVICES[0], 1), (DEVICES[1], None)])
def test_values(device: str, postselect: int | None, assert_close: Any) -> None:
    compiled = jax.vmap(bellhop.qjit(on(device, lambda x: mixed(x, postselect))))
    angles = [0.7, 1.9]
    expected = [uncompiled(mixed)(x, postselect) for x in angles]
    for name, ours in compiled(jnp.array(angles)).items():
        assert_close(ours, np.stack([theirs[name] for theirs in expected]))


@pytest.mark.parametrize("device", DEVICES)
def test_teleportation(device: str, assert_close: Any) -> None:
    @bellhop.qjit
    @qml.qnode(qml.device(device, wires=WIRES))
    def teleport(x: Any) -> Any:
        qml.RY(x, "S")
        qml.H("A")
        qml.CNOT(["A", "B"])
        qml.CNOT(["S", "A"])
        qml.H("S")
        m0, m1 = qml.measure("S"), qml.measure("A")
        qml.cond(m1, qml.X)("B")
        qml.cond(m0, qml.Z)("B")
        return qml.density_matrix(wires=["B"])

    state = np.array([np.cos(0.35), np.sin(0.35)])
    assert_close(teleport(0.7), np.outer(state, state))


@pytest.mark.parametrize("device", DEVICES)
def test_in_a_loop(device: str, assert_close: Any) -> None:
    def turn(x: Any) -> None:
        qml.RY(x, "S")
        qml.CNOT(["S", "A"])
        qml.cond(qml.measure("A"), qml.RX)(0.3, "S")

    def looped(x: Any) -> Any:
        bellhop.for_loop(0, 3)(lambda _: turn(x))()
        return qml.density_matrix(["S"])

    def unrolled(x: Any) -> Any:
        for _ in range(3):
            turn(x)
        return qml.density_matrix(["S"])

    expected = uncompiled(unrolled)(0.7)
    assert_close(bellhop.qjit(on(device, looped))(0.7), expected)


def test_derivative(assert_close: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RY(x, "S")
        qml.CNOT(["S", "A"])
        qml.cond(qml.measure("A"), qml.RY)(x, "S")
        return qml.density_matrix(["S"]), qml.vn_entropy(["S"])

    def cost(x: Any) -> Any:
        matrix, entropy = on("default.qubit", circuit)(x)
        return jnp.real(matrix[0, 1]) + entropy

    def expected(x: float) -> Any:
        matrix, entropy = uncompiled(circuit)(x)
        return np.real(matrix[0, 1]) + entropy

    by_differences = (expected(0.7 + 1e-5) - expected(0.7 - 1e-5)) / 2e-5
    np.testing.assert_allclose(bellhop.qjit(bellhop.grad(cost))(0.7), by_differences, atol=1e-8)


def test_what_a_device_does_not_differentiate_the_program_does() -> None:
    purity = lambda x: (prepare(x), qml.purity(["S", "A"]))[1]
    slope = bellhop.qjit(bellhop.grad(on("lightning.qubit", purity)), engine="plugin")(0.7)
    expected = uncompiled(purity)
    by_differences = (expected(0.7 + 1e-5) - expected(0.7 - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, by_differences, atol=1e-8)


def test_effects_are_not_run_again_for_a_derivative() -> None:
    def purity(x: Any) -> Any:
        bellhop.debug.print("{}", x)
        prepare(x)
        return qml.purity(["S", "A"])

    with pytest.raises(bellhop.DifferentiableCompileError, match="qml.purity .*engine='plugin'"):
        bellhop.qjit(bellhop.grad(on("lightning.qubit", purity)), engine="plugin")(0.7)


@pytest.mark.parametrize("device", DEVICES)
def test_a_state_is_that_of_one_run(device: str, assert_close: Any) -> None:
    def circuit() -> Any:
        qml.H("S")
        qml.RX(0.3, "B")
        qml.measure("S")
        return qml.state()

    state = np.reshape(
        bellhop.qjit(on(device, circuit, mcm_method="single-branch-statistics"))(), (2, 2, 2, -1)
    )[..., 0]
    assert_close(np.abs(state).max(axis=0), np.outer([1, 0], np.cos([0.15, np.pi / 2 - 0.15])))
    hint = "mixture of states.* Return qml.density_matrix, or set mcm_method='single-branch"
    with pytest.raises(bellhop.CompileError, match=hint):
        bellhop.qjit(on(device, circuit))()
