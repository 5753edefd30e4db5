"""qml.qjit(compiler="bellhop"), and what qml.* means inside compiled programs."""

import tomllib
from collections import defaultdict
from importlib.metadata import EntryPoint
from pathlib import Path

import jax
import numpy as np
import pennylane as qml
import pytest
from pennylane.compiler.compiler import AvailableCompilers

import bellhop

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Register what the project declares, as its installation does."""
    group = "pennylane.compilers"
    found = defaultdict(dict)
    for name, value in PROJECT["entry-points"][group].items():
        compiler, _, role = name.partition(".")
        found[compiler][role] = EntryPoint(name, value, group)
    monkeypatch.setattr(AvailableCompilers, "names_entrypoints", found)


def on(device, wires=3, **options):
    return lambda function: qml.QNode(function, qml.device(device, wires=wires), **options)


def test_every_role_of_a_compiler_is_declared():
    assert {*AvailableCompilers.names_entrypoints["bellhop"]} == {"context", "qjit", "ops"}


def test_qjit_by_the_name_of_the_compiler():
    f = qml.qjit(lambda x: x * 2, compiler="bellhop")
    assert isinstance(f, bellhop.QJIT)
    assert f(3.0) == 6.0

    @qml.qjit(compiler="bellhop", static_argnums=1)
    def g(x, n):
        return x * n

    assert g(2.0, 3) == 6.0


def test_the_compiler_is_active_while_tracing_only():
    seen = []

    @bellhop.qjit
    def f(x):
        seen.append(qml.compiler.active_compiler())
        bellhop.debug.callback(lambda _: seen.append(qml.compiler.active_compiler()))(x)
        return x

    f(1.0)
    assert seen == ["bellhop", None]
    assert not qml.compiler.active()


def loops(x, n):
    @qml.for_loop(0, n, 1)
    def loop(i):
        qml.RX(x * i, wires=0)
        qml.CNOT([0, 1])

    @qml.while_loop(lambda i: i < n)
    def again(i):
        qml.RY(x, wires=2)
        return i + 1

    loop()
    again(0)


def conditionals(x, n):
    qml.cond(x > 0.1, lambda: qml.RX(x, wires=0), lambda: qml.RY(x, wires=0))()
    qml.cond(n > 5, qml.Hadamard, qml.RZ, elifs=[(n > 2, qml.PauliX), (n > 1, qml.PauliY)])

    @qml.cond(n > 2)
    def choose():
        qml.RX(2 * x, wires=1)

    @choose.else_if(n > 1)
    def _():
        qml.RX(3 * x, wires=1)

    @choose.otherwise
    def _():
        qml.RX(4 * x, wires=1)

    choose()


def inverses_and_controls(x, n):
    qml.RX(x, wires=0)
    qml.adjoint(qml.S(1))
    qml.adjoint(qml.RY)(x, wires=1)
    qml.adjoint(lambda: [qml.Hadamard(1), qml.RZ(x, wires=1)])()
    qml.ctrl(qml.RX(x, wires=1), control=0)
    qml.ctrl(qml.RX, control=[0, 2], control_values=[1, 0])(x, wires=1)
    qml.ctrl(lambda: qml.Hadamard(2), control=0)()


@pytest.mark.parametrize("body", [loops, conditionals, inverses_and_controls])
def test_constructs_inside_circuits(body):
    def function(x, n):
        qml.Hadamard(0)
        body(x, n)
        return qml.expval(qml.Z(0) @ qml.Y(1)), qml.probs(wires=[1, 2])

    compiled = qml.qjit(on("lightning.qubit")(function), compiler="bellhop")
    for n in (0, 1, 3):
        expected = on("default.qubit")(function)(0.4, n)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9), compiled(0.4, n), expected
        )


def test_loops_are_loops():
    def function(x, n):
        loops(x, n)
        return qml.expval(qml.Z(0))

    f = bellhop.qjit(on("lightning.qubit")(function))
    f(0.4, 3)
    # Of blocks of iterations each, and the while loop has one within for the iterations of a block.
    assert f.mlir.count("stablehlo.while") == 3


def test_constructs_around_circuits():
    @on("lightning.qubit", wires=1)
    def circuit(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    @bellhop.qjit
    def f(x, n):
        total = qml.for_loop(0, n, 1)(lambda i, s: s + circuit(x * i))(0.0)
        total = qml.while_loop(lambda s: s < 10)(lambda s: s * 2)(total)
        return qml.cond(x > 0, lambda: total, lambda: -total)()

    expected = sum(np.cos(0.1 * i) for i in range(3))
    while expected < 10:
        expected *= 2
    np.testing.assert_allclose(f(0.1, 3), expected)


def test_derivatives():
    @on("lightning.qubit", wires=1)
    def circuit(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    @bellhop.qjit
    def f(x):
        return {
            "grad": qml.grad(circuit)(x),
            "argnums": qml.grad(circuit, argnums=0)(x),
            "jacobian": qml.jacobian(circuit)(x),
            "value": qml.value_and_grad(circuit)(x)[1],
            "jvp": qml.jvp(circuit, [x], [1.0])[1],
            "vjp": qml.vjp(circuit, [x], [1.0])[1],
            "fd": qml.grad(circuit, method="fd", h=1e-6)(x),
        }

    for name, value in f(0.3).items():
        np.testing.assert_allclose(value, -np.sin(0.3), atol=1e-6, err_msg=name)


def test_measure_and_conditionals_on_outcomes():
    def circuit(x):
        qml.RY(x, 0)
        m = qml.measure(0, reset=True)
        qml.cond(m, qml.RY)(x, wires=1)
        qml.cond(~m, qml.X)(2)
        n = qml.measure(1)
        return qml.expval(m + n), qml.probs(op=[m, n]), qml.probs(wires=[0, 1, 2])

    ours = qml.qjit(on("lightning.qubit")(circuit), compiler="bellhop")(0.7)
    for one, other in zip(ours, on("default.qubit", None)(circuit)(0.7), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
