"""Errors for pytrees that differ only in static data, which their structures' texts leave out."""

import dataclasses
from typing import Any

import jax
import pytest

import bellhop


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    x: Any
    op: object = dataclasses.field(metadata={"static": True}, default="add")
    kind: str = dataclasses.field(metadata={"static": True}, default="plain")


class Unequal:
    def __repr__(self):
        return "Unequal()"


def relabel(layer):
    return Layer(layer.x, "mul")


CASES = {
    "callback": lambda x: bellhop.pure_callback(relabel, Layer(float))(Layer(x)).x,
    "for_loop": lambda x: bellhop.for_loop(0, 3, 1)(lambda i, c: relabel(c))(Layer(x)).x,
    "cond": lambda x: bellhop.cond(x > 0, lambda: Layer(x), lambda: Layer(x, "mul"))().x,
    "jvp": lambda x: bellhop.jvp(lambda m: m.x, (Layer(x),), (Layer(x, "mul"),)),
}


@pytest.mark.parametrize("name", CASES)
def test_static_data_that_differ_are_shown(name):
    with pytest.raises(TypeError) as raised:
        bellhop.qjit(CASES[name])(1.0)
    assert "Layer(array, op='add')" in str(raised.value)
    assert "Layer(array, op='mul')" in str(raised.value)


def test_static_data_with_equal_texts_are_told_apart():
    def other(layer):
        return Layer(layer.x, Unequal())

    callback = bellhop.pure_callback(other, Layer(float, Unequal()))
    with pytest.raises(TypeError, match=r"op=Unequal\(\) \(Unequal object at 0x\w+\)\), declared"):
        bellhop.qjit(lambda x: callback(Layer(x)).x)(1.0)
