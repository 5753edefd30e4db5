"""Outcomes as values: their arithmetic, and what a QNode returns of them."""

import itertools
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


@pytest.mark.subprocess
def test_the_class_of_outcomes_is_older_than_those_of_users() -> None:
    """jaxlib knows the classes of arguments by their addresses, and forgets none that is gone."""
    script = (
        "import gc, bellhop, jax, numpy as np, pennylane as qml\n"
        "gone = set()\n"
        "def use():\n"
        "    of_user = type('OfUser', (np.ndarray,), {})\n"
        "    gone.add(id(of_user))\n"
        "    jax.jit(lambda x: x + 1)(np.ones(2).view(of_user))\n"
        "for _ in range(20):\n"
        "    use()\n"
        "gc.collect()\n"
        "kinds = []\n"
        "@bellhop.qjit\n"
        "@qml.qnode(qml.device('lightning.qubit', wires=1))\n"
        "def circuit(x):\n"
        "    qml.RX(x, 0)\n"
        "    kinds.append(type(bellhop.measure(0)))\n"
        "    return qml.expval(qml.Z(0))\n"
        "tracers = jax.core.Tracer.__subclasses__()\n"
        "known = {id(kind) for tracer in tracers for kind in tracer.__subclasses__()}\n"
        "circuit(0.1)\n"
        "assert id(kinds[0]) not in gone and id(kinds[0]) in known, kinds\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_samples_and_counts_of_outcomes(lightning: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RY(x, wires=0)
        m0 = bellhop.measure(0)
        bellhop.cond(m0, qml.X)(1)
        m1 = bellhop.measure(1, reset=True)
        return (
            qml.sample(m0),
            qml.sample([m0, m1]),
            qml.sample(m0 + m1),
            qml.counts(m0),
            qml.counts([m0, m1]),
            qml.sample(wires=[0, 1]),
            qml.sample(qml.Z(0)),
        )

    node = qml.set_shots(lightning(circuit, wires=2), 50)
    m0, both, total, (values, counts), (indices, pairs), bits, signs = bellhop.qjit(node)(1.5)
    assert 5 < m0.sum() < 45
    np.testing.assert_array_equal(both, np.stack([m0, m0], axis=1))
    np.testing.assert_array_equal(total, 2 * m0)
    np.testing.assert_array_equal(values, [0, 1])
    np.testing.assert_array_equal(counts, [50 - m0.sum(), m0.sum()])
    np.testing.assert_array_equal(indices, range(4))
    np.testing.assert_array_equal(pairs, [50 - m0.sum(), 0, 0, m0.sum()])
    np.testing.assert_array_equal(bits, np.stack([m0, 0 * m0], axis=1))
    np.testing.assert_array_equal(signs, 1 - 2.0 * m0)


HALF = np.pi / 2

EXPRESSIONS = [
    "a + b",
    "a - b",
    "a * b",
    "a / 2",
    "1 - a",
    "2 * a + b",
    "-a",
    "a**2",
    "(1 - a) * 0.3",
    "~a",
    "~(a & b)",
    "~a + ~b",
    "(a & b) + (a | b)",
    "a ^ b",
    "a & True",
    "1 & a",
    "a == 1",
    "a == b",
    "(a == 1) + (b == 1)",
    "(a + b) == 2",
    "a > 0",
]


def test_arithmetic_of_outcomes_is_that_of_numbers(lightning: Any) -> None:
    @bellhop.qjit
    @lightning
    def circuit(x: Any, y: Any) -> Any:
        qml.BasisState(jnp.stack([x, y]), wires=[0, 1])
        names = {"a": bellhop.measure(0), "b": bellhop.measure(1)}
        return [eval(expression, {}, names) for expression in EXPRESSIONS]

    for x, y in itertools.product([0, 1], repeat=2):
        names = {"a": x, "b": y}
        for expression, ours in zip(EXPRESSIONS, circuit(x, y), strict=True):
            negated = expression.replace("~", "1-")
            theirs = eval(negated, {}, names)
            assert float(ours) == float(theirs), expression


def test_outcomes_are_booleans_to_jax(lightning: Any) -> None:
    @bellhop.qjit
    @lightning
    def circuit() -> Any:
        m = bellhop.measure(0)
        assert isinstance(m, jax.Array)
        assert (m.dtype, m.shape) == (bool, ())
        return m, jnp.where(m, 1, 2), jax.jit(jnp.cos)(m), jax.lax.cond(m, jnp.sin, jnp.cos, 0.3)

    m, *others = circuit()
    assert m.dtype == bool
    np.testing.assert_allclose(others, [2, 1, np.cos(0.3)], atol=1e-7)


def test_outcomes_and_numbers_that_are_returned_with_shots(lightning: Any) -> None:
    """They are those of each shot, as in Catalyst."""

    def circuit(x: Any) -> Any:
        qml.Hadamard(0)
        m = bellhop.measure(0)
        return {"m": m, "x": [2 * x, jnp.ones(2)]}, qml.sample(m), qml.expval(qml.Z(0))

    qnode = lightning(circuit, wires=1)
    returned, sample, mean = bellhop.qjit(qml.set_shots(qnode, 50))(HALF)
    assert returned["m"].dtype == bool
    np.testing.assert_array_equal(returned["m"], sample)
    np.testing.assert_allclose(np.mean(1 - 2.0 * returned["m"]), mean)
    assert 0 < returned["m"].sum() < 50
    np.testing.assert_array_equal(returned["x"][0], [2 * HALF] * 50)
    assert returned["x"][1].shape == (50, 2)
    copies = bellhop.qjit(qml.set_shots(qnode, (3, 5)))(HALF)
    assert [copy[0]["m"].shape for copy in copies] == [(3,), (5,)]
    once = qml.QNode(circuit, qnode.device, mcm_method="single-branch-statistics", shots=7)
    returned, sample, _ = bellhop.qjit(once)(HALF)
    assert returned["m"].shape == ()
    np.testing.assert_array_equal(sample, [int(returned["m"])] * 7)


def test_numbers_beside_samples(lightning: Any) -> None:
    def circuit(x: Any) -> Any:
        return 2 * x, qml.sample(wires=0)

    qnode = lightning(circuit, wires=1)
    number, sample = bellhop.qjit(qml.set_shots(qnode, 4))(HALF)
    assert number == 2 * HALF
    assert sample.shape == (4, 1)
    assert [copy[0] for copy in bellhop.qjit(qml.set_shots(qnode, (2, 3)))(HALF)] == [2 * HALF] * 2
