"""Callbacks called at once with their arguments, as JAX's are, and the names of its options."""

import functools
import inspect
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from pennylane import numpy as pnp

import bellhop
from bellhop import host_callback as hcb

VECTOR = jax.ShapeDtypeStruct((2,), float)
ON_ONE_DEVICE = jax.sharding.SingleDeviceSharding(jax.devices()[0])


def weighted(x, y=1.0, *, offset=0.0):
    return np.asarray(x) * y + offset


@pytest.mark.parametrize("compiled", [bellhop.qjit, jax.jit, lambda f: f])
@pytest.mark.parametrize("called", [bellhop.pure_callback, bellhop.io_callback])
def test_arguments_ask_for_a_call(called, compiled):
    x = jnp.array([1.0, 2.0])
    np.testing.assert_array_equal(compiled(lambda x: called(weighted, VECTOR, x))(x), x)
    by_name = compiled(lambda x: called(weighted, VECTOR, x, 3.0, offset=1.0))
    np.testing.assert_array_equal(by_name(x), [4.0, 7.0])
    all_by_name = compiled(lambda x: called(weighted, result_shape_dtypes=VECTOR, x=x))
    np.testing.assert_array_equal(all_by_name(x), x)


def test_a_call_without_arguments_is_asked_for_by_the_name_of_the_result():
    assert bellhop.qjit(lambda: bellhop.io_callback(lambda: 3, result_shape_dtypes=int))() == 3
    named = lambda: bellhop.io_callback(callback=lambda: 3, result_shape_dtypes=int)
    assert bellhop.qjit(named)() == 3
    x = jnp.ones(2)
    named = lambda x: bellhop.pure_callback(callback=weighted, result_shape_dtypes=VECTOR, x=x)
    np.testing.assert_array_equal(bellhop.qjit(named)(x), x)
    seen = []
    bellhop.qjit(lambda: bellhop.debug.callback(callback=lambda: seen.append(1)))()
    assert seen == [1]
    # Otherwise it is the function that is returned.
    assert bellhop.qjit(lambda: bellhop.io_callback(lambda: 3, int)())() == 3


def test_options_of_jax_stand_beside_the_arguments():
    def f(x):
        return bellhop.pure_callback(
            weighted, VECTOR, x, vmap_method="expand_dims", sharding=ON_ONE_DEVICE
        )

    batch = jnp.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(jax.vmap(f)(batch), batch)
    seen = []

    @bellhop.qjit
    def g(x):
        bellhop.io_callback(seen.append, None, x, ordered=True)
        bellhop.io_callback(seen.append, None, x + 1, ordered=True, sharding=ON_ONE_DEVICE)

    g(1)
    assert seen == [1, 2]


def test_shardings_over_devices_are_refused():
    spread = mock.Mock(spec=jax.sharding.NamedSharding, device_set={0, 1})
    with pytest.raises(NotImplementedError, match="io_callback: a sharding over 2 devices"):
        bellhop.io_callback(weighted, VECTOR, 1.0, sharding=spread)
    with pytest.raises(TypeError, match="sharding must be a jax.sharding.Sharding, got 3"):
        bellhop.pure_callback(weighted, VECTOR, 1.0, sharding=3)


def test_arguments_need_a_function():
    with pytest.raises(TypeError, match=r"pure_callback: got arguments \(x\) and no function"):
        bellhop.pure_callback(x=3)
    with pytest.raises(TypeError, match=r"callback: got arguments \(x\) and no function"):
        bellhop.debug.callback(x=3)
    with pytest.raises(TypeError, match="got both result_type and"):
        bellhop.pure_callback(weighted, VECTOR, 1.0, result_shape_dtypes=VECTOR)


def with_a_rule():
    callback = bellhop.pure_callback(weighted, VECTOR)
    callback.jvp(lambda primals, tangents: (callback(*primals), tangents[0]))
    return callback


