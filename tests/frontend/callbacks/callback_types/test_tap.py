"""Taps: what they see, in which order, and under which transformations."""

import gc
import threading
import weakref

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pennylane as qml
import pytest
from tests.patience import PATIENCE

import bellhop


def test_sees_values_in_program_order(form, log):
    def f(x):
        for i in range(20):
            log(i, x * i)
        return 2 * x

    assert form(f)(2.0) == 4.0
    assert log() == [(i, 2.0 * i) for i in range(20)]


def test_gives_nothing_back_and_may_stand_alone(form, log):
    def f(x):
        assert bellhop.tap(lambda v: "dropped", x) is None
        log("a", x)

    form(f)(1.0)
    assert log() == [("a", 1.0)]


def test_equal_taps_are_not_merged(form, log):
    form(lambda x: (log("a", x), log("a", x)))(1.0)
    assert log() == [("a", 1.0)] * 2


def test_order_is_that_of_all_programs():
    seen = []
    programs = [
        bellhop.qjit(lambda x, i=i: bellhop.tap(lambda v: seen.append((i, int(v))), x))
        for i in range(3)
    ]
    for number in range(30):
        programs[number % 3](number)
    bellhop.tap(lambda: seen.append("end"))
    bellhop.barrier_wait()
    assert seen == [(number % 3, number) for number in range(30)] + ["end"]


def test_arguments_are_pytrees_and_keywords(form):
    seen = []

    def f(x):
        bellhop.tap(
            lambda *args, **kwargs: seen.append((args, kwargs)), {"a": x}, (x + 1, None), key=[x]
        )

    form(f)(1.0)
    bellhop.barrier_wait()
    assert seen == [(({"a": 1.0}, (2.0, None)), {"key": [1.0]})]


