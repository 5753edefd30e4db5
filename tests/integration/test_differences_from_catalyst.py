"""What programs of Catalyst's mean here: a test for each row of the table in the guide."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

PAGE = Path(__file__).parents[2] / "doc" / "guide" / "from-catalyst.md"
ROWS: dict[str, Callable[[], None]] = {}


def row(name: str) -> Callable[[Callable[[], None]], None]:
    """Register the test of a row."""
    return lambda test: ROWS.__setitem__(name, test)


def node(body: Any, shots: Any = None, device: Any = None, **options: Any) -> Any:
    device = device or qml.device("lightning.qubit", wires=1)
    return qml.set_shots(qml.QNode(body, device, **options), shots)


def coin() -> Any:
    qml.H(0)
    m = bellhop.measure(0)
    return qml.expval(qml.Z(0)), qml.expval(m)


def tossed() -> Any:
    qml.H(0)
    return qml.sample(wires=0)


@row("measurements in the middle, without shots")
def _() -> None:
    np.testing.assert_allclose(bellhop.qjit(node(coin))(), [0, 0.5], atol=1e-12)
    z, m = bellhop.qjit(node(coin, mcm_method="single-branch-statistics"), seed=1)()
    assert (round(float(z)), float(m)) in [(1, 0.0), (-1, 1.0)]


def postselected() -> Any:
    qml.H(0)
    bellhop.measure(0, postselect=1)
    return qml.sample(wires=0)


def impossible() -> Any:
    bellhop.measure(0, postselect=1)
    return qml.expval(qml.Z(0))


@row("postselection with shots")
def _() -> None:
    assert (bellhop.qjit(node(postselected, 20))() == 1).all()
    samples = bellhop.qjit(node(postselected, 20, postselect_mode="hw-like"), seed=1)()
    assert set(np.unique(samples)) == {1, -(2**31)}


@row("a postselection that cannot be")
def _() -> None:
    for shots in (None, 5):
        assert np.isnan(bellhop.qjit(node(impossible, shots))())


@row("`mcm_method` with shots")
def _() -> None:
    methods = ["one-shot", "tree-traversal", "deferred", "device"]
    results = [bellhop.qjit(node(coin, 50, mcm_method=m), seed=3)() for m in methods]
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    assert results[0][1] not in (0, 1)


@row("seeds")
def _() -> None:
    program = bellhop.qjit(node(tossed, 64), seed=2**64 - 1)
    np.testing.assert_array_equal(program(), program())
    with pytest.raises(ValueError, match="a seed is from 0 to"):
        bellhop.qjit(node(tossed, 64), seed=2**64)


@row("seeds under `jax.jit(f)`")
def _() -> None:
    program = jax.jit(bellhop.qjit(node(tossed, 64), seed=1))
    assert not np.array_equal(program(), program())


@row("device seeds")
def _() -> None:
    device = lambda: qml.device("lightning.qubit", wires=1, seed=5)
    one, other = (bellhop.qjit(node(tossed, 64, device())) for _ in range(2))
    first, second = one(), one()
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal([first, second], [other(), other()])


@row("`f(2)` after `f(2.0)`")
def _() -> None:
    traces = []
    f = bellhop.qjit(lambda x: (traces.append(1), 2 * x)[1])
    assert f(2.0).dtype == float
    assert f(2).dtype == int
    assert len(traces) == 2


@row("`sample` and `counts` of observables")
def _() -> None:
    body = lambda: (qml.sample(qml.Z(0)), qml.counts(qml.Z(0)))
    samples, (values, counts) = bellhop.qjit(node(body, 4))()
    np.testing.assert_array_equal(samples, np.ones(4))
    np.testing.assert_array_equal([values, counts], [[-1, 1], [0, 4]])


@row("a QNode that returns nothing")
def _() -> None:
    with pytest.raises(bellhop.CompileError, match="a quantum function must return something"):
        bellhop.qjit(node(lambda: None))()


@row("`qml.Snapshot`")
def _() -> None:
    def body() -> Any:
        qml.X(0)
        qml.Snapshot("here")
        return qml.expval(qml.Z(0))

    assert bellhop.qjit(node(body))() == -1
    with pytest.warns(UserWarning, match="a tape will be created for each snapshot"):
        states = bellhop.qjit(lambda: qml.snapshots(node(body))())()
    np.testing.assert_allclose(states["here"], [0, 1])


@row("arguments of callbacks")
def _() -> None:
    seen: list[Any] = []

    @bellhop.qjit
    def program(x: Any) -> Any:
        bellhop.debug.callback(seen.append)(x)
        return x

    program(1.0)
    assert type(seen[0]) is np.ndarray


@row("an array of computed size")
def _() -> None:
    with pytest.raises(TypeError):
        bellhop.qjit(lambda n: jnp.ones([n]))(3)
    assert bellhop.qjit(lambda n: jnp.ones([n]), static_argnums=0)(3).shape == (3,)


@row("`grad` of `grad`")
def _() -> None:
    def body(x: Any) -> Any:
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    second = bellhop.qjit(bellhop.grad(bellhop.grad(node(body))))(0.4)
    assert second == pytest.approx(-np.cos(0.4))


@row("`default.qubit`")
def _() -> None:
    exact = bellhop.qjit(node(coin, device=qml.device("default.qubit", wires=1)))()
    np.testing.assert_allclose(exact, [0, 0.5], atol=1e-12)


@pytest.mark.parametrize("name", ROWS)
def test_row(name: str) -> None:
    ROWS[name]()


def test_every_row_is_here() -> None:
    section = PAGE.read_text().split("## Differences of meaning")[1].split("\n## ")[0]
    in_page = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)[1:]
    assert in_page == list(ROWS)