@pytest.mark.parametrize(
    ("call", "where"),
    [
        (lambda x: bellhop.pure_callback(weighted, VECTOR)(x, "a"), r"args\[1\] is a str"),
        (lambda x: with_a_rule()(x, "a"), r"args\[1\] is a str"),
        (
            lambda x: bellhop.io_callback(weighted, VECTOR, {"k": [x, "a"]}),
            r"args\[0\]\['k'\]\[1\]",
        ),
        (lambda x: bellhop.tap(weighted, x, offset="a"), r"kwargs\['offset'\] is a str"),
        (lambda x: bellhop.buffer_callback(weighted, VECTOR)(object), r"args\[0\] is a type"),
    ],
)
def test_arguments_that_are_no_arrays_are_named(call, where):
    with pytest.raises(
        TypeError, match=rf"'weighted' \(called from .*\) takes arrays and numbers, and {where}"
    ):
        bellhop.qjit(call)(jnp.ones(2))


@pytest.mark.parametrize("compiled", [bellhop.qjit, jax.jit, lambda f: f])
def test_debug_callbacks_are_called_at_once_and_take_what_is_no_array(compiled):
    seen = []

    def record(*args, **kwargs):
        seen.append((args, kwargs))

    @compiled
    def f(x):
        bellhop.debug.callback(record, x, "name", ordered=True)
        bellhop.debug.callback(ordered=True)(record, x + 1, key=None, other=("a", x))
        bellhop.debug.callback(partitioned=True)(record)(x, dtype=np.dtype(int))

    f(1)
    jax.effects_barrier()
    assert seen == [
        ((1, "name"), {}),
        ((2,), {"key": None, "other": ("a", 1)}),
        ((1,), {"dtype": np.dtype(int)}),
    ]


def test_what_is_no_array_stays_with_its_call_under_vmap():
    seen = []
    record = functools.partial(bellhop.debug.callback, lambda name, x: seen.append((name, int(x))))
    bellhop.qjit(jax.vmap(lambda x: record("a", x)))(np.arange(2))
    bellhop.qjit(lambda x: (record("b", x), record("c", x)))(2)
    assert seen == [("a", 0), ("a", 1), ("b", 2), ("c", 2)]


def test_prints_take_the_options_of_jax(capsys):
    @bellhop.qjit
    def f(x):
        bellhop.debug.print("{} {name}", x, name="text", ordered=True)
        bellhop.debug.print(ordered=True, partitioned=False)("x = {x}", x=x)
        bellhop.debug.print("{}", x, x, skip_format_check=True)
        bellhop.debug.print(("of", x))

    f(2)
    assert capsys.readouterr().out.splitlines() == ["2 text", "x = 2", "2", "('of', array(2))"]


def test_rules_may_return_lists():
    @bellhop.pure_callback
    def product(x, y) -> float:
        return x * y

    product.fwd(lambda x, y: (product(x, y), [x, y]))
    product.bwd(lambda saved, dy: [saved[1] * dy, saved[0] * dy])
    slopes = bellhop.qjit(jax.grad(product, argnums=(0, 1)))(2.0, 3.0)
    assert [float(slope) for slope in slopes] == [3.0, 2.0]


@pytest.mark.parametrize("make", [bellhop.pure_callback, bellhop.io_callback])
def test_a_class_is_called_back_where_its_result_type_is_given(make):
    assert bellhop.qjit(make(np.float64, float))(1.5) == 1.5
    assert bellhop.qjit(lambda x: make(np.float64, float, x))(1.5) == 1.5
    for swapped in (lambda: make(float), lambda: make(float, lambda x: x)):
        with pytest.raises(TypeError, match="takes a function first and its result type second"):
            swapped()


def test_condition_of_an_assertion_is_an_array():
    f = bellhop.qjit(lambda x: bellhop.debug_assert({"a": x > 0, "b": [x < 5]}, "outside"))
    f(1.0)
    with pytest.raises(RuntimeError, match="outside"):
        f(6.0)
    for condition, name in (("x > 0", "a str"), (None, "None"), ([True, len], "a builtin")):
        with pytest.raises(TypeError, match=f"the condition is {name}.*, expected a bool"):
            bellhop.debug_assert(condition, "never")


