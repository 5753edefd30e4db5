"""Mutable references (``jax.new_ref``) as arguments of callbacks and loops."""

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
