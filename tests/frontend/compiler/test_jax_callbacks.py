"""jax.pure_callback, io_callback, debug.callback and debug.print inside qjit."""

import functools
import gc
import sysconfig
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax.experimental import io_callback
from jax.experimental.buffer_callback import buffer_callback
from jax.experimental.sparse.linalg import spsolve
from jax.extend.core import Primitive
from jax.interpreters import mlir

import bellhop
from bellhop.compiler.jax_callback_lowering import delegate_everywhere

SCALAR = jax.ShapeDtypeStruct((), jnp.float64)


def test_pure_callback_in_a_loop_and_a_conditional():
    @bellhop.qjit
    def f(x):
        def step(x, _):
            y = jax.pure_callback(np.sin, SCALAR, x)
            return jax.lax.cond(y > 0.5, lambda: y, lambda: 2 * y), y

        return jax.lax.scan(step, x, None, length=4)

    x, expected = 1.2, []
    for _ in range(4):
        expected.append(np.sin(x))
        x = expected[-1] if expected[-1] > 0.5 else 2 * expected[-1]
    last, all_ = f(1.2)
    np.testing.assert_allclose(last, x)
    np.testing.assert_allclose(all_, expected)


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_pure_callback_with_trees_under_vmap(method):
    def host(tree, scale):
        return {"sum": np.asarray(tree["a"] + tree["b"]) * np.asarray(scale)}

    @bellhop.qjit
    def f(a, b):
        call = lambda a: jax.pure_callback(
            host, {"sum": SCALAR}, {"a": a, "b": b}, 2.0, vmap_method=method
        )
        return jax.vmap(call)(a)

    a = np.arange(3.0)
    np.testing.assert_allclose(f(a, 0.5)["sum"], 2 * (a + 0.5))


def test_a_custom_derivative_around_pure_callback():
    @jax.custom_jvp
    def sine(x):
        return jax.pure_callback(np.sin, SCALAR, x)

    sine.defjvp(lambda primals, tangents: (sine(*primals), jnp.cos(primals[0]) * tangents[0]))
    np.testing.assert_allclose(bellhop.qjit(bellhop.grad(sine))(0.3), np.cos(0.3))


@pytest.mark.parametrize("ordered", [True, False])
def test_io_callback_is_called_once_an_iteration(ordered):
    seen = []

    def host(x):
        seen.append(float(x))
        return np.float64(len(seen))

    @bellhop.qjit
    def f(n):
        return jax.lax.fori_loop(
            0, n, lambda i, total: total + io_callback(host, SCALAR, i * 0.5, ordered=ordered), 0.0
        )

    assert f(4) == 1 + 2 + 3 + 4
    assert sorted(seen) == [0.0, 0.5, 1.0, 1.5]
    assert not ordered or seen == sorted(seen)


def test_ordered_loops_beside_ours_in_a_circuit():
    """Their tokens are results of the program, and XLA dies of one that is two results."""
    seen = []

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        def io(carried, i):
            io_callback(lambda i: seen.append(("io", int(i))), None, i, ordered=True)
            return carried, i

        def ours(carried, i):
            bellhop.debug.callback(lambda i: seen.append(("ours", int(i))))(i)
            return carried, i

        qml.RX(x, wires=0)
        jax.lax.scan(io, 0, jnp.arange(2))
        jax.lax.scan(ours, 0, jnp.arange(2))
        return qml.expval(qml.Z(0))

    value_and_gradient = jax.jit(bellhop.value_and_grad(circuit))(0.3)
    np.testing.assert_allclose(value_and_gradient, (np.cos(0.3), -np.sin(0.3)))
    jax.effects_barrier()
    assert seen == [("io", 0), ("io", 1), ("ours", 0), ("ours", 1)]


def test_printing(capsys):
    @bellhop.qjit
    def f(x):
        jax.debug.print("x = {}, twice = {twice}", x, twice=2 * x)
        jax.vmap(lambda y: jax.debug.print("y = {}", y, ordered=True))(jnp.arange(2))
        jax.debug.print("no numbers")
        return x

    f(1.5)
    f(2.5)
    printed = capsys.readouterr().out.splitlines()
    expected = ["no numbers", "x = 1.5, twice = 3.0", "y = 0", "y = 1"]
    assert sorted(printed[:4]) == expected
    assert "x = 2.5, twice = 5.0" in printed


