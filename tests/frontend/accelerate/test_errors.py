"""Regions that fail: the error says which and where, and everything works afterwards."""

import functools
import inspect
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax.sharding import Mesh, PartitionSpec

import bellhop
from bellhop.compiler import regions
from bellhop.devices import device_memory

OUT_OF_MEMORY = "RESOURCE_EXHAUSTED: Out of memory allocating 1099511627776 bytes."
LOST = "INTERNAL: device lost"


@pytest.fixture
def program():
    def decay(x):
        return jnp.exp(-x)

    far = bellhop.accelerate(decay, dev="cpu:1")

    @bellhop.qjit
    def program(x):
        return far(x) + 1  # the call

    program(1.0)
    source, first = inspect.getsourcelines(program.original_function)
    line = first + next(i for i, text in enumerate(source) if "# the call" in text)
    return program, f"raised in region 'decay' on cpu:1, called from {__file__}:{line}"


@pytest.mark.parametrize("form", [bellhop.qjit, lambda f: f], ids=["qjit", ""])
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda f, x: f(x, "text", 2), "y"),
        (lambda f, x: f(x, [x, {"a": len}], 2), r"y\[1\]\['a'\]"),
        (lambda f, x: f(x, y=None, more="text", negate=True), "more"),
    ],
)
def test_argument_that_is_no_array_is_named(form, call, name):
    @bellhop.accelerate(static_argnames="negate")
    def f(x, y, negate=False, **more):
        return x

    message = rf"accelerate of 'f' \({__file__}:\d+\): the argument {name} is of type"
    with pytest.raises(TypeError, match=message):
        form(lambda x: call(f, x))(1.0)


def test_type_error_of_the_function_is_its_own():
    def f(x):
        return x + "text"

    with pytest.raises(TypeError, match="unsupported operand|add does not accept"):
        bellhop.accelerate(f)(1.0)


def check(program, note, text):
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            program(1.0)
        assert text in str(caught.value)
        assert caught.value.__notes__ == [note]


def test_out_of_memory_when_launched(program, monkeypatch):
    program, note = program

    def launch(self, arguments):
        raise jax.errors.JaxRuntimeError(OUT_OF_MEMORY)

    with monkeypatch.context() as patch:
        patch.setattr(regions.Region, "launch", launch)
        check(program, note, OUT_OF_MEMORY)
    np.testing.assert_allclose(program(1.0), np.exp(-1.0) + 1)


def test_device_lost_when_results_are_fetched(program, monkeypatch):
    program, note = program

    class Lost:
        def __array__(self, *args, **kwargs):
            raise jax.errors.JaxRuntimeError(LOST)

    with monkeypatch.context() as patch:
        patch.setattr(regions.Region, "launch", lambda self, arguments: [Lost()])
        check(program, note, LOST)
    np.testing.assert_allclose(program(1.0), np.exp(-1.0) + 1)


def test_real_lack_of_memory(monkeypatch):
    def huge(x):
        return jnp.sum(jnp.sort(x * jnp.arange(2.0**45)))

    program = bellhop.qjit(lambda x: bellhop.accelerate(huge, dev="cpu:1")(x))
    message = r"'huge', called from .*, needs .*e\+05 GiB of memory on cpu:1"
    with pytest.raises(bellhop.CompileError, match=message):
        program(1.0)
    # Of devices that do not say what they have.
    monkeypatch.setattr(device_memory, "_single_device_memory", lambda *_: sys.maxsize)
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"(?i)memory|allocat") as caught:
            program(1.0)
        assert any("region 'huge'" in note for note in caught.value.__notes__)
    assert bellhop.qjit(lambda x: bellhop.accelerate(jnp.sin, dev="cpu:1")(x))(0.0) == 0.0


def test_dtype_that_the_device_has_not(monkeypatch):
    """A TPU refuses float64 when the region is compiled for it."""
    error = jax.errors.JaxRuntimeError("UNIMPLEMENTED: While rewriting computation: F64")

    def compile_(region, arguments):
        raise error

    def double(x):
        return 2 * x

    program = bellhop.qjit(lambda x: bellhop.accelerate(double, dev="cpu:1")(x))
    with monkeypatch.context() as patch:
        patch.setattr(regions, "_compile", compile_)
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            program(1.0)
    assert caught.value is error
    (note,) = [note for note in error.__notes__ if "region" in note]
    assert note.startswith(f"raised when region 'double', called from {__file__}:")
    assert note.endswith("was compiled for cpu:1")
    assert program(1.0) == 2.0
    error.__traceback__ = None


NOT_CALLED_BY_A_LINE = {
    "itself": lambda f: f,
    "jit": lambda f: jax.jit(f),
    "inner jit": lambda f: lambda x: jax.jit(f)(x),
    "remat": jax.checkpoint,
    "branch": lambda f: lambda x: jax.lax.cond(x > 0, f, f, x),
    "nested": lambda f: bellhop.accelerate(f, dev="cpu:0"),
}


