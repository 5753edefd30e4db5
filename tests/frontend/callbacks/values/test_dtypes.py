"""Every dtype through every flavour, in and out; any rank, size and memory order."""

import warnings

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bellhop
from bellhop_runtime import DTYPES

STRUCT = jax.ShapeDtypeStruct
RANDOM = np.random.default_rng(11)
BY_NAME = sorted(DTYPES, key=lambda dtype: dtype.name)
NARROW = [
    np.dtype(dtype)
    for dtype in (
        *(ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2),
        ml_dtypes.float4_e2m1fn,
    )
]


def some_of(dtype, shape):
    """Return values of which every bit counts, as NumPy and ml_dtypes have them."""
    size = int(np.prod(shape))
    if dtype in NARROW:
        bits = 2 if dtype.name.endswith("2") else 4
        return RANDOM.integers(0, 1 << bits, size, np.uint8).view(dtype).reshape(shape)
    if dtype == np.bool_:
        return RANDOM.integers(0, 2, size).astype(bool).reshape(shape)
    # Not a NaN, of which XLA may change the bits.
    return RANDOM.integers(0, 0x38, size * dtype.itemsize, np.uint8).view(dtype).reshape(shape)


def same(observed, expected):
    observed = np.asarray(observed)
    assert (observed.dtype, observed.shape) == (expected.dtype, expected.shape)
    # NumPy's own order: whatever the memory looks like, element by element.
    assert observed.tobytes() == expected.tobytes()


def pure(value, given_, given_back):
    function = lambda x: (given_.append(x.copy()), given_back)[1]
    return bellhop.pure_callback(function, STRUCT(value.shape, value.dtype))


def io(value, given_, given_back):
    function = lambda x: (given_.append(x), given_back)[1]
    return bellhop.io_callback(function, STRUCT(value.shape, value.dtype))


def ordered_io(value, given_, given_back):
    function = lambda x: (given_.append(x), given_back)[1]
    return bellhop.io_callback(function, STRUCT(value.shape, value.dtype), ordered=True)


def debug(value, given_, given_back):
    return lambda x: (bellhop.debug.callback(given_.append)(x), given_back)[1]


def buffer(value, given_, given_back, **options):
    def function(context, out, x):
        given_.append(x.copy())
        out[...] = given_back

    return bellhop.buffer_callback(
        function, STRUCT(value.shape, value.dtype), has_side_effect=True, **options
    )


def aliased_buffer(value, given_, given_back):
    return buffer(value, given_, given_back, input_output_aliases={0: 0})


FLAVOURS = (pure, io, ordered_io, debug, buffer, aliased_buffer)


@pytest.mark.parametrize("shape", [(7,), (90, 61)], ids=str)
@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.__name__)
@pytest.mark.parametrize("dtype", BY_NAME, ids=lambda dtype: dtype.name)
def test_every_dtype_through_every_flavour(dtype, flavour, shape):
    value, back = some_of(dtype, shape), some_of(dtype, shape)
    given_ = []
    call = flavour(value, given_, back)
    same(bellhop.qjit(lambda x: call(x))(value), back)
    if shape == (7,):
        same(call(jnp.asarray(value)), back)
    assert given_
    for observed in given_:
        same(observed, value)


@pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: dtype.name)
def test_narrow_values_that_the_program_computes(dtype):
    xs = some_of(dtype, (5, 3))
    given_ = []

    def look(x):
        given_.append(np.array(x))
        return x[::-1]

    flip = bellhop.pure_callback(look, STRUCT((3,), dtype))
    result = bellhop.qjit(lambda xs: jax.lax.map(lambda x: flip(flip(x)), xs))(xs)
    same(result, xs)
    assert len(given_) == 10
    same(np.stack(given_[::2]), xs)


@pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: dtype.name)
def test_narrow_outputs_are_arrays_that_may_be_kept(dtype):
    kept = []

    def fill(context, out, x):
        out[...] = x
        kept.append(out)

    value = some_of(dtype, (5,))
    same(bellhop.qjit(bellhop.buffer_callback(fill, STRUCT((5,), dtype)))(value), value)
    same(kept[0], value)


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("int4", -8, 7), ("uint4", 0, 15), ("int2", -2, 1), ("uint2", 0, 3)]
)
def test_python_integers_do_not_wrap(dtype, low, high):
    def returning(value):
        callback = bellhop.pure_callback(lambda: value, STRUCT((), jnp.dtype(dtype)))
        return int(bellhop.qjit(lambda: callback())())

    assert [returning(low), returning(high), returning(True)] == [low, high, 1]
    for value in (low - 1, high + 1, 1 << 70):
        with pytest.raises(OverflowError, match=f"{value} out of bounds for {dtype}"):
            returning(value)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float16", 1e6, np.inf),
        ("float16", 10**39, np.inf),
        ("bfloat16", -1e39, -np.inf),
        ("float32", 1e39, np.inf),
        ("complex64", complex(0, 1e39), complex(0, np.inf)),
        ("float8_e4m3fn", 1e6, np.nan),
    ],
)
def test_numbers_that_overflow_are_named_with_the_function_and_the_line(dtype, value, expected):
    def large():
        return value

    def returned():
        return np.asarray(bellhop.qjit(lambda: callback())()).astype(complex)

    callback = bellhop.pure_callback(large, STRUCT((), jnp.dtype(dtype)))
    with pytest.warns(RuntimeWarning, match=f"'large' .* beyond the range of {dtype}") as warned:
        np.testing.assert_array_equal(returned(), expected)
    assert warned[0].filename == __file__
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="'large' returned a"):
        returned()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "complex64"])