@pytest.mark.parametrize("jit", [bellhop.qjit, jax.jit])
def test_ordered_ones_beside_ours(jit):
    seen = []

    def note(name):
        return lambda *values: seen.append((name, *map(int, values)))

    @jit
    def f(n):
        def body(i, total):
            bellhop.debug.callback(note("ours"))(i)
            jax.debug.callback(note("debug"), i, ordered=True)
            io_callback(note("io"), None, i, ordered=True)
            bellhop.io_callback(note("our io"), None, ordered=True)(i)
            return total + i

        jax.lax.fori_loop(0, n, body, 0)
        jax.debug.callback(note("debug"), n, ordered=True)
        bellhop.debug.callback(note("ours"))(n)
        return n

    for _ in range(2):
        seen.clear()
        f(2)
        jax.effects_barrier()
        assert [each for each in seen if each[0] == "debug"] == [("debug", i) for i in range(3)]
        assert [each for each in seen if each[0] == "io"] == [("io", i) for i in range(2)]
        ours = [("ours", 0), ("our io", 0), ("ours", 1), ("our io", 1), ("ours", 2)]
        assert [each for each in seen if "our" in each[0]] == ours


def test_ordered_ones_and_ours_have_one_order_through_control_flow():
    seen = []

    def note(name):
        return lambda *values: seen.append((name, *map(int, values)))

    @bellhop.qjit
    def f(n):
        jax.lax.cond(
            n < 9, lambda: jax.debug.callback(note("debug"), n, ordered=True), lambda: None
        )
        bellhop.debug.callback(note("ours"))(n)

        @bellhop.for_loop(0, n, 1)
        def loop(i):
            io_callback(note("io"), None, i, ordered=True)

        loop()
        jax.debug.callback(note("debug"), 2 * n, ordered=True)
        bellhop.cond(n < 9, lambda: bellhop.io_callback(note("our io"), None, n, ordered=True))()
        io_callback(note("io"), None, 3 * n, ordered=True)

    f(2)
    inner = [("debug", 2), ("ours", 2), ("io", 0), ("io", 1)]
    assert seen == [*inner, ("debug", 4), ("our io", 2), ("io", 6)]


@pytest.mark.parametrize("transform", [jax.grad, lambda f: bellhop.qjit(jax.grad(f)), jax.hessian])
def test_one_that_does_not_change_in_a_loop_is_called_once_a_turn_under_grad(transform):
    seen = []

    @bellhop.qjit
    def f(x):
        def step(carried, _):
            jax.debug.callback(lambda x: seen.append(("debug", float(x))), x, ordered=True)
            bellhop.debug.callback(lambda x: seen.append(("ours", float(x))))(x)
            return carried * x, None

        def quiet(carried, _):
            jax.debug.callback(lambda x: seen.append(("unordered", float(x))), x)
            return carried + x, None

        return jax.lax.scan(step, 1.0, length=2)[0] + jax.lax.scan(quiet, x, length=2)[0]

    transform(f)(1.5)
    jax.effects_barrier()
    in_order = [each for each in seen if each[0] != "unordered"]
    assert in_order == [("debug", 1.5), ("ours", 1.5)] * 2
    assert seen.count(("unordered", 1.5)) == 2


def test_debug_callback_in_a_function_without_results_and_under_grad():
    seen = []

    @bellhop.qjit
    def f(x):
        jax.debug.callback(lambda x, *, name: seen.append((float(x), name)), x, name="x")

    f(1.5)
    assert seen == [(1.5, "x")]

    @bellhop.qjit
    @bellhop.grad
    def g(x):
        jax.debug.callback(lambda x: seen.append(float(x)), x)
        return x**2

    assert g(3.0) == 6.0
    assert seen[1:] == [3.0]


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_inside_a_circuit(device):
    seen = []

    @bellhop.qjit
    @qml.qnode(qml.device(device, wires=1))
    def circuit(x):
        qml.RX(jax.pure_callback(np.sin, SCALAR, x), wires=0)
        jax.debug.callback(lambda x: seen.append(float(x)), x)
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(circuit(0.3), np.cos(np.sin(0.3)))
    assert seen == [0.3]