@pytest.mark.parametrize("wrapper", NOT_CALLED_BY_A_LINE.values(), ids=NOT_CALLED_BY_A_LINE)
def test_region_that_no_line_of_the_users_calls_is_named_by_its_own(wrapper):
    failing = lambda x: 1 / 0

    @bellhop.accelerate(dev="cpu:1")
    def f(x):
        return jax.pure_callback(failing, x, x)

    line = inspect.getsourcelines(f)[1]
    with pytest.raises(ZeroDivisionError) as caught:
        bellhop.qjit(wrapper(f))(1.0)
    note = f"raised in region 'f' on cpu:1, called from {__file__}:{line}"
    assert note in caught.value.__notes__


def test_region_of_a_loop_is_named_as_the_function():
    def body(x):
        return jax.pure_callback(lambda x: 1 / 0, x, x)

    with pytest.raises(ZeroDivisionError) as caught:
        bellhop.qjit(lambda x: jax.lax.map(bellhop.accelerate(body, dev="cpu:1"), x))(np.ones(3))
    assert any("region 'body' on cpu:1" in note for note in caught.value.__notes__)


def test_callback_of_jax_that_no_line_of_the_users_calls():
    def fail(x):
        raise ArithmeticError("no")

    call = functools.partial(jax.pure_callback, fail, jax.ShapeDtypeStruct((), float))
    line = inspect.getsourcelines(fail)[1]
    with pytest.raises(ArithmeticError) as caught:
        bellhop.qjit(call)(1.0)
    assert f"called from {__file__}:{line}" in caught.value.__notes__[0]


def test_callback_of_jax_has_the_line_of_the_function():
    def same(x):
        return x

    program = bellhop.qjit(lambda x: jax.pure_callback(same, x, x))
    program(1.0)
    with bellhop.profile() as p:
        program(1.0)
    line = inspect.getsourcelines(same)[1]
    assert [row.definition for row in p.rows if row.name == "same"] == [f"{__file__}:{line}"]


def test_result_elsewhere_has_the_line_of_the_function():
    function = lambda x: 2 * x
    program = bellhop.qjit(function, out_shardings="cpu:1")
    program(1.0)
    with bellhop.profile() as p:
        program(1.0)
    line = inspect.getsourcelines(function)[1]
    assert [row.site for row in p.rows if "region" in row.kind] == [f"{__file__}:{line}"]


def test_fused_regions_are_named_all():
    def first(x):
        return jnp.sin(x)

    def second(x):
        return fails(x)

    @bellhop.pure_callback
    def fails(x) -> float:
        raise LookupError("inside")

    f, g = bellhop.accelerate(first, dev="cpu:1"), bellhop.accelerate(second, dev="cpu:1")
    with pytest.raises(LookupError) as caught:
        bellhop.qjit(lambda x: g(f(x)))(1.0)
    assert any("region 'first, second' on cpu:1" in note for note in caught.value.__notes__)


def test_error_in_one_thread_leaves_others_alone(program, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    program, _ = program
    original = regions.Region.launch

    def launch(self, arguments):
        if arguments[0] < 0:
            raise jax.errors.JaxRuntimeError(OUT_OF_MEMORY)
        return original(self, arguments)

    monkeypatch.setattr(regions.Region, "launch", launch)

    def run(x):
        try:
            return float(program(x))
        except jax.errors.JaxRuntimeError:
            return None

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, [1.0, -1.0] * 50))
    assert results[1::2] == [None] * 50
    np.testing.assert_allclose(results[::2], np.exp(-1.0) + 1)


@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(x, 0)
    return qml.expval(qml.Z(0))


def over_two_devices(function):
    return bellhop.accelerate(function, dev=jax.devices("cpu")[:2])


def in_shard_map(part):
    mesh, spec = Mesh(np.array(jax.devices("cpu")[:2]), ("x",)), PartitionSpec("x")
    return over_two_devices(jax.shard_map(part, mesh=mesh, in_specs=spec, out_specs=spec))


# What each of several devices would do.
ON_EACH = {
    "a callback": (
        over_two_devices(bellhop.pure_callback(lambda x: x, jax.ShapeDtypeStruct((2,), float))),
        r"runs on several devices .* where callbacks are not supported",
    ),
    "a region": (
        in_shard_map(bellhop.accelerate(jnp.sin, dev="cpu:1")),
        r"contains a region on cpu:1 inside of a jax\.shard_map",
    ),
    "a circuit": (
        in_shard_map(lambda x: x * circuit(x[0])),
        r"runs a circuit on a quantum device, which only",
    ),
}


def test_a_name_like_that_of_a_callback_is_none():
    def bellhop_callback(x):
        return 2 * x

    region = over_two_devices(lambda x: jax.jit(bellhop_callback)(x))
    assert bellhop.qjit(region)(np.array([0.5, 1.5])).tolist() == [1.0, 3.0]


@pytest.mark.parametrize(("region", "message"), ON_EACH.values(), ids=ON_EACH)
def test_what_one_device_does_is_refused_on_several(region, message):
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(region)(np.array([0.5, 1.5]))
