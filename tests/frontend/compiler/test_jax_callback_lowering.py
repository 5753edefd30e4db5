"""Callbacks in programs for other devices: JAX's own, around what stands around ours.

Without a GPU, programs are lowered for one ahead of time, and delegated calls run on the CPU.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.needs import PYTORCH, params

import bellhop
from bellhop.compiler.jax_callback_lowering import delegate_everywhere

STRUCT = jax.ShapeDtypeStruct
VECTOR = STRUCT((3,), np.float64)
X = np.arange(3.0)


@pytest.fixture
def delegated():
    with delegate_everywhere():
        yield


@pytest.fixture(params=["plain jit", "region"])
def form(request, delegated):
    """Make a program whose callbacks are JAX's, from a function."""
    if request.param == "plain jit":
        return jax.jit
    return lambda function: bellhop.qjit(bellhop.accelerate(function, dev="cpu:1"))


def add_one(context, out, x):
    np.asarray(out)[...] = np.asarray(x) + 1


FLAVOURS = {
    "pure": (lambda: bellhop.pure_callback(lambda x: x + 1, VECTOR), "python"),
    "io": (lambda: bellhop.io_callback(lambda x: x + 1, VECTOR), "python"),
    "ordered io": (lambda: bellhop.io_callback(lambda x: x + 1, VECTOR, ordered=True), "python"),
    "buffer": (lambda: bellhop.buffer_callback(add_one, VECTOR), "buffer_python"),
    "buffer with effect": (
        lambda: bellhop.buffer_callback(add_one, VECTOR, has_side_effect=True),
        "buffer_python",
    ),
}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_values(form, flavour):
    make, _ = FLAVOURS[flavour]
    callback = make()
    f = form(lambda x: 2 * callback(x))
    for scale in (1.0, 3.0):
        np.testing.assert_array_equal(f(scale * X), 2 * (scale * X + 1))


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_program_for_a_gpu_calls_what_jax_has_there(monkeypatch, flavour, platform):
    # JAX asks for the client of the platform, and only uses that of a TPU.
    monkeypatch.setattr(jax.interpreters.mlir.ModuleContext, "get_backend", lambda self: None)
    make, target = FLAVOURS[flavour]
    target = "xla_buffer_python_gpu_callback" if "buffer" in target else "xla_ffi_python_gpu"
    text = jax.jit(make()).trace(X).lower(lowering_platforms=(platform,)).as_text()
    assert f"@{target}" in text
    assert "bellhop" not in text
    assert text.count("has_side_effect = true") == (flavour not in ("pure", "buffer"))


def test_aliases_and_command_buffers_reach_jax(monkeypatch):
    callback = bellhop.buffer_callback(
        add_one, VECTOR, input_output_aliases={0: 0}, command_buffer_compatible=True
    )
    text = jax.jit(callback).trace(X).lower(lowering_platforms=("cuda",)).as_text()
    assert "@xla_buffer_python_gpu_callback_cmd_buffer" in text
    assert "output_operand_alias<output_tuple_indices = [], operand_index = 0" in text


def test_debug_callback_for_a_gpu_is_ordered(monkeypatch):
    monkeypatch.setattr(jax.interpreters.mlir.ModuleContext, "get_backend", lambda self: None)

    def f(x):
        bellhop.debug.callback(print)(x)
        bellhop.debug.print("{}", x)
        return x

    text = jax.jit(f).trace(X).lower(lowering_platforms=("cuda",)).as_text()
    first, second = (line for line in text.splitlines() if "xla_ffi_python_gpu_callback" in line)
    token = first.split("=")[0].strip()
    assert f"({token}, " in second


def test_jax_refuses_buffers_on_a_tpu():
    with pytest.raises(ValueError, match="not supported on tpu"):
        jax.jit(FLAVOURS["buffer"][0]()).trace(X).lower(lowering_platforms=("tpu",))


@pytest.mark.parametrize("platforms", [("cpu", "cuda"), ("cuda", "tpu", "cpu")])
@pytest.mark.parametrize("flavour", [*FLAVOURS, "debug"])
def test_program_for_several_platforms_is_refused_by_name(flavour, platforms):
    callback = FLAVOURS[flavour][0]() if flavour in FLAVOURS else bellhop.debug.callback(print)
    with pytest.raises(
        NotImplementedError, match=rf"callback .* is lowered for {', '.join(platforms)} at once"
    ):
        jax.jit(callback).trace(X).lower(lowering_platforms=platforms)


def test_debug_callbacks_run_in_order(form):
    seen = []

    def f(x):
        def step(i, x):
            bellhop.debug.callback(lambda i, x: seen.append((int(i), x.copy())))(i, x)
            return x + 1

        return jax.lax.fori_loop(0, 4, step, x)

    np.testing.assert_array_equal(form(f)(X), X + 4)
    jax.effects_barrier()
    assert [i for i, _ in seen] == [0, 1, 2, 3]
    for i, x in seen:
        np.testing.assert_array_equal(x, X + i)


def test_arguments_are_read_only_numpy_arrays(form):
    seen = []

    def look(tree, *, y):
        for leaf in (*tree, y):
            seen.append((type(leaf), leaf.flags.writeable, leaf.flags.c_contiguous))
        return tree[0] + y

    callback = bellhop.pure_callback(look, VECTOR)
    result = form(lambda x, y: callback((x, 2 * x), y=y))(X, 1.0)
    np.testing.assert_array_equal(result, X + 1)
    assert seen == [(np.ndarray, False, True)] * 3