def test_inside_a_region_of_the_same_device():
    region = bellhop.accelerate(
        lambda x: jax.pure_callback(np.sin, SCALAR, x) * 2, dev=jax.devices("cpu")[0]
    )
    np.testing.assert_allclose(bellhop.qjit(lambda x: region(x) + 1)(0.3), 2 * np.sin(0.3) + 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda host, x: jax.pure_callback(host, SCALAR, x),
        lambda host, x: jax.pure_callback(functools.partial(host), SCALAR, x),
        lambda host, x: jax.vmap(
            lambda y: jax.pure_callback(host, SCALAR, y, vmap_method="sequential")
        )(x[None]),
        lambda host, x: io_callback(host, SCALAR, x),
        lambda host, x: io_callback(host, SCALAR, x, ordered=True),
        lambda host, x: jax.debug.callback(host, x),
        lambda host, x: jax.debug.callback(host, x, ordered=True),
    ],
)
def test_the_note_of_an_exception_names_the_function(call):
    def boom(x):
        raise KeyError("no such thing")

    with pytest.raises(KeyError) as raised:
        bellhop.qjit(lambda x: call(boom, x))(0.5)
    (note,) = (note for note in raised.value.__notes__ if "raised in" in note)
    assert note.startswith("raised in callback 'boom', called from ")


def test_the_note_of_a_callback_in_a_library_names_the_users_line():
    source = """
def check(x):
    return jax.lax.cond(x > 1, lambda: jax.pure_callback(fail, scalar, x), lambda: x)
"""

    def fail(x):
        raise KeyError(x)

    library = {"jax": jax, "fail": fail, "scalar": SCALAR}
    exec(compile(source, sysconfig.get_path("purelib") + "/some_library.py", "exec"), library)
    check = jax.jit(library["check"])
    # JAX traces the library's function for the first program only.
    programs = [
        bellhop.qjit(lambda x: check(x)),
        bellhop.qjit(lambda x: 2 * check(x)),
    ]
    for f in programs:
        with pytest.raises(KeyError) as raised:
            f(2.0)
        line = f"{__file__}:{f.original_function.__code__.co_firstlineno}"
        assert any(f"'fail', called from {line}" in note for note in raised.value.__notes__)


def test_an_exception_is_the_same_object_and_later_calls_work():
    error = KeyError("no such thing")

    def host(x):
        if x > 1:
            raise error
        return x

    f = bellhop.qjit(lambda x: jax.pure_callback(host, SCALAR, x))
    with pytest.raises(KeyError) as raised:
        f(2.0)
    assert raised.value is error
    (note,) = error.__notes__
    assert "raised in callback 'host'" in note
    assert __file__ in note
    assert f(0.5) == 0.5


def test_a_wrong_result_is_an_error():
    f = bellhop.qjit(lambda x: jax.pure_callback(lambda x: np.zeros(3), SCALAR, x))
    with pytest.raises(TypeError, match=r"returned float64\[3\], declared float64\[\]"):
        f(0.5)


def test_arguments_may_be_kept_and_functions_go():
    kept = []
    function = lambda x: kept.append(x)
    gone = weakref.ref(function)
    f = bellhop.qjit(lambda x: jax.debug.callback(function, x))
    for number in range(3):
        f(np.full(1000, float(number)))
    assert [float(x.sum()) for x in kept] == [0, 1000, 2000]
    f = function = None
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("where", ["program", "region of another device"])
def test_buffer_callback(where):
    def host(context, out, tree, *, scale):
        np.asarray(out["sum"])[...] = np.asarray(tree["a"]).sum()
        np.asarray(out["all"])[...] = np.asarray(tree["b"]) * np.asarray(scale)

    types = {"sum": SCALAR, "all": jax.ShapeDtypeStruct((3,), jnp.float64)}
    call = buffer_callback(host, types, has_side_effect=True)

    def function(a, b):
        step = lambda b, _: (call({"a": a, "b": b}, scale=2.0)["all"], b)
        last, _ = jax.lax.scan(step, b, None, length=3)
        return call({"a": a, "b": last}, scale=1.0)

    with delegate_everywhere():
        if where != "program":
            function = bellhop.accelerate(function, dev="cpu:1")
        result = bellhop.qjit(function)(np.ones(4), np.arange(3.0))
    assert result["sum"] == 4.0
    np.testing.assert_array_equal(result["all"], 8 * np.arange(3.0))


def test_buffer_callback_in_the_memory_of_its_argument_and_under_vmap():
    def host(context, out, x):
        np.asarray(out)[...] += 1

    call = buffer_callback(host, SCALAR, vmap_method="sequential", input_output_aliases={0: 0})
    x = np.arange(3.0)
    np.testing.assert_array_equal(bellhop.qjit(jax.vmap(call))(x), x + 1)
    np.testing.assert_array_equal(x, np.arange(3.0))