def test_numbers_that_fit_come_without_a_warning(dtype):
    for value in (0.5, -448, True, 65504.0 if dtype == "float16" else 2.0, np.inf, np.nan):
        callback = bellhop.pure_callback(lambda value=value: value, STRUCT((), jnp.dtype(dtype)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = np.asarray(bellhop.qjit(callback)())
        expected = np.asarray(value, np.float64).astype(dtype)
        np.testing.assert_array_equal(result.astype(complex), expected.astype(complex))


def test_integers_beyond_all_numbers_of_a_type_are_errors():
    callback = bellhop.pure_callback(lambda: 10**400, STRUCT((), jnp.bfloat16))
    with pytest.raises(OverflowError, match="bits> out of bounds for bfloat16"):
        bellhop.qjit(lambda: callback())()


ORDERS = {
    "c": lambda x: x,
    "fortran": np.asfortranarray,
    "transposed back": lambda x: np.ascontiguousarray(x.T).T,
    "negative strides": lambda x: np.flip(np.ascontiguousarray(np.flip(x))),
    "every other": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "broadcast": lambda x: np.broadcast_to(x.ravel()[:1].reshape((1,) * x.ndim), x.shape),
    "unaligned": lambda x: (
        np.frombuffer(b"x" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape)
    ),
}


@settings(max_examples=40)
@given(
    dtype=st.sampled_from(BY_NAME),
    shape=st.lists(st.integers(0, 3), max_size=8).map(tuple),
    order=st.sampled_from(sorted(ORDERS)),
    flavour=st.sampled_from([pure, io, buffer]),
    compiled=st.booleans(),
)
def test_any_dtype_rank_size_and_order(dtype, shape, order, flavour, compiled):
    value = some_of(dtype, shape)
    if value.ndim == 0 or (value.size == 0 and order in ("broadcast", "unaligned")):
        order = "c"
    back = ORDERS[order](some_of(dtype, shape))
    given_ = []
    call = flavour(value, given_, back)
    same((bellhop.qjit(lambda x: call(x)) if compiled else call)(value), back)
    for observed in given_:
        same(observed, value)


@pytest.mark.large
def test_a_thousand_leaves():
    tree = {f"{i}": (np.full(i % 3, i), [np.float32(i)]) for i in range(500)}
    types = jax.tree.map(lambda leaf: STRUCT(np.shape(leaf), leaf.dtype), tree)

    def write(context, out, tree):
        assert jax.tree.structure(out) == jax.tree.structure(tree)
        for target, leaf in zip(jax.tree.leaves(out), jax.tree.leaves(tree), strict=True):
            target[...] = leaf + 1

    pure = bellhop.pure_callback(lambda tree: jax.tree.map(lambda x: x + 1, tree), types)
    for callback in (pure, bellhop.buffer_callback(write, types)):
        result = bellhop.qjit(callback)(tree)
        assert jax.tree.structure(result) == jax.tree.structure(tree)
        for observed, leaf in zip(jax.tree.leaves(result), jax.tree.leaves(tree), strict=True):
            same(observed, np.asarray(leaf + 1))


def test_64_bit_types_off(run_script):
    run_script(
        """
        import jax, numpy as np, bellhop
        jax.config.update("jax_enable_x64", False)
        narrow = {"float64": "float32", "complex128": "complex64", "int64": "int32",
                  "uint64": "uint32"}
        for wide, name in narrow.items():
            value = np.arange(6).reshape(2, 3).astype(wide)
            for declare in (bellhop.pure_callback, bellhop.io_callback, bellhop.buffer_callback):
                for kind in (np.dtype(wide).type, jax.ShapeDtypeStruct((), wide), value):
                    try:
                        declare(lambda x: x, kind)
                    except TypeError as error:
                        assert "and JAX's 64-bit types are off" in str(error)
                    else:
                        raise AssertionError(kind)
            kind = jax.ShapeDtypeStruct((2, 3), name)

            def write(context, out, x):
                assert (out.dtype, x.dtype) == (name, name)
                out[...] = value

            for callback in (
                bellhop.pure_callback(lambda x: np.asfortranarray(value), kind),
                bellhop.io_callback(lambda x: value, kind),
                bellhop.buffer_callback(write, kind, input_output_aliases={0: 0}),
            ):
                for form in (bellhop.qjit, jax.jit, lambda f: f):
                    result = form(callback)(value)
                    assert result.dtype == name, (wide, result.dtype)
                    np.testing.assert_array_equal(result, value)
        for kind in (bool, int, float, complex):
            assert bellhop.qjit(bellhop.pure_callback(lambda: kind(1), kind))() == 1
        """
    )
