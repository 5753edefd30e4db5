"""Mutable references (``jax.new_ref``) as arguments of callbacks, loops and regions."""

import jax
import pytest

import bellhop

CALLS = {
    "pure_callback '<lambda>'": lambda ref: bellhop.pure_callback(lambda v: v, float)(ref),
    "io_callback '<lambda>'": lambda ref: bellhop.io_callback(lambda v: v, float)(ref),
    "callback '<lambda>'": lambda ref: bellhop.callback(lambda v: None)(ref),
    "tap '<lambda>'": lambda ref: bellhop.tap(lambda v: None, ref),
    "print": lambda ref: bellhop.debug.print("{}", ref),
    "debug.cotangent": bellhop.debug.cotangent,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrap", [bellhop.qjit, jax.jit])
def test_a_reference_in_place_of_an_array_is_named(wrap, name):
    site = rf"called from {__file__}:\d+"
    said = rf"^{name} \({site}\): args\[0\] is a Ref.*, a mutable reference, expected"
    with pytest.raises(TypeError, match=said):
        wrap(lambda x: CALLS[name](jax.new_ref(x)))(1.0)


def test_a_carried_reference_names_the_body():
    def body(i, ref):
        return ref

    site = rf"{__file__}:{body.__code__.co_firstlineno}"
    with pytest.raises(
        TypeError, match=rf"for_loop of 'body' \({site}\): the initial value init\[0\] is a Ref"
    ):
        bellhop.qjit(lambda x: bellhop.for_loop(0, 3, 1)(body)(jax.new_ref(x)))(1.0)


def test_a_reference_as_argument_of_a_region_is_named():
    def add_one(x, ref):
        ref[...] += 1
        return x

    ref = jax.new_ref(1.0)
    bellhop.accelerate(add_one)(1.0, ref)
    assert ref[...] == 2
    # The region would change a copy.
    region = bellhop.accelerate(add_one, dev="cpu:1")
    for _ in range(2):
        with pytest.raises(
            TypeError, match=rf"'add_one' \({__file__}:\d+\): the argument ref is a Ref.* mutable"
        ):
            region(1.0, ref)
