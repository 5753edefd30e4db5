"""Loops whose counter grows by more than one, which XLA miscounts before jaxlib 0.12."""

import itertools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.compiler.classical import make_classical_program
from bellhop.settings.loop_simplification import MISCOUNTS_LONG_STEPS
from bellhop_mlir._bindings import ir, make_context
from bellhop_mlir._loop_counters import has_long_steps

# XLA runs the first three bodies too seldom, and the last two once, instead of never.
LOOPS = [
    (operator.lt, 0, 1, 2),
    (operator.lt, 0, 1, 64),
    (operator.lt, -3, 0, 2),
    (operator.lt, 5, 3, 3),
    (operator.le, 0, -1, 2),
]


def make_loop(goes_on, first, bound, step):
    """Return a function that counts iterations in its argument."""

    def loop(x):
        return jax.lax.while_loop(
            lambda carried: goes_on(carried[0], bound),
            lambda carried: (carried[0] + step, carried[1] + 1),
            (first, x),
        )[1]

    return loop


def count_iterations(goes_on, first, bound, step):
    return next(n for n in itertools.count() if not goes_on(first + n * step, bound))


FORMS = {
    "classical": lambda loop: loop,
    "with a callback": lambda loop: lambda x: loop(bellhop.pure_callback(lambda x: x, x)(x)),
    "in a region": lambda loop: bellhop.accelerate(loop),
    "in a region on another device": lambda loop: bellhop.accelerate(loop, dev="cpu:1"),
    "in a jit": lambda loop: jax.jit(loop),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loop", LOOPS)
def test_loops_are_counted_as_in_python(loop, form):
    assert bellhop.qjit(FORMS[form](make_loop(*loop)))(0.0) == count_iterations(*loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_while_loop_of_autograph_is_counted_as_in_python(loop):
    goes_on, first, bound, step = loop

    @bellhop.qjit(autograph=True)
    def count(x):
        i = jnp.asarray(first)
        while goes_on(i, bound):
            i = i + step
            x = x + 1
        return x

    assert count(0.0) == count_iterations(*loop)


def test_a_loaded_program_counts_its_loops(tmp_path):
    count = bellhop.qjit(make_loop(*LOOPS[0]))
    count(0.0)
    count.save(tmp_path / "count")
    assert bellhop.load(tmp_path / "count")(0.0) == 1


@pytest.mark.parametrize("bounds", [(0, 1, 1), (1, 2, 2), (0, 65, 1), (0, 0, 1)])
@pytest.mark.parametrize("jit", [bellhop.qjit, jax.jit])
def test_a_circuit_runs_loops_whose_bounds_are_constant_arrays(jit, bounds):
    """In ``jax.jit``, whose options belong to JAX, the loop over blocks of gates steps by one."""

    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x, stop):
        start, _, step = bounds
        bellhop.for_loop(start, stop, step)(lambda i: qml.RX(x, wires=0))()
        return qml.expval(qml.Z(0))

    n = len(range(*bounds))
    value, tangent = jit(
        lambda x: jax.jvp(lambda x: circuit(x, jnp.array(bounds[1])), (x,), (1.0,))
    )(0.3)
    np.testing.assert_allclose(value, np.cos(n * 0.3), atol=1e-12)
    np.testing.assert_allclose(tangent, -n * np.sin(n * 0.3), atol=1e-12)


STEPS = {
    "one": (lambda x: jax.lax.fori_loop(0, 5, lambda i, x: x * 2, x), False),
    "minus one": (make_loop(operator.gt, 5, 0, -1), False),
    "scan": (lambda x: jax.lax.scan(lambda x, y: (x * y, y), x, jnp.arange(3.0)), False),
    "no integer": (lambda x: jax.lax.while_loop(lambda x: x > 1, lambda x: x / 2, x), False),
    "two": (make_loop(operator.lt, 0, 5, 2), True),
    "carried": (
        lambda x: jax.lax.while_loop(
            lambda carried: carried[0] < 5,
            lambda carried: (carried[0] + carried[1], carried[1], carried[2] * 2),
            (0, 2, x),
        ),
        True,
    ),
    "in a function": (
        lambda x: jax.lax.while_loop(
            lambda carried: carried[0] < 5,
            lambda carried: (jax.jit(lambda i: i + 2)(carried[0]), carried[1] * 2),
            (0, x),
        ),
        True,
    ),
    "nested": (
        lambda x: jax.lax.fori_loop(0, 5, lambda i, x: make_loop(operator.lt, 0, 5, 2)(x), x),
        True,
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_long_steps_are_found_in_jaxprs_and_in_modules(name):
    function, is_long = STEPS[name]
    traced = jax.jit(function).trace(0.5)
    with make_context(), ir.Location.unknown():
        assert has_long_steps(ir.Module.parse(traced.lower().as_text())) == is_long
    code = make_classical_program(traced.jaxpr, lambda closed: None).code
    assert code.simplifies_loops == (not is_long or not MISCOUNTS_LONG_STEPS)
