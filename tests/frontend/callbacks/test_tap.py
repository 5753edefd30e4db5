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
from bellhop import DifferentiableCompileError

FORMS = {"qjit": bellhop.qjit, "jit": jax.jit, "eager": lambda f: f}


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request):
    return request.param


@pytest.fixture
def log():
    """A function that taps a value by name; ``log()`` waits and returns what it saw."""
    seen = []

    def tap(*args):
        if not args:
            bellhop.barrier_wait()
            return seen
        name, x = args
        bellhop.tap(lambda v: seen.append((name, v.tolist())), x)
        return x

    return tap


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


@pytest.mark.parametrize("transform", [jax.grad, jax.jacfwd], ids=["grad", "jacfwd"])
def test_derivatives_tap_primal_values(form, log, transform):
    def f(x):
        y = log("x", x) ** 2
        return log("y", y) * x

    # What a tap sees does not depend on whether the value is used.
    assert form(transform(f))(3.0) == 27.0
    assert log() == [("x", 3.0), ("y", 9.0)]


def test_hessian_taps_primal_values(form, log):
    assert form(jax.hessian(lambda x: log("x", x) ** 3))(2.0) == 12.0
    assert log() == [("x", 2.0)]


def test_grad_of_loops_taps_each_turn_of_the_forward_pass(form, log):
    def f(x):
        def step(carry, i):
            log("same", x)
            return log("carry", carry) * x, None

        return jax.lax.scan(step, x, jnp.arange(3))[0]

    assert form(jax.grad(f))(2.0) == 32.0
    assert log() == [
        event for turn in range(3) for event in (("same", 2.0), ("carry", 2.0 ** (turn + 1)))
    ]


def test_checkpoint_taps_again_what_is_computed_again(form, log):
    f = jax.checkpoint(lambda x: jnp.sin(log("y", x**2)))
    np.testing.assert_allclose(form(jax.grad(f))(3.0), 6 * np.cos(9.0))
    assert log() == [("y", 9.0)] * 2


def test_checkpoint_does_not_tap_again_what_is_saved(form, log):
    saved = jax.checkpoint_policies.everything_saveable
    f = jax.checkpoint(lambda x: jnp.sin(log("y", x**2)), policy=saved)
    np.testing.assert_allclose(form(jax.grad(f))(3.0), 6 * np.cos(9.0))
    assert log() == [("y", 9.0)]


def test_checkpoint_in_a_loop(form, log):
    def f(x):
        body = jax.checkpoint(lambda carry, i: (jnp.sin(log("carry", carry)), None))
        return jax.lax.scan(body, x, jnp.arange(2))[0]

    np.testing.assert_allclose(form(jax.grad(f))(0.5), np.cos(np.sin(0.5)) * np.cos(0.5))
    forward = [("carry", 0.5), ("carry", np.sin(0.5))]
    np.testing.assert_allclose([v for _, v in log()], [v for _, v in forward + forward[::-1]])


def test_custom_vjp_taps_cotangents(form, log):
    @jax.custom_vjp
    def cotangent(x):
        return x

    cotangent.defvjp(lambda x: (x, None), lambda _, ct: (log("cotangent", ct),))
    assert form(jax.grad(lambda x: cotangent(log("x", x)) ** 2))(3.0) == 6.0
    assert log() == [("x", 3.0), ("cotangent", 6.0)]


def custom_jvp_tap(log):
    @jax.custom_jvp
    def square(x):
        return x**2

    @square.defjvp
    def _(primals, tangents):
        log("tangent", tangents[0])
        return square(*primals), 2 * primals[0] * tangents[0]

    return square


def test_forward_mode_taps_tangents(form, log):
    square = custom_jvp_tap(log)
    assert form(lambda x: jax.jvp(square, (x,), (0.5,)))(3.0) == (9.0, 3.0)
    assert log() == [("tangent", 0.5)]


def test_tap_of_a_tangent_in_reverse_mode_is_refused(form, log):
    with pytest.raises(
        DifferentiableCompileError, match=f"tap .* {__file__}:.* is given a tangent"
    ):
        form(jax.grad(custom_jvp_tap(log)))(3.0)
    assert log() == []


def test_vmap_taps_the_whole_batch_once(form):
    seen = []
    f = jax.vmap(lambda x, y: (bellhop.tap(lambda *a: seen.append(a), x, y), x)[1], (1, None))
    xs = jnp.arange(6.0).reshape(2, 3)
    form(f)(xs, 5.0)
    bellhop.barrier_wait()
    ((batch, single),) = seen
    np.testing.assert_array_equal(batch, xs.T)
    assert single == 5.0


def test_nested_vmap_has_the_outermost_axis_first(form):
    seen = []
    tap = lambda x: bellhop.tap(seen.append, x)
    form(jax.vmap(jax.vmap(tap, in_axes=1), in_axes=2))(jnp.arange(24.0).reshape(2, 3, 4))
    bellhop.barrier_wait()
    (batch,) = seen
    np.testing.assert_array_equal(batch, np.arange(24.0).reshape(2, 3, 4).transpose(2, 1, 0))


def test_vmap_of_grad_and_of_loops(form, log):
    def f(x):
        return jax.lax.fori_loop(0, 2, lambda i, c: log("c", c) * x, x)

    np.testing.assert_array_equal(form(jax.vmap(jax.grad(f)))(jnp.arange(3.0)), [0, 3, 12])
    assert log() == [("c", [0.0, 1.0, 2.0]), ("c", [0.0, 1.0, 4.0])]


def test_shard_map_taps_on_each_device(run_script):
    out = run_script(
        """
        import bellhop, jax, jax.numpy as jnp, numpy as np
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("d",))
        spec = jax.sharding.PartitionSpec("d")
        seen = []
        def f(x):
            bellhop.tap(lambda v: seen.append(v.tolist()), x)
            return 2 * x
        f = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec))
        for i in range(3):
            f(jnp.arange(4.0) + i)
        bellhop.barrier_wait()
        assert sorted(seen) == sorted([[k + i, k + i + 1.0] for i in range(3) for k in (0.0, 2.0)])
        print("done")
        """,
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )
    assert out.strip() == "done"


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
