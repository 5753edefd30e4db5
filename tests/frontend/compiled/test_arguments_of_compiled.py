"""Calls of compiled programs with arguments that they were not compiled for."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop


class Pair(NamedTuple):
    a: object
    b: object


@pytest.fixture(scope="module")
def compiled():
    def function(x, pair, *, k):
        return x + pair.a * pair.b + k["a"]

    return bellhop.qjit(function).lower(np.ones(3), Pair(1.0, 2.0), k={"a": 1.0}).compile()


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((np.ones(4), Pair(1.0, 2.0)), {"k": {"a": 1.0}}, "x is float64[4], expected float64[3]"),
        (
            (np.ones(3, "f"), Pair(1.0, 2)),
            {"k": {"a": 1.0}},
            "x is float32[3], expected float64[3]; the argument pair.b is int64[] (a Python int), "
            "expected float64[]",
        ),
        ((np.ones(3), Pair(1.0, 2.0)), {}, "the argument k is missing"),
        ((np.ones(3),), {"k": {"a": 1.0}}, "the argument pair is missing"),
        ((np.ones(3), Pair(1.0, 2.0), {"a": 1.0}), {}, "the argument k is missing; there is an "),
        ((np.ones(3),), {"pair": Pair(1.0, 2.0), "k": {"a": 1.0}}, "pair is expected by position"),
        ((np.ones(3), Pair(1.0, 2.0)), {"k": {"a": 1.0}, "z": 1}, "there is an argument z, which"),
        (
            (np.ones(3), (1.0, [2.0])),
            {"k": {"b": 1.0}},
            "pair has the structure (array, [array]), expected Pair(a=array, b=array); the "
            "argument k has the structure {'b': array}, expected {'a': array}",
        ),
        (("text", Pair(1.0, 2.0)), {"k": {"a": 1.0}}, "the argument x is of type str"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_the_argument_is_named_with_its_type(compiled, args, kwargs, text):
    with pytest.raises(TypeError) as raised:
        compiled(*args, **kwargs)
    message = str(raised.value)
    assert text in message
    assert message.startswith("a compiled call of 'function' (")
    assert "PyTreeDef" not in message
    assert "Flat" not in message


def test_weak_types_are_those_of_jax(compiled):
    arguments = (jnp.ones(3), Pair(np.float64(1.0), 2.0)), {"k": {"a": jnp.float64(1.0)}}
    np.testing.assert_array_equal(compiled(*arguments[0], **arguments[1]), [4, 4, 4])


def test_static_arguments_are_left_out():
    compiled = bellhop.qjit(lambda x, n: x * n, static_argnums=1).lower(1.0, 3).compile()
    assert compiled(2.0) == 6
    with pytest.raises(TypeError, match="there is an argument args.1., .* leave out static arg"):
        compiled(2.0, 3)


def test_types_of_arrays_are_refused_in_calls():
    f = bellhop.qjit(lambda x: x)
    for call in (f, f.lower(1.0).compile()):
        with pytest.raises(TypeError, match="argument x.* is a jax.ShapeDtypeStruct, the type of"):
            call(jax.ShapeDtypeStruct((), float))