def test_buffers_are_those_of_jax(form):
    from jax.experimental.buffer_callback import Buffer, ExecutionContext

    seen = []

    def look(context, out, x):
        seen.extend([type(context), type(out["a"]), type(x)])
        np.asarray(out["a"])[...] = 2 * np.asarray(x)

    callback = bellhop.buffer_callback(look, {"a": VECTOR})
    np.testing.assert_array_equal(form(callback)(X)["a"], 2 * X)
    assert seen == [ExecutionContext, Buffer, Buffer]


def test_wrong_result_is_named(form):
    callback = bellhop.pure_callback(lambda x: x[:2], VECTOR)
    message = r"pure_callback '<lambda>' returned float64\[2\], declared float64\[3\]"
    with pytest.raises(Exception, match=message):
        jax.block_until_ready(form(callback)(X))


def test_returned_value_of_a_buffer_callback_is_named(form):
    callback = bellhop.buffer_callback(lambda context, out, x: 3, VECTOR)
    with pytest.raises(Exception, match="callback '<lambda>' returned a value of type int"):
        jax.block_until_ready(form(callback)(X))


@pytest.mark.parametrize("flavour", ["pure", "io", "debug", "buffer"])
def test_exception_in_a_region_is_the_object_itself(delegated, flavour):
    error = LookupError("nothing there")
    fails = [True]

    def look(*args):
        if fails[0]:
            raise error
        return None if len(args) == 2 or flavour == "debug" else args[0]

    callback = {
        "pure": lambda: bellhop.pure_callback(look, VECTOR),
        "io": lambda: bellhop.io_callback(look, VECTOR),
        "debug": lambda: bellhop.debug.callback(look),
        "buffer": lambda: bellhop.buffer_callback(lambda c, out, x: look(out, x), VECTOR),
    }[flavour]()
    f = bellhop.qjit(
        bellhop.accelerate(
            lambda x: (callback(x), x)[1] if flavour == "debug" else callback(x), dev="cpu:1"
        )
    )
    for _ in range(2):
        with pytest.raises(LookupError) as caught:
            f(X)
        assert caught.value is error
    if flavour != "buffer":
        assert "raised in callback 'look', called from " in error.__notes__[0]
    fails[0] = False
    jax.block_until_ready(f(X))


def test_interrupt_in_a_region_is_one(delegated):
    def stop(x):
        raise KeyboardInterrupt

    callback = bellhop.pure_callback(stop, VECTOR)
    with pytest.raises(KeyboardInterrupt):
        bellhop.qjit(bellhop.accelerate(callback, dev="cpu:1"))(X)


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims"])
def test_vmap(form, method):
    shapes = []

    def double(x):
        shapes.append(x.shape)
        return 2 * x

    callback = bellhop.pure_callback(double, VECTOR, vmap_method=method)
    batch = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(form(jax.vmap(callback))(batch), 2 * batch)
    assert shapes == ([(4, 3)] if method == "expand_dims" else [(3,)] * 4)


def test_derivative(form):
    @bellhop.pure_callback
    def sine(x) -> float:
        return np.sin(x)

    cosine = bellhop.pure_callback(np.cos, float)
    sine.jvp(lambda x, dx: (sine(*x), cosine(*x) * dx[0]))
    np.testing.assert_allclose(form(jax.grad(sine))(0.3), np.cos(0.3), rtol=1e-15)


def test_region_inside_a_delegated_region():
    def inner(x):
        return bellhop.pure_callback(lambda x: x + 1, VECTOR)(x)

    def outer(x):
        return 2 * bellhop.accelerate(inner, dev="cpu:0")(3 * x)

    with delegate_everywhere():
        result = bellhop.qjit(lambda x: bellhop.accelerate(outer, dev="cpu:1")(x))(X)
    np.testing.assert_array_equal(result, 2 * (3 * X + 1))


def test_the_program_itself_is_not_delegated(delegated):
    callback = FLAVOURS["pure"][0]()
    text = bellhop.qjit(lambda x: callback(x)).lower(X).as_text()
    assert "@bellhop_callback" in text


@pytest.mark.gpu
@pytest.mark.parametrize(
    "flavour", params(FLAVOURS, {name: PYTORCH for name in FLAVOURS if "buffer" in name})
)
def test_in_a_region_on_a_gpu(flavour):
    if "buffer" in flavour:
        import torch

        def write(context, out, x):
            torch.from_dlpack(out).copy_(torch.from_dlpack(x) + 1)

        callback = bellhop.buffer_callback(write, VECTOR)
    else:
        callback = FLAVOURS[flavour][0]()
    f = bellhop.qjit(bellhop.accelerate(lambda x: 2 * callback(x), dev="gpu"))
    np.testing.assert_array_equal(f(X), 2 * (X + 1))


@pytest.mark.gpu
def test_exception_and_print_in_a_region_on_a_gpu(capsys):
    def look(x):
        raise LookupError("nothing there")

    def region(x):
        bellhop.debug.print("before {}", x[1])
        return bellhop.io_callback(look, VECTOR, ordered=True)(jnp.sin(x))

    with pytest.raises(LookupError, match="nothing there"):
        bellhop.qjit(bellhop.accelerate(region, dev="gpu"))(X)
    assert capsys.readouterr().out == "before 1.0\n"


def test_taps_are_left_to_their_thread(form):
    seen = []
    f = form(lambda x: (bellhop.tap(seen.append, x), bellhop.tap(seen.append, 2 * x), x + 1)[2])
    np.testing.assert_array_equal(f(X), X + 1)
    bellhop.barrier_wait()
    np.testing.assert_array_equal(seen, [X, 2 * X])


def test_device_of_a_tap_is_refused(delegated):
    def look(x, transforms, *, device):
        """Take what is called for with the device."""

    tap = lambda x: bellhop.host_callback.id_tap(look, x, tap_with_device=True)
    with pytest.raises(
        NotImplementedError, match="id_tap 'look' .* passes the device to its function, which"
    ):
        jax.jit(tap)(1.0)