def test_arrays_are_the_functions_own(form):
    seen = []
    f = form(lambda x: bellhop.tap(seen.append, x))
    for i in range(20):
        f(np.full(600, float(i)))
        f(np.full(100_000, float(i)))
    bellhop.barrier_wait()
    assert [array.size for array in seen] == [600, 100_000] * 20
    assert [set(array.tolist()) for array in seen] == [{float(i // 2)} for i in range(40)]
    assert not seen[0].flags.writeable


DTYPES = [bool, np.int8, np.uint64, np.float16, ml_dtypes.bfloat16, np.complex64, np.complex128]
DTYPES += [ml_dtypes.float8_e4m3fn]


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (1,) * 8, (7, 5, 3)])
def test_dtypes_and_shapes(form, shape):
    seen = []
    arrays = [np.arange(np.prod(shape)).reshape(shape).astype(dtype) for dtype in DTYPES]
    form(lambda *xs: bellhop.tap(lambda *leaves: seen.append(leaves), *xs))(*arrays)
    bellhop.barrier_wait()
    for observed, array in zip(seen[0], arrays, strict=True):
        assert (observed.dtype, observed.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(observed, array)


def test_thousand_leaves(form):
    seen = []
    leaves = [float(i) for i in range(1000)]
    form(lambda xs: bellhop.tap(seen.append, xs))(leaves)
    bellhop.barrier_wait()
    assert seen[0] == leaves


def program(log):
    """A function with loops and branches, and the events of one call in Python's order."""

    def traced(x):
        log("begin", x)

        def step(carry, i):
            log("step", i)
            carry = jax.lax.cond(
                i % 2 == 1, lambda v: log("odd", v) + 1, lambda v: log("even", v) * 2, carry
            )
            return carry, log("carry", carry)

        carry, _ = jax.lax.scan(step, x, jnp.arange(3))
        carry = jax.lax.switch(
            2, [lambda v, i=i: log(f"branch {i}", v) + i for i in range(4)], carry
        )
        result = jax.lax.while_loop(
            lambda v: log("condition", v) < 30, lambda v: log("body", v) * 2, carry
        )
        return log("end", result)

    def plain(x):
        events, carry = [("begin", x)], x
        for i in range(3):
            events += [("step", i), ("odd" if i % 2 else "even", carry)]
            carry = carry + 1 if i % 2 else carry * 2
            events.append(("carry", carry))
        events.append(("branch 2", carry))
        carry += 2
        while True:
            events.append(("condition", carry))
            if not carry < 30:
                return [*events, ("end", carry)]
            events.append(("body", carry))
            carry *= 2

    return traced, plain


def test_control_flow(form, log):
    traced, plain = program(log)
    form(traced)(1.5)
    assert log() == plain(1.5)


def test_in_a_circuit_between_gates(log):
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(log("x", x), 0)
        y = log("y", 2 * x)
        qml.RX(y, 0)
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(circuit(0.3), np.cos(0.9))
    np.testing.assert_allclose(bellhop.grad(circuit)(0.3), -3 * np.sin(0.9))
    assert log() == [("x", 0.3), ("y", 0.6)] * 2


def test_in_a_region(log):
    f = bellhop.qjit(lambda x: bellhop.accelerate(lambda v: log("v", v) * 2)(x))
    assert f(1.5) == 3.0
    assert log() == [("v", 1.5)]


def test_random_keys(form):
    seen = []
    form(lambda key: bellhop.tap(seen.append, key))(jax.random.key(7))
    bellhop.barrier_wait()
    np.testing.assert_array_equal(seen[0], jax.random.key_data(jax.random.key(7)))


def test_runs_on_one_thread_which_is_not_the_programs():
    threads = set()
    f = bellhop.qjit(lambda x: bellhop.tap(lambda v: threads.add(threading.get_ident()), x))
    for i in range(3):
        f(i)
    bellhop.barrier_wait()
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_program_goes_on_while_a_function_runs():
    may_go = threading.Event()
    seen = []

    def wait(x):
        assert may_go.wait(PATIENCE)
        seen.append(float(x))

    f = bellhop.qjit(lambda x: (bellhop.tap(wait, x), 2 * x)[1])
    assert [float(f(x)) for x in (1.0, 2.0)] == [2.0, 4.0]
    assert seen == []
    may_go.set()
    bellhop.barrier_wait()
    assert seen == [1.0, 2.0]


@pytest.mark.parametrize("wrong", [None, 3, "f"])
def test_takes_a_function(wrong):
    with pytest.raises(TypeError, match="tap takes a function first, got"):
        bellhop.tap(wrong, 1.0)


@pytest.mark.parametrize("size", [0, 1, 3, 100_001])
def test_types_narrower_than_a_byte(form, size):
    seen = []
    values = np.arange(size) % 16 - 8
    form(lambda x: bellhop.tap(seen.append, x))(jnp.asarray(values, jnp.int4))
    bellhop.barrier_wait()
    assert seen[0].dtype == jnp.int4
    np.testing.assert_array_equal(seen[0].astype(int), values)


@pytest.mark.parametrize("is_cyclic", [False, True], ids=["", "cycle"])
def test_dropped_programs_free_their_functions(is_cyclic):
    class Recorder:
        def __init__(self):
            self.seen = []
            self.program = bellhop.qjit(self.run) if is_cyclic else None

        def run(self, x):
            bellhop.tap(self.record, x)

        def record(self, x):
            self.seen.append(float(x))

    recorder = Recorder()
    program = recorder.program or bellhop.qjit(recorder.run)
    program(1.0)
    bellhop.barrier_wait()
    assert recorder.seen == [1.0]
    gone = weakref.ref(recorder)
    del recorder, program
    gc.collect()
    assert gone() is None


def test_functions_live_until_their_taps_are_over():
    may_go = threading.Event()
    seen = []

    def make():
        def record(x):
            # A cycle: the program holds the function, which holds the program.
            seen.append((float(x), program is not None))

        program = bellhop.qjit(lambda x: bellhop.tap(record, x))
        return program

    bellhop.tap(lambda: may_go.wait(PATIENCE))
    program = make()
    for i in range(3):
        program(i)
    del program
    gc.collect()
    gc.collect()
    assert seen == []
    may_go.set()
    bellhop.barrier_wait()
    assert seen == [(float(i), True) for i in range(3)]
    gc.collect()


def test_identical_programs_in_any_process(run_script):
    script = """
        import bellhop, hashlib
        f = bellhop.qjit(lambda x: bellhop.tap(print, x))
        text = f.lower(1.0).as_text()
        assert "bellhop_tap" in text
        print(hashlib.sha256(text.encode()).hexdigest())
        """
    assert run_script(script) == run_script(script, PYTHONHASHSEED="1")


def test_64_bit_types_off(run_script):
    out = run_script(
        """
        import bellhop
        show = lambda *leaves: print(*[leaf.dtype for leaf in leaves])
        bellhop.qjit(lambda x, n: bellhop.tap(show, x, n))(1.5, 2)
        bellhop.barrier_wait()
        """,
        BELLHOP_X64="0",
    )
    assert out.split() == ["float32", "int32"]


def test_values_that_the_function_does_not_take_are_an_error_at_once():
    with pytest.raises(TypeError, match=r"tap 'record' \(called from .* is not a decorator"):

        @bellhop.tap
        def record(x):
            raise AssertionError

    with pytest.raises(TypeError, match="too many positional arguments"):
        jax.jit(lambda x: bellhop.tap(lambda: None, x))(1.0)
    bellhop.barrier_wait()
