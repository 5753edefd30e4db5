"""Results that are not what was declared: always a TypeError that says all of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.needs import PYTORCH

import bellhop

STRUCT = jax.ShapeDtypeStruct


def call(value, declared):
    def simpson():
        return value

    return bellhop.qjit(lambda: bellhop.pure_callback(simpson, declared)())()


WRONG_LEAVES = [
    (np.zeros(3, np.float32), float, "float32[3]", "float64[]"),
    (np.float32(1), float, "float32[]", "float64[]"),
    (np.float64(1), np.float32, "float64[]", "float32[]"),
    (np.zeros((2, 3)), STRUCT((3, 2), float), "float64[2,3]", "float64[3,2]"),
    (np.zeros(4), STRUCT((2, 2), float), "float64[4]", "float64[2,2]"),
    (np.zeros((1,)), float, "float64[1]", "float64[]"),
    (np.int64(1), float, "int64[]", "float64[]"),
    (np.bool_(1), int, "bool[]", "int64[]"),
    (1.0, STRUCT((1,), float), "a float", "float64[1]"),
    (1.0, int, "a float", "int64[]"),
    (1j, float, "a complex", "float64[]"),
    (1, bool, "an int", "bool[]"),
    ("text", float, "a str", "float64[]"),
    (object(), float, "an object", "float64[]"),
    ([1.0, 2.0], float, "float64[2]", "float64[]"),
    (jnp.zeros(3), STRUCT((2,), float), "float64[3]", "float64[2]"),
    (np.array([None]), STRUCT((1,), float), "object[1]", "float64[1]"),
    (np.zeros(0), float, "float64[0]", "float64[]"),
]


@pytest.mark.parametrize(("value", "declared", "observed", "expected"), WRONG_LEAVES)
def test_wrong_leaf_is_named_with_what_was_declared(value, declared, observed, expected):
    message = (
        f"pure_callback 'simpson' returned {observed}, declared {expected}. "
        "Return the declared type, or change the declaration."
    )
    with pytest.raises(TypeError) as caught:
        call(value, declared)
    text, _, suggestion = str(caught.value).partition(" To declare an array: ")
    assert text == message
    if suggestion:
        # The suggested type is the one that was returned.
        dtype, shape = observed.removesuffix("]").split("[")
        assert f"ShapeDtypeStruct(({shape.replace(',', ', ')}" in suggestion
        assert (
            f", '{dtype}'), or" in suggestion
            or f", {dtype.rstrip('0123456789')}), or" in suggestion
        )


def leaked_tracer():
    leaked = []
    jax.jit(lambda x: leaked.append(x) or x)(1.0)
    return leaked[0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda: [[1.0], [2.0, 3.0]], r"a list, .*inhomogeneous"),
        (lambda: jax.random.key(0), r"key<fry>\[\], .*key_data"),
        (leaked_tracer, r"float64\[\], .*traced array"),
        pytest.param(
            lambda: torch_value(requires_grad=True),
            r"torch.float64\[3\], .*detach",
            marks=PYTORCH.mark,
        ),
    ],
    ids=["ragged list", "random key", "tracer", "tensor with derivative"],
)
def test_what_is_no_array_is_named_with_the_reason(value, message):
    with pytest.raises(TypeError, match=rf"'simpson' returned {message}") as caught:
        call(value(), STRUCT((3,), float))
    assert "which cannot be converted to a NumPy array" in str(caught.value)
    assert "Return an array of the expected type float64[3]." in str(caught.value)


def torch_value(**options):
    import torch

    return torch.ones(3, dtype=torch.float64, **options)


@pytest.mark.parametrize("value", [np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.masked])
def test_mask_is_not_lost(value):
    with pytest.raises(TypeError, match="array float64.*, and masks are not supported"):
        call(value, STRUCT(value.shape, float))
    with pytest.raises(TypeError, match=r"args\[0\] is a masked array float64"):
        bellhop.qjit(lambda: bellhop.pure_callback(np.sum, float)(value))()


@PYTORCH.mark
def test_tensor_of_torch_is_an_array():
    np.testing.assert_array_equal(call(torch_value(), STRUCT((3,), float)), np.ones(3))
    with pytest.raises(TypeError, match=r"returned float64\[3\], declared float32\[3\]"):
        call(torch_value(), STRUCT((3,), np.float32))


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        ((1.0, 2.0, 3.0), (float, float)),
        ((1.0,), (float, float)),
        ([1.0, 2.0], (float, float)),
        ({"a": 1.0}, {"b": float}),
        ({"a": 1.0, "b": 1.0}, {"a": float}),
        (1.0, (float,)),
        (np.zeros(2), (float, float)),
        (1.0, {"a": float}),
        ((1.0, None), (float, (float, float))),
        (5, (None, float)),
    ],
)
def test_wrong_structure_is_named_with_what_was_declared(value, declared):
    with pytest.raises(TypeError) as caught:
        call(value, declared)
    message = str(caught.value)
    assert message.startswith("pure_callback 'simpson' returned a value of structure")
    in_words = repr(declared).replace("<class 'float'>", "array")
    assert f"declared {in_words}. Return the declared structure" in message


@pytest.mark.parametrize(
    ("declared", "described"), [(float, "float64[]"), ((float, float), "(array, array)")]
)
def test_a_missing_return_statement_is_named(declared, described):
    with pytest.raises(TypeError, match="Write a return statement at the end") as caught:
        call(None, declared)
    assert f"'simpson' returned None, declared {described}. " in str(caught.value)
    with pytest.raises(TypeError, match="returned None as result 1, declared float64"):
        call((1.0, None), (float, float))


def test_wrong_leaf_among_many_is_counted():
    with pytest.raises(TypeError, match=r"returned float32\[\] as result 1, declared float64\[\]"):
        call((1.0, np.float32(2)), (float, float))


def test_too_many_results_for_one():
    with pytest.raises(TypeError, match=r"returned float64\[2\], declared float64\[\]"):
        call((1.0, 2.0), float)


@pytest.mark.parametrize("value", [300, -1])
def test_python_integer_that_does_not_fit_is_an_error_that_names_the_callback(value):
    with pytest.raises((TypeError, OverflowError)) as caught:
        call(value, np.uint8)
    assert any("simpson" in text for text in [str(caught.value), *caught.value.__notes__])


@pytest.mark.parametrize(
    ("value", "shown", "declared"),
    [(2**70, str(2**70), int), (10**400, "<int of 1329 bits>", float)],
)
def test_integers_too_wide_are_named_with_the_type(value, shown, declared):
    with pytest.raises(OverflowError, match=f"{shown} out of bounds for {declared.__name__}64"):
        call(value, declared)


def test_later_calls_are_right():
    values = iter([1.0, np.zeros(3), 2.0])
    f = bellhop.qjit(lambda x: bellhop.pure_callback(lambda _: next(values), float)(x))

    assert f(0.0) == 1.0
    with pytest.raises(TypeError, match="declared float64"):
        f(0.0)
    assert f(0.0) == 2.0


SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
DTYPES = st.sampled_from([np.bool_, np.int32, np.float32, np.float64, np.complex64, jnp.bfloat16])


@settings(max_examples=60)
@given(shape=SHAPES, dtype=DTYPES, declared_shape=SHAPES, declared_dtype=DTYPES)
def test_any_mismatch_is_a_type_error_and_any_match_a_value(
    shape, dtype, declared_shape, declared_dtype
):
    callback = bellhop.pure_callback(
        lambda: np.ones(shape, dtype), STRUCT(declared_shape, declared_dtype)
    )
    if (shape, dtype) == (declared_shape, declared_dtype):
        np.testing.assert_array_equal(callback(), np.ones(shape, dtype))
    else:
        with pytest.raises(TypeError, match="declared"):
            callback()
