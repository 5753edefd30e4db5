"""Values on their way through a callback: every dtype, rank, memory layout and structure."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import bellhop

STRUCT = jax.ShapeDtypeStruct

DTYPES = [
    np.dtype(dtype)
    for dtype in (
        *(np.bool_, np.int8, np.int16, np.int32, np.int64),
        *(np.uint8, np.uint16, np.uint32, np.uint64),
        *(np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128),
        *(ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3b11fnuz),
        *(ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e4m3),
        *(ml_dtypes.float8_e3m4, ml_dtypes.float8_e8m0fnu),
        # XLA packs these, several to a byte.
        *(ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2),
        ml_dtypes.float4_e2m1fn,
    )
]
INTEGERS = [d for d in DTYPES if np.issubdtype(d, np.integer) or d.name[:3] in ("int", "uin")]
NARROW = DTYPES[-5:]
RANDOM = np.random.default_rng(7)


def sample(shape, dtype):
    if dtype.kind == "b":
        return RANDOM.integers(0, 2, shape).astype(dtype)
    if dtype in NARROW:
        return some_of(dtype, shape)
    return np.asarray(RANDOM.integers(1, 9, shape)).astype(dtype)


def some_of(dtype, shape):
    """Return values of a narrow type, negative ones too, so that every bit counts."""
    if dtype in INTEGERS:
        info = ml_dtypes.iinfo(dtype)
        return np.asarray(RANDOM.integers(info.min, int(info.max) + 1, shape)).astype(dtype)
    return np.asarray(RANDOM.choice([-6.0, -1.5, -0.0, 0.0, 0.5, 3.0], shape)).astype(dtype)


def through_callback(value):
    """Return what came back of a callback for ``value``, and what it was given."""
    given = []

    def function(x):
        given.append(np.array(x))
        return x

    aval = jax.typeof(value)
    identity = bellhop.pure_callback(function, STRUCT(aval.shape, aval.dtype))
    result = bellhop.qjit(lambda x: identity(x))(value)
    # XLA drops a call whose result has no elements.
    return [result, *given]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (40, 50)], ids=str)
def test_every_dtype_arrives_and_returns_unchanged(dtype, shape):
    value = sample(shape, dtype)
    for array in through_callback(value):
        assert (array.dtype, array.shape) == (dtype, shape)
        assert np.asarray(array).tobytes() == value.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numpy_scalar_of_every_dtype_returns(dtype):
    value = sample((), dtype)[()]
    assert isinstance(value, np.generic)
    result = bellhop.qjit(bellhop.pure_callback(lambda: value, STRUCT((), dtype)))()
    assert (result.dtype, result.shape) == (dtype, ())
    assert np.asarray(result).tobytes() == np.asarray(value).tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scalar", [True, 1, 1.5, 1 + 2j], ids=repr)
def test_python_scalars_take_the_declared_dtype_of_their_kind_or_wider(dtype, scalar):
    kinds = {bool: 0, int: 1, float: 2, complex: 3}
    if dtype.kind == "b":
        width = 0
    elif dtype in INTEGERS:
        width = 1
    else:
        width = 3 if np.issubdtype(dtype, np.complexfloating) else 2
    callback = bellhop.pure_callback(lambda: scalar, STRUCT((), dtype))
    if kinds[type(scalar)] <= width:
        assert np.asarray(callback()).tobytes() == np.asarray(scalar).astype(dtype).tobytes()
    else:
        with pytest.raises(TypeError, match=f"returned an? {type(scalar).__name__}, declared"):
            callback()


@pytest.mark.parametrize("rank", range(9))
def test_every_rank(rank):
    value = sample(tuple(range(1, rank + 1))[::-1] if rank < 6 else (2,) * rank, np.dtype("f4"))
    for array in through_callback(value):
        np.testing.assert_array_equal(array, value)


ARRAY = np.arange(24.0).reshape(4, 6)
LAYOUTS = {
    "fortran": np.asfortranarray(ARRAY),
    "transposed": ARRAY.T,
    "strided": np.arange(96.0).reshape(8, 12)[::2, ::2],
    "negative strides": ARRAY[::-1, ::-1],
    "broadcast": np.broadcast_to(np.arange(6.0), (4, 6)),
    "byte-swapped": ARRAY.astype(ARRAY.dtype.newbyteorder()),
    "swapped and fortran": np.asfortranarray(ARRAY.astype(ARRAY.dtype.newbyteorder())),
    "read-only": np.arange(3.0),
    "subclass": ARRAY.view(type("Sub", (np.ndarray,), {})),
    "matrix-like subclass": ARRAY.view(np.recarray),
    "unaligned": np.frombuffer(b"x" + ARRAY.tobytes(), np.uint8)[1:].view("f8").reshape(4, 6),
    "0-d": np.array(2.5),
    "zero size": np.zeros((0, 5)),
    "zero size fortran": np.asfortranarray(np.zeros((3, 0, 2))),
    "jax array": jnp.asarray(ARRAY),
    "list": [1.0, 2.5, 3.0],
    "nested list": [[1.0, 2.0], [3.0, 4.0]],
    "tuple": (1.0, 2.0),
    "memoryview": memoryview(np.arange(4.0)),
    "array.array": __import__("array").array("d", [1.0, 2.0]),
}
LAYOUTS["read-only"].flags.writeable = False


@pytest.mark.parametrize("value", LAYOUTS.values(), ids=LAYOUTS)
def test_results_in_any_memory_layout(value):
    expected = np.asarray(value)
    callback = bellhop.pure_callback(lambda: value, STRUCT(expected.shape, np.float64))
    np.testing.assert_array_equal(bellhop.qjit(callback)(), expected)


@pytest.mark.parametrize(
    "value",
    [value for value in LAYOUTS.values() if type(value) is np.ndarray],
    ids=[name for name, value in LAYOUTS.items() if type(value) is np.ndarray],
)
@pytest.mark.parametrize("compiled", [True, False], ids=["qjit", "eager"])
def test_arguments_from_any_memory_layout(value, compiled):
    def function(x):
        assert x.flags.c_contiguous
        assert x.dtype.isnative
        return x + 1

    native = np.ascontiguousarray(value).reshape(value.shape).astype(np.float64)
    argument = value if value.dtype.isnative else native
    callback = bellhop.pure_callback(function, STRUCT(value.shape, np.float64))
    if compiled:
        callback = bellhop.qjit(callback)
    np.testing.assert_array_equal(callback(argument), native + 1)


def test_arguments_of_a_transposed_intermediate_are_row_major():
    function = bellhop.pure_callback(lambda x: x.copy(), STRUCT((6, 4), np.float64))
    result = bellhop.qjit(lambda x: function((2 * x).T))(ARRAY)
    np.testing.assert_array_equal(result, 2 * ARRAY.T)


def test_forty_arguments_and_results():
    def function(*values):
        assert len(values) == 40
        return tuple(i * value for i, value in enumerate(values))

    callback = bellhop.pure_callback(function, (STRUCT((2,), np.float64),) * 40)
    values = [np.full(2, float(i)) for i in range(40)]
    program = bellhop.qjit(callback)
    for _ in range(2):
        results = program(*values)
        for i, result in enumerate(results):
            np.testing.assert_array_equal(result, np.full(2, float(i * i)))


class Point(NamedTuple):
    x: float
    y: dict


@jax.tree_util.register_dataclass
@__import__("dataclasses").dataclass
class Box:
    low: object
    high: object


TREES = [
    {"a": 1.0, "b": (2.0, [3.0, None])},
    Point(1.0, {"k": 2.0}),
    Box(1.0, (2.0, 3.0)),
    (None, {}, [], 1.0),
    [(), 1.0],
]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: type(tree).__name__)
def test_pytrees_in_and_out(tree):
    def function(value, *, scale):
        assert jax.tree.structure(value) == jax.tree.structure(tree)
        assert all(type(leaf) is np.ndarray for leaf in jax.tree.leaves(value))
        return jax.tree.map(lambda leaf: leaf * scale, value)

    callback = bellhop.pure_callback(function, jax.tree.map(lambda _: float, tree))
    result = bellhop.qjit(lambda t, s: callback(t, scale=s))(tree, 3.0)

    assert jax.tree.structure(result) == jax.tree.structure(tree)
    assert jax.tree.leaves(result) == [3 * leaf for leaf in jax.tree.leaves(tree)]


def test_arguments_are_read_only_numpy_arrays():
    seen = []

    def function(small, large, number, flag):
        for x in (small, large, number, flag):
            seen.append((type(x), x.flags.writeable))
            with pytest.raises(ValueError, match="read-only"):
                x[...] = 0
        return 0.0

    arguments = (jnp.ones(3), jnp.ones(10_000), 2.0, True)
    for form in (bellhop.qjit, jax.jit, lambda f: f):
        form(bellhop.pure_callback(function, float))(*arguments)
    assert seen == [(np.ndarray, False)] * 12


def test_random_key_arrives_as_its_words():
    key = jax.random.key(3)
    words = np.asarray(jax.random.key_data(key))
    for form in (bellhop.qjit, lambda f: f):
        callback = bellhop.pure_callback(lambda k: k.copy(), STRUCT((2,), np.uint32))
        np.testing.assert_array_equal(form(callback)(key), words)


def _keeping(seen: list) -> dict:
    """Return callbacks that keep the random bits of the key that they get the words of."""

    def keep(words):
        seen.append(jax.random.bits(jax.random.wrap_key_data(words)))

    def number(words):
        keep(words)
        return 0.0

    def write(_, out, words):
        out[...] = number(words)

    return {
        "pure_callback": bellhop.pure_callback(number, float),
        "io_callback": bellhop.io_callback(number, float),
        "io_callback, ordered": bellhop.io_callback(number, float, ordered=True),
        "buffer_callback": bellhop.buffer_callback(write, float),
        "callback": bellhop.callback(keep),
        "debug.callback": bellhop.debug.callback(keep),
        "tap": lambda key: bellhop.tap(keep, key),
    }


@pytest.mark.parametrize("form", [bellhop.qjit, jax.jit, lambda f: f], ids=["qjit", "jit", "eager"])
@pytest.mark.parametrize("flavour", _keeping([]))
def test_words_that_arrive_are_a_key_again(flavour, form):
    seen = []
    key = jax.random.key(7)
    form(_keeping(seen)[flavour])(key)
    jax.effects_barrier()
    bellhop.barrier_wait()
    assert seen == [jax.random.bits(key)]


def test_a_dtype_without_a_numpy_counterpart_is_an_error():
    callback = bellhop.pure_callback(lambda x: 1.0, float)
    message = r"pure_callback '<lambda>' \(called from .*\): arrays of type int1 are not supported"
    # JAX itself runs no program with it.
    for form in (bellhop.qjit, jax.jit):
        with pytest.raises(TypeError, match=message):
            form(callback).lower(STRUCT((4,), ml_dtypes.int1))


@pytest.mark.large
@settings(max_examples=80)
@given(
    hnp.arrays(
        dtype=st.sampled_from([np.float64, np.float32, np.int32, np.complex128, np.bool_]),
        shape=hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4),
    )
)
def test_any_array_arrives_and_returns_unchanged(value):
    for array in through_callback(value):
        assert array.dtype == value.dtype
        np.testing.assert_array_equal(array, value)
