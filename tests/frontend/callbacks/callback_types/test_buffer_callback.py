"""buffer_callback: results written in place, in memory that is the program's."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax.experimental.buffer_callback import ExecutionStage
from tests.frontend.callbacks.callback_types.buffers import LARGE, SMALL, address, vector
from tests.frontend.forms import FORMS

import bellhop


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("write", ["out[...]", "asarray", "ufunc"])
def test_what_is_written_is_the_result(form, size, write):
    def add(context, out, x, y):
        assert context.stage == ExecutionStage.EXECUTE
        if write == "out[...]":
            out[...] = x + y
        elif write == "asarray":
            # As code for JAX's buffer_callback does.
            np.asarray(out)[...] = np.asarray(x) + np.asarray(y)
        else:
            np.add(x, y, out=out)

    x = jnp.arange(float(size))
    result = form(bellhop.buffer_callback(add, vector(size)))(x, 2 * x)
    np.testing.assert_array_equal(result, 3 * x)


def test_context_has_no_stream_on_the_cpu(form):
    messages = []

    def look(context, out):
        with pytest.raises(RuntimeError) as caught:
            _ = context.stream
        messages.append(str(caught.value))
        out[...] = 1.0

    assert form(bellhop.buffer_callback(look, float))() == 1.0
    assert messages == [
        "a buffer_callback that runs on the CPU has no stream. Read context.stream on a GPU only."
    ]


def test_pytrees_of_arguments_and_results(form):
    def spread(context, out, value, *, scale):
        out["sum"][...] = (value["a"].sum() + value["b"][0]) * scale
        out["parts"][0][...] = value["a"]
        out["parts"][1][...] = scale > 2

    types = {"parts": (vector(3), bool), "sum": float}
    callback = bellhop.buffer_callback(spread, types)
    value = {"a": np.arange(3.0), "b": (4.0,)}
    result = form(lambda value, scale: callback(value, scale=scale))(value, 3.0)

    assert jax.tree.structure(result) == jax.tree.structure(types)
    assert result["sum"] == 21.0
    assert result["parts"][1].dtype == bool
    assert result["parts"][1]
    np.testing.assert_array_equal(result["parts"][0], np.arange(3.0))


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_only_outputs_are_writable(form, size):
    seen = []

    def copy(context, out, x):
        seen.append((out.flags.writeable, x.flags.writeable, type(out), type(x)))
        out[...] = x

    form(bellhop.buffer_callback(copy, vector(size)))(jnp.ones(size))
    assert seen == [(True, False, np.ndarray, np.ndarray)]


def test_in_place_no_copy_is_made():
    addresses = {}

    def negate(context, out, x):
        addresses.update(out=address(out), x=address(x))
        np.negative(x, out=out)

    x = jnp.arange(float(1 << 20))
    result = bellhop.qjit(bellhop.buffer_callback(negate, vector(1 << 20), in_place=True))(x)
    assert addresses == {"out": result.unsafe_buffer_pointer(), "x": x.unsafe_buffer_pointer()}
    np.testing.assert_array_equal(result, -np.arange(float(1 << 20)))


@pytest.mark.parametrize("value", [0, 1.5, False, (), "text"], ids=repr)
def test_returned_value_is_an_error(form, value):
    def wrong(context, out):
        out[...] = 1.0
        return value

    with pytest.raises(Exception, match="callback 'wrong' returned a value of type") as caught:
        form(bellhop.buffer_callback(wrong, float))()
    if form is not jax.jit:
        assert isinstance(caught.value, TypeError)


KEEPERS = {
    "array": lambda out: out,
    "view": lambda out: out[2:],
    "memoryview": memoryview,
    "closure": lambda out: lambda: out,
}


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("raises", [False, True], ids=["returns", "raises"])
@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
def test_what_is_kept_in_place_is_an_error(size, keep, raises):
    kept, keeps = [], [True]

    def greedy(context, out, x):
        local = x[1:]
        out[...] = x
        if keeps[0]:
            kept.append(keep(out))
        if raises:
            raise KeyError(local.shape)

    f = bellhop.qjit(bellhop.buffer_callback(greedy, vector(size), in_place=True))
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"'greedy' kept its output 0 \(or a view") as caught:
            f(np.ones(size))
        assert isinstance(caught.value.__cause__, KeyError) == raises
        assert "raised in callback 'greedy'" in caught.value.__notes__[0]
        kept.clear()
    keeps[0] = False
    if raises:  # The frame, which holds views, is nobody's hands.
        with pytest.raises(KeyError):
            f(np.ones(size))
    else:
        np.testing.assert_array_equal(f(np.full(size, 3.0)), np.full(size, 3.0))


def test_argument_kept_in_place_is_named_by_its_own_place():
    kept = []

    def greedy(context, out, x, y):
        kept.append(y)

    f = bellhop.qjit(bellhop.buffer_callback(greedy, vector(SMALL), in_place=True))
    with pytest.raises(RuntimeError, match="callback 'greedy' kept its argument 1"):
        f(1.0, np.ones(LARGE))


@pytest.mark.parametrize("form", [bellhop.qjit, jax.jit], ids=["qjit", "jit"])
@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
def test_kept_arrays_are_the_functions_own(form, keep):
    kept = []

    def greedy(context, out, x):
        out[...] = x
        kept.extend([keep(out), keep(x)])

    f = form(bellhop.buffer_callback(greedy, vector(LARGE)))
    result = f(np.ones(LARGE))
    for _ in range(3):
        bellhop.qjit(lambda n: jnp.full(LARGE, -1.0) * n + 1)(2.0).block_until_ready()
    for array in kept:
        array = np.asarray(array() if callable(array) else array)
        np.testing.assert_array_equal(array, np.ones(array.size))
        if array.flags.writeable:
            array[...] = 2.0
    np.testing.assert_array_equal(result, np.ones(LARGE))


# NumPy 2.5 would rather not have it done.
@pytest.mark.filterwarnings("ignore:Setting the .* on a NumPy array:DeprecationWarning")
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("attribute", ["shape", "dtype", "strides"])
def test_output_of_another_shape_is_an_error(in_place, attribute):
    changes = [{"shape": (2, 4), "dtype": np.dtype(int), "strides": (0,)}[attribute]]

    def change(context, out):
        out[...] = 1.0
        for value in changes:
            setattr(out, attribute, value)

    f = bellhop.qjit(bellhop.buffer_callback(change, vector(SMALL), in_place=in_place))
    # A copy is stored with the strides that it has.
    if in_place or attribute != "strides":
        with pytest.raises(TypeError, match="changed the shape or dtype of its output 0"):
            f()
    changes.clear()
    np.testing.assert_array_equal(f(), np.ones(SMALL))


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_exception_reaches_the_caller_and_may_hold_the_output(size):
    error = KeyError("held")

    def fail(context, out, x):
        out[...] = 5.0
        error.out = out[1:]
        raise error

    f = bellhop.qjit(bellhop.buffer_callback(fail, vector(size)))
    with pytest.raises(KeyError) as caught:
        f(np.ones(size))
    assert caught.value is error
    assert "raised in callback 'fail', called from " in error.__notes__[0]
    np.testing.assert_array_equal(error.out, np.full(size - 1, 5.0))


@pytest.mark.parametrize("form", [FORMS["qjit"], FORMS["jit"]], ids=["qjit", "jit"])
def test_dead_call_goes_unless_it_has_a_side_effect(form):
    calls = []

    def count(context, out, name):
        calls.append(float(name))
        out[...] = 0.0

    pure = bellhop.buffer_callback(count, float)
    effect = bellhop.buffer_callback(count, float, has_side_effect=True)

    def program(x):
        pure(x)
        effect(x + 1)
        effect(x + 1)
        return x

    form(program)(1.0)
    assert sorted(calls) == [2.0, 2.0]


def test_call_with_a_side_effect_and_no_result_is_made(form):
    calls = []
    callback = bellhop.buffer_callback(
        lambda context, out, x: calls.append((out, float(x))), (), has_side_effect=True
    )

    def program(x):
        callback(x)
        return x

    form(program)(2.0)
    assert calls == [((), 2.0)]


def test_in_loops_and_conditionals():
    def add_one(context, out, x):
        x += 1

    callback = bellhop.buffer_callback(add_one, vector(SMALL), input_output_aliases={0: 0})

    @bellhop.qjit
    def f(x, n):
        x = jax.lax.fori_loop(0, n, lambda i, x: callback(x), x)
        return jax.lax.cond(n > 3, callback, lambda x: x, x)

    np.testing.assert_array_equal(f(np.zeros(SMALL), 3), np.full(SMALL, 3.0))
    np.testing.assert_array_equal(f(np.zeros(SMALL), 4), np.full(SMALL, 5.0))


def test_between_gates_of_a_circuit():
    def halve(context, out, x):
        np.divide(x, 2, out=out)

    callback = bellhop.buffer_callback(halve, float)

    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, wires=0)
        qml.RX(callback(x), wires=0)
        return qml.expval(qml.PauliZ(0))

    assert circuit(0.8) == pytest.approx(np.cos(1.2), abs=1e-12)


def test_derivatives_are_refused_by_name():
    callback = bellhop.buffer_callback(lambda context, out, x: None, float)
    message = r"buffer_callback '<lambda>' .*jax.custom_jvp or jax.custom_vjp"
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        bellhop.qjit(jax.grad(callback))(1.0)
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        jax.jvp(callback, (1.0,), (1.0,))
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        jax.linear_transpose(callback, 1.0)(1.0)
    callback = bellhop.buffer_callback(lambda context, out, x: None, float, has_side_effect=True)
    with pytest.raises(bellhop.DifferentiableCompileError, match="side effects have no derivative"):
        jax.grad(callback)(1.0)


def test_derivative_of_ones_own():
    def sine(context, out, x):
        np.sin(x, out=out)

    def cosine(context, out, x):
        np.cos(x, out=out)

    call = jax.custom_jvp(bellhop.buffer_callback(sine, float))
    call.defjvp(lambda x, dx: (call(*x), bellhop.buffer_callback(cosine, float)(*x) * dx[0]))
    np.testing.assert_allclose(bellhop.qjit(jax.grad(call))(0.3), np.cos(0.3), rtol=1e-15)


@pytest.mark.parametrize("wrong", [3, None, float], ids=repr)
def test_what_is_no_function_is_refused(wrong):
    with pytest.raises(TypeError, match="buffer_callback takes a function first"):
        bellhop.buffer_callback(wrong, float)


def test_command_buffers_mean_nothing_on_the_cpu(form):
    def one(context, out):
        out[...] = 1.0

    callback = bellhop.buffer_callback(one, float, command_buffer_compatible=True)
    for _ in range(2):
        assert form(callback)() == 1.0


def test_calls_from_several_threads():
    import concurrent.futures

    def square(context, out, x):
        np.multiply(x, x, out=out)

    f = bellhop.qjit(bellhop.buffer_callback(square, vector(LARGE)))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for i, result in enumerate(pool.map(lambda i: f(np.full(LARGE, float(i))), range(32))):
            np.testing.assert_array_equal(result, np.full(LARGE, float(i * i)))


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_what_is_not_written_is_zero(size):
    def write_half(context, out, x):
        out[: size // 2] = x

    # Memory that was somebody's.
    secrets = [np.full(size, 7.0) for _ in range(8)]
    del secrets
    f = bellhop.qjit(bellhop.buffer_callback(write_half, vector(size)))
    for x in (1.0, 2.0):
        np.testing.assert_array_equal(f(x), np.repeat([x, 0.0], [size // 2, size - size // 2]))
