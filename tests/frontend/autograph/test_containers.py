"""Lists, dictionaries and sets that a converted statement changes in place."""

import jax
import numpy as np
import pennylane as qml
import pytest

import bellhop

KEPT: list = []
FALLS_BACK = "leaves traced values in 'kept'"
REFUSED = "leaves traced values in 'kept', a Python {kind}.*x = jnp.zeros"


def test_a_loop_of_known_length_is_unrolled():
    @bellhop.qjit(autograph=True)
    def f(x):
        kept = [x]
        for i in range(3):
            kept.append(i * x)
        return kept

    with pytest.warns(UserWarning, match=FALLS_BACK):
        result = f(2.0)
    assert [float(value) for value in result] == [2, 0, 2, 4]


def test_measurements_in_a_list():
    @bellhop.qjit(autograph=True)
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def f(wire):
        qml.X(wire)
        kept = []
        for i in range(2):
            kept.append(bellhop.measure(i))
        return kept

    with pytest.warns(UserWarning, match=FALLS_BACK):
        assert [int(value) for value in f(1)] == [0, 1]


def test_a_loop_of_computed_length_is_refused():
    @bellhop.qjit(autograph=True)
    def f(n):
        kept = []
        for i in range(n):
            kept.append(i)
        return kept

    with pytest.raises(bellhop.AutoGraphError, match=REFUSED.format(kind="list")):
        f(3)


def test_a_while_loop_is_refused():
    @bellhop.qjit(autograph=True)
    def f(n):
        kept = {}
        while n < 5:
            kept["last"] = n
            n += 1
        return kept

    with pytest.raises(bellhop.AutoGraphError, match="'kept'"):
        f(3)


def test_a_conditional_is_refused():
    @bellhop.qjit(autograph=True)
    def f(x):
        kept = []
        if x > 1:
            kept.append(2 * x)
        return kept

    with pytest.raises(bellhop.AutoGraphError, match=REFUSED.format(kind="list")):
        f(2.0)


def test_a_global_list():
    @bellhop.qjit(autograph=True)
    def f(n):
        for i in range(n):
            KEPT.append(i)
        return n

    with pytest.raises(bellhop.AutoGraphError, match="leaves traced values in 'KEPT', a Python li"):
        f(3)
    assert KEPT == []


def test_a_list_in_an_attribute_names_lines_of_the_user():
    """It is not searched; the value is found where it is used."""

    class Model:
        kept: list = []  # noqa: RUF012

    @bellhop.qjit(autograph=True)
    def f(n):
        for i in range(n):
            Model.kept.append(2 * i)
        return Model.kept[0]

    with pytest.raises(jax.errors.UnexpectedTracerError) as raised:
        f(3)
    assert "__autograph_generated" not in str(raised.value)
    assert f"computed at {__file__}:" in str(raised.value)
    assert "was stored outside of the loop or conditional" in str(raised.value)


def test_what_is_known_when_tracing_may_be_left():
    kept = []

    @bellhop.qjit(autograph=True)
    def f(n):
        for i in range(n):
            kept.append("traced")
            n = n + i
        return n

    assert f(3) == 6
    assert set(kept) == {"traced"}


def test_a_loop_that_cannot_be_compiled_leaves_nothing_twice():
    @bellhop.qjit(autograph=True)
    def f(x):
        kept = []
        words = ["a", "b"]
        for i in range(2):
            kept.append(x)
            x = x + len(words[i])
        return kept

    with pytest.warns(UserWarning, match="runs as Python"):
        np.testing.assert_array_equal(f(1.0), [1.0, 2.0])
