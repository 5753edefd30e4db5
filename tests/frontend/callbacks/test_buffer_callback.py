"""buffer_callback: results written in place, in memory that is the program's."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax.experimental.buffer_callback import ExecutionStage

import bellhop

STRUCT = jax.ShapeDtypeStruct
SMALL, LARGE = 8, 100_000
FORMS = {"qjit": bellhop.qjit, "jit": jax.jit, "eager": lambda function: function}


def address(array):
    return array.__array_interface__["data"][0]


def vector(size):
    return STRUCT((size,), np.float64)


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request):
    return request.param


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
        "a buffer_callback that runs on the CPU has no stream. Read it on a GPU only."
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


def test_no_copy_of_eight_megabytes_is_made():
    addresses = {}

    def negate(context, out, x):
        addresses.update(out=address(out), x=address(x))
        np.negative(x, out=out)

    x = jnp.arange(float(1 << 20))
    result = bellhop.qjit(bellhop.buffer_callback(negate, vector(1 << 20)))(x)
    assert addresses == {"out": result.unsafe_buffer_pointer(), "x": x.unsafe_buffer_pointer()}
    np.testing.assert_array_equal(result, -np.arange(float(1 << 20)))


@pytest.mark.parametrize("size", [0, 1, SMALL, LARGE])
def test_aliased_argument_is_where_the_result_is(form, size):
    same = []

    def double(context, out, x):
        same.append(address(out) == address(x) or size == 0)
        assert x.flags.writeable or size == 0
        x *= 2

    callback = bellhop.buffer_callback(double, vector(size), input_output_aliases={0: 0})
    value = jnp.arange(float(size))
    result = form(lambda x: callback(x + 1))(value)
    np.testing.assert_array_equal(result, 2 * (value + 1))
    assert all(same)


def test_aliased_intermediate_value_is_given_up_without_a_copy():
    pointers = []

    def note(context, out, x):
        pointers.append((address(out), address(x)))
        out += 1

    callback = bellhop.buffer_callback(note, vector(LARGE), input_output_aliases={0: 0})
    result = bellhop.qjit(lambda x: callback(callback(callback(2 * x))))(jnp.ones(LARGE))
    np.testing.assert_array_equal(result, np.full(LARGE, 5.0))
    # All three calls work in the memory of the result.
    assert pointers == [(result.unsafe_buffer_pointer(),) * 2] * 3


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_aliased_value_that_the_program_still_needs_is_copied(form, size):
    def overwrite(context, out, x, y):
        x[...] = -y

    callback = bellhop.buffer_callback(overwrite, vector(size), input_output_aliases={0: 0})
    argument = jnp.arange(float(size))

    def program(x):
        y = 2 * x
        # The same value as the argument that goes and as the one that stays.
        return callback(y, y), y, callback(x, x), x

    for result, factor in zip(form(program)(argument), (-2, 2, -1, 1), strict=True):
        np.testing.assert_array_equal(result, factor * np.arange(float(size)))
    np.testing.assert_array_equal(argument, np.arange(float(size)))


def test_aliases_count_the_leaves_of_arguments_and_results(form):
    shared = []

    def exchange(context, out, pair, *, z):
        first, second = out
        shared.append((address(second) == address(pair[1]), address(first) == address(z)))
        np.multiply(pair[1], 2, out=pair[1])
        np.multiply(z, 3, out=z)

    aliases = {1: 1, 2: 0}
    types = (vector(2), STRUCT((3,), np.int64))
    callback = bellhop.buffer_callback(exchange, types, input_output_aliases=aliases)
    first, second = form(lambda x, y, z: callback((x, y), z=z))(
        1.0, np.array([1, 2, 3]), np.array([4.0, 5.0])
    )
    np.testing.assert_array_equal(first, [12.0, 15.0])
    np.testing.assert_array_equal(second, [2, 4, 6])
    assert shared == [(True, True)]


@pytest.mark.parametrize(
    ("aliases", "message"),
    [
        ({2: 0}, r"with 2: 0, and its arguments are numbered in \[0, 2\)"),
        ({-1: 0}, r"with -1: 0, and its arguments are numbered in \[0, 2\)"),
        ({0: 1}, r"with 0: 1, and its results are numbered in \[0, 1\)"),
        ({1: 0}, r"with 1: 0: that argument is float64\[3\] and that result float64\[2\]"),
        ({0: 0, 1: 0}, r"with 1: 0: that argument is"),
    ],
)
def test_wrong_aliases_are_refused(form, aliases, message):
    callback = bellhop.buffer_callback(
        lambda context, out, x, y: None, vector(2), input_output_aliases=aliases
    )
    with pytest.raises(ValueError, match=rf"^buffer_callback '<lambda>' has .*{message}"):
        form(callback)(np.zeros(2), np.zeros(3))


def test_aliases_of_another_dtype_and_twice_the_same_result_are_refused():
    def nothing(context, out, x, y):
        pass

    callback = bellhop.buffer_callback(nothing, vector(2), input_output_aliases={0: 0})
    with pytest.raises(ValueError, match=r"that argument is float32\[2\] and that result float64"):
        callback(np.zeros(2, np.float32), 0.0)
    callback = bellhop.buffer_callback(nothing, vector(2), input_output_aliases={0: 0, 1: 0})
    with pytest.raises(ValueError, match=r"\{0: 0, 1: 0\}, two for one result"):
        callback(np.zeros(2), np.zeros(2))


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
@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
def test_output_that_is_kept_is_an_error(size, keep):
    kept, keeps = [], [True]

    def greedy(context, out, x):
        out[...] = x
        if keeps[0]:
            kept.append(keep(out))

    f = bellhop.qjit(bellhop.buffer_callback(greedy, vector(size)))
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"callback 'greedy' kept its output 0 \(or a view"):
            f(np.ones(size))
        kept.clear()
    keeps[0] = False
    np.testing.assert_array_equal(f(np.full(size, 3.0)), np.full(size, 3.0))


def test_kept_argument_is_named_by_its_own_place():
    kept = []

    def greedy(context, out, x, y):
        kept.append(y)

    f = bellhop.qjit(bellhop.buffer_callback(greedy, vector(SMALL)))
    with pytest.raises(RuntimeError, match="callback 'greedy' kept its argument 1"):
        f(1.0, np.ones(LARGE))


def test_kept_output_gets_memory_of_its_own():
    kept = []

    def greedy(context, out, x):
        out[...] = x
        kept.append(out)

    f = bellhop.qjit(bellhop.buffer_callback(greedy, vector(LARGE)))
    with pytest.raises(RuntimeError, match="kept its output"):
        f(np.ones(LARGE))
    for _ in range(3):
        bellhop.qjit(lambda n: jnp.full(LARGE, -1.0) * n + 1)(2.0).block_until_ready()
    np.testing.assert_array_equal(kept[0], np.ones(LARGE))
    kept[0][...] = 2.0
    np.testing.assert_array_equal(kept[0], np.full(LARGE, 2.0))


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_exception_reaches_the_caller_and_may_hold_the_output(size):
    error = KeyError("held")

    def fail(context, out, x):
        out[...] = 5.0
        error.out = out
        raise error

    f = bellhop.qjit(bellhop.buffer_callback(fail, vector(size)))
    with pytest.raises(KeyError) as caught:
        f(np.ones(size))
    assert caught.value is error
    assert "raised in callback 'fail', called from " in error.__notes__[0]
    np.testing.assert_array_equal(error.out, np.full(size, 5.0))


def test_dead_call_goes_unless_it_has_a_side_effect(form):
    if form is FORMS["eager"]:
        pytest.skip("nothing is dropped where nothing is compiled")
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


def double_elements(shape):
    """Write twice the argument, for a batch of any leading shape."""

    def double(context, out, x, y):
        shape.append((out.shape, x.shape, y.shape))
        out[...] = 2 * x + (y if y.ndim == out.ndim else y[None])

    return double


METHODS = {
    "sequential": [((3,), (3,), (3,))] * 4,
    "sequential_unrolled": [((3,), (3,), (3,))] * 4,
    "expand_dims": [((4, 3), (4, 3), (1, 3))],
    "broadcast_all": [((4, 3), (4, 3), (4, 3))],
    "legacy_vectorized": [((4, 3), (4, 3), (3,))],
}


@pytest.mark.parametrize("aliased", [False, True])
@pytest.mark.parametrize("has_side_effect", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_every_vmap_method(method, has_side_effect, aliased):
    shapes = []
    callback = bellhop.buffer_callback(
        double_elements(shapes),
        vector(3),
        vmap_method=method,
        has_side_effect=has_side_effect,
        input_output_aliases={0: 0} if aliased else None,
    )
    x, y = np.arange(12.0).reshape(4, 3), np.ones(3)
    result = bellhop.qjit(jax.vmap(callback, in_axes=(0, None)))(x, y)
    np.testing.assert_array_equal(result, 2 * x + 1)
    assert shapes == METHODS[method]


@pytest.mark.parametrize("method", METHODS)
def test_aliased_argument_that_is_not_mapped_is_repeated(method):
    def subtract(context, out, x, y):
        out -= y

    callback = bellhop.buffer_callback(
        subtract, vector(3), vmap_method=method, input_output_aliases={0: 0}
    )
    x, y = np.ones(3), np.arange(12.0).reshape(4, 3)
    result = bellhop.qjit(jax.vmap(callback, in_axes=(None, 0)))(x, y)
    np.testing.assert_array_equal(result, 1 - y)


@pytest.mark.parametrize("has_side_effect", [False, True])
def test_vmap_without_a_method_is_refused(form, has_side_effect):
    callback = bellhop.buffer_callback(
        lambda context, out, x: None, float, has_side_effect=has_side_effect
    )
    with pytest.raises(
        NotImplementedError, match=r"buffer_callback '<lambda>' .*Give it a vmap_method"
    ):
        form(jax.vmap(callback))(np.ones(3))


def test_unknown_vmap_method_is_refused():
    with pytest.raises(ValueError, match="buffer_callback 'print' has vmap_method='fast'; the"):
        bellhop.buffer_callback(print, float, vmap_method="fast")


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
    with pytest.raises(bellhop.DifferentiableCompileError, match="side effects has no derivative"):
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