@pytest.mark.parametrize("kind", [bellhop.pure_callback, bellhop.io_callback])
def test_outside_of_tracing_it_is_the_function_where_jax_does_not_know_the_arguments(kind):
    x = pnp.array([0.3, 0.5])
    sine = kind(lambda x: pnp.sin(x), jax.ShapeDtypeStruct((2,), float))
    gradient = qml.grad(lambda x: pnp.sum(sine(x)))(x)
    np.testing.assert_allclose(gradient, np.cos(x))
    seen = []
    given = object()
    bellhop.tap(seen.append, given)
    bellhop.debug.callback(seen.append)(given)
    assert kind(lambda x: x, float)(given) is given
    assert seen == [given, given]
    with pytest.raises(TypeError, match=r"takes arrays and numbers, and args\[0\] is an object"):
        bellhop.qjit(lambda: kind(lambda x: 1.0, float)(given))()


def two(y, z):
    return y


CALLS_OF_TWO = {
    "pure_callback": lambda x: bellhop.pure_callback(two, float)(x),
    "io_callback": lambda x: bellhop.io_callback(two, float)(x, x, x),
    "callback": lambda x: bellhop.debug.callback(two)(x, named=x),
    "callback with a string": lambda x: bellhop.debug.callback(two)(x, x, "text"),
    "buffer_callback": lambda x: bellhop.buffer_callback(two, jax.ShapeDtypeStruct((), float))(x),
    "id_tap": lambda x: hcb.id_tap(two, x, tap_with_device=True),
    "host_callback.call": lambda x: hcb.call(two, x, result_shape=1.0),
}


@pytest.mark.parametrize("call", CALLS_OF_TWO.values(), ids=CALLS_OF_TWO.keys())
def test_arguments_that_the_function_does_not_take_are_an_error_of_the_trace(call):
    words = (
        r"'two' \(called from .*test_call_signature.py:\d+\): the arguments do not match: "
        r".* \(y, z\)"
    )
    with pytest.raises(TypeError, match=words):
        jax.make_jaxpr(call)(1.0)


def test_an_unknown_keyword_of_a_callback_with_a_derivative():
    f = bellhop.pure_callback(two, float)
    f.jvp(lambda primals, tangents: (1.0, 1.0))
    with pytest.raises(TypeError, match=r"'two' \(called from .*: got the unknown keyword 'w'"):
        f(w=1.0)


def test_what_a_wrapper_takes_counts_and_not_what_is_said_of_it():
    @functools.wraps(two)
    def given_one(y):
        return two(y, 2.0)

    @functools.wraps(two)
    def said_to_take_two(y):
        return two(y, 2.0)

    said_to_take_two.__signature__ = inspect.signature(two)
    for function in (
        given_one,
        said_to_take_two,
        functools.partial(two, z=2.0),
        abs,
        mock.Mock(return_value=1.0),
    ):
        assert bellhop.qjit(bellhop.pure_callback(function, float))(1.0) == 1.0


@pytest.mark.parametrize("kind", ["pure_callback", "io_callback"])
def test_arguments_in_the_place_of_the_result_type(kind: str) -> None:
    call = getattr(bellhop, kind)
    message = rf"{kind} 'sin' is not called.*: {kind}\(sin, jax.ShapeDtypeStruct\(shape, dtype\), x"
    with pytest.raises(TypeError, match=rf"result is a function, expected its result: {message}"):
        bellhop.qjit(lambda x: call(np.sin, x))(1.0)
    with pytest.raises(
        TypeError, match=rf"an operand is a function, expected its result: {message}"
    ):
        bellhop.qjit(lambda x: x + call(np.sin, x))(1.0)


@pytest.mark.parametrize("kind", ["pure_callback", "io_callback"])
def test_ufunc_without_a_result_type(kind: str) -> None:
    with pytest.raises(
        TypeError, match=r"declares no result type. Pass the type as the second argument"
    ):
        bellhop.qjit(lambda x: getattr(bellhop, kind)(np.sin)(x))(1.0)