def test_an_exception_in_buffer_callback_is_the_same_object():
    error = KeyError("no such thing")

    def host(context, out, x):
        raise error

    with pytest.raises(KeyError) as raised:
        bellhop.qjit(lambda x: buffer_callback(host, SCALAR)(x))(0.5)
    assert raised.value is error
    (note,) = error.__notes__
    assert "raised in callback 'host', called from " + __file__ in note


def test_what_a_lowering_rule_calls_by_the_public_name():
    diagonal, start = np.array([1.0, 2.0, 4.0]), np.arange(4, dtype=np.int32)
    f = bellhop.qjit(lambda b: spsolve(diagonal, start[:3], start, b))
    np.testing.assert_allclose(f(np.ones(3)), 1 / diagonal)


@pytest.mark.parametrize("hold", ["add_host_callback", "add_keepalive"])
def test_functions_that_only_jax_holds_are_refused_by_name(hold):
    own_p = Primitive("own")
    own_p.def_abstract_eval(lambda x: x)

    def own_function(*args):
        return args

    def lower(ctx, x):
        getattr(ctx.module_context, hold)(own_function)
        return jax.ffi.ffi_lowering("xla_ffi_python_cpu_callback")(ctx, x, index=np.uint64(0))

    mlir.register_lowering(own_p, lower)
    f = bellhop.qjit(lambda x: own_p.bind(x))
    line = f"{__file__}:{f.original_function.__code__.co_firstlineno}"
    with pytest.raises(bellhop.CompileError, match="stores the function in JAX's executable") as e:
        f(1.0)
    assert line in str(e.value)
    assert "own_function" in str(e.value)


def test_in_a_plain_jit_they_are_left_to_jax():
    f = jax.jit(lambda x: jax.pure_callback(np.sin, SCALAR, x))
    assert "xla_ffi_python_cpu_callback" in f.lower(0.3).as_text()
    np.testing.assert_allclose(f(0.3), np.sin(0.3))


def test_a_qjit_function_inside_a_plain_jit():
    inner = bellhop.qjit(lambda x: jax.pure_callback(np.sin, SCALAR, x))
    np.testing.assert_allclose(jax.jit(lambda x: inner(x) + 1)(0.3), np.sin(0.3) + 1)


def call_with_buffers(host, x):
    def write(_, out, x):
        np.asarray(out)[...] = host(np.asarray(x))

    return buffer_callback(write, SCALAR)(x)


JAX_CALLS = {
    "pure": lambda host, x: jax.pure_callback(host, SCALAR, x),
    "io": lambda host, x: io_callback(host, SCALAR, x),
    "ordered io": lambda host, x: io_callback(host, SCALAR, x, ordered=True),
    "debug": lambda host, x: jax.debug.callback(host, x) or x,
    "ordered debug": lambda host, x: jax.debug.callback(host, x, ordered=True) or x,
    "buffer": call_with_buffers,
}


@pytest.mark.parametrize("call", JAX_CALLS.values(), ids=JAX_CALLS)
def test_functions_that_a_program_has_traced_fail_in_jax_jit_as_before(call):
    def host(x):
        if x > 1:
            raise KeyError("no such thing")
        return np.asarray(x)

    library = jax.jit(lambda x: call(host, x))
    step = lambda x, _: (call(host, x), None)
    loop = lambda x: jax.lax.scan(step, x, None, length=2)[0]
    f = bellhop.qjit(lambda x: x + library(jax.lax.stop_gradient(x)) + loop(0.5))
    jax.block_until_ready(f(0.5))
    # JAX runs this program, and Bellhop converts its errors.
    with pytest.raises(KeyError, match="no such thing"):
        jax.block_until_ready(jax.jvp(f, (2.0,), (1.0,)))
    ways = {
        "itself": library,
        "in a jit": jax.jit(lambda x: 2 * library(x)),
        "ahead of time": jax.jit(library).lower(2.0).compile(),
        "loop": jax.jit(loop),
    }
    for name, f in ways.items():
        with pytest.raises(jax.errors.JaxRuntimeError, match="KeyError: 'no such thing'") as raised:
            jax.block_until_ready(f(2.0))
        assert "[bellhop" not in str(raised.value), name
