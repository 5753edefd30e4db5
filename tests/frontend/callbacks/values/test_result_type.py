"""What pure_callback accepts as the declaration of a result, and what it refuses."""

import collections
import contextlib
import functools
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from tests.needs import PYTORCH, params

import bellhop
from bellhop import host_callback
from bellhop.errors import ResultTypeError

STRUCT = jax.ShapeDtypeStruct


class Pair(NamedTuple):
    a: float
    b: int


class PairOfPairs(NamedTuple):
    first: Pair
    second: "tuple[float, None]"


ORDERED = collections.OrderedDict

DECLARATIONS = {
    "bool": (bool, True, STRUCT((), bool)),
    "int": (int, 3, STRUCT((), np.int64)),
    "float": (float, 1.5, STRUCT((), np.float64)),
    "complex": (complex, 1 + 2j, STRUCT((), np.complex128)),
    "numpy scalar type": (np.float32, np.float32(2), STRUCT((), np.float32)),
    "jnp scalar type": (jnp.float32, np.float32(2), STRUCT((), np.float32)),
    "jnp bfloat16": (jnp.bfloat16, ml_dtypes.bfloat16(2), STRUCT((), jnp.bfloat16)),
    "ml_dtypes type": (ml_dtypes.bfloat16, ml_dtypes.bfloat16(2), STRUCT((), jnp.bfloat16)),
    "dtype": (np.dtype("int16"), np.int16(7), STRUCT((), np.int16)),
    "struct": (STRUCT((2, 3), np.float32), np.ones((2, 3), np.float32), None),
    "shaped array": (jax.core.ShapedArray((2,), np.int32), np.ones(2, np.int32), None),
    "example array": (np.zeros((2, 2), np.uint8), np.ones((2, 2), np.uint8), None),
    "example jax array": (jnp.zeros(3, jnp.float32), np.ones(3, np.float32), None),
    "example scalar": (0.0, 2.5, STRUCT((), np.float64)),
    "example numpy scalar": (np.int8(0), np.int8(2), STRUCT((), np.int8)),
    "tuple": ((float, int), (1.0, 2), None),
    "tuple annotation": (tuple[float, int], (1.0, 2), None),
    "nested annotation": (tuple[float, tuple[int, bool]], (1.0, (2, True)), None),
    "list": ([float, float], [1.0, 2.0], None),
    "dict": ({"a": float, "b": STRUCT((2,), int)}, {"a": 1.0, "b": np.array([1, 2])}, None),
    "namedtuple": (Pair(float, int), Pair(1.0, 2), None),
    "typing.NamedTuple": (Pair, Pair(1.0, 2), None),
    "nested NamedTuple": (PairOfPairs, PairOfPairs(Pair(1.0, 2), (3.0, None)), None),
    "Annotated": (Annotated[float, "seconds"], 1.5, STRUCT((), np.float64)),
    "OrderedDict": (ORDERED(z=float, a=tuple[int, bool]), ORDERED(z=1.5, a=(2, True)), None),
    "defaultdict": (
        collections.defaultdict(int, {"a": float}),
        collections.defaultdict(int, {"a": 1.0}),
        None,
    ),
    "None": (None, None, None),
    "None inside": ((float, None), (1.0, None), None),
    "empty tuple": ((), (), None),
    "empty tuple annotation": (tuple[()], (), None),
    "zero size": (STRUCT((0, 3), np.float64), np.zeros((0, 3)), None),
}


@pytest.mark.parametrize(("declared", "value", "leaf"), DECLARATIONS.values(), ids=DECLARATIONS)
def test_declaration_is_accepted(declared, value, leaf):
    result = bellhop.qjit(lambda: bellhop.pure_callback(lambda: value, declared)())()

    assert jax.tree.structure(result) == jax.tree.structure(value)
    for observed, expected in zip(jax.tree.leaves(result), jax.tree.leaves(value), strict=True):
        np.testing.assert_array_equal(observed, expected)
        assert observed.dtype == np.asarray(expected).dtype
    if leaf is not None:
        assert (result.shape, result.dtype) == (leaf.shape, leaf.dtype)


def test_annotation_is_the_declaration():
    @bellhop.pure_callback
    def pair(x) -> tuple[float, int]:
        return 2 * float(x), 7

    first, second = bellhop.qjit(pair)(1.5)
    assert (float(first), int(second)) == (3.0, 7)


def test_argument_wins_over_annotation():
    @bellhop.pure_callback(result_type=np.float32)
    def half(x) -> float:
        return np.float32(x / 2)

    assert bellhop.qjit(half)(3.0).dtype == np.float32


def test_string_annotations_are_evaluated():
    namespace: dict = {}
    code = """
from __future__ import annotations
def double(x: float) -> float:
    return 2 * float(x)
def pair(x: Undefined) -> tuple[float, int]:
    return float(x), 1
"""
    exec(compile(code, "<annotations>", "exec", dont_inherit=True), namespace)

    assert bellhop.qjit(bellhop.pure_callback(namespace["double"]))(1.5) == 3.0
    # An argument's annotation that means nothing here is none of our business.
    assert bellhop.qjit(bellhop.pure_callback(namespace["pair"]))(1.5) == (1.5, 1)


def test_unknown_string_annotation_says_so():
    def f(x) -> "Undefined":  # noqa: F821
        return x

    with pytest.raises(TypeError, match=r"'f' \(.*test_result_type.py:\d+\).*'Undefined'"):
        bellhop.pure_callback(f)


class Model:
    def method(self, x) -> float:
        return 2 * float(x)

    def __call__(self, x) -> float:
        return 3 * float(x)

    @staticmethod
    def static(x) -> float:
        return 4 * float(x)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Model().method, 2.0),
        (Model(), 3.0),
        (Model.static, 4.0),
        (functools.partial(Model.method, Model()), 2.0),
        (jax.tree_util.Partial(Model.static), 4.0),
    ],
    ids=["method", "callable object", "static method", "partial", "Partial"],
)
def test_annotations_of_all_callables(function, expected):
    assert bellhop.qjit(bellhop.pure_callback(function))(1.0) == expected


def test_builtin_without_annotation_takes_a_declaration():
    import math

    assert bellhop.qjit(bellhop.pure_callback(math.sin, float))(1.0) == math.sin(1.0)


def test_no_declaration_is_an_error_that_says_what_to_write():
    def simpson(x):
        return x

    with pytest.raises(TypeError) as caught:
        bellhop.pure_callback(simpson)
    message = str(caught.value)
    line = simpson.__code__.co_firstlineno
    assert f"callback 'simpson' ({__file__}:{line}) declares no result type" in message
    assert "-> float:" in message
    assert "as the second argument, such as jax.ShapeDtypeStruct(shape, dtype)." in message


@pytest.mark.parametrize(
    "declared",
    [
        str,
        "abc",
        "float32",
        object(),
        object,
        np.ndarray,
        jax.Array,
        np.ndarray[tuple[int], np.dtype[np.float64]],
        {1, 2},
        list[float],
        dict[str, float],
        tuple[float, ...],
        np.dtype(object),
        np.dtype("U3"),
        np.dtype("datetime64[s]"),
        np.dtype([("a", float)]),
        np.str_,
        np.array(["a"]),
        float | None,
        [float, str],
        {"a": "b"},
        np,
        lambda: None,
        STRUCT((2,), ml_dtypes.int1),
        STRUCT((), jax.random.key(0).dtype),
        (3,),
        [2, 3],
        ((3,), float),
        {"a": (0.0, 1.0)},
    ],
)
def test_unusable_declaration_is_an_error_that_names_the_function(declared):
    def simpson(x):
        return x

    with pytest.raises(TypeError) as caught:
        bellhop.pure_callback(simpson, declared)
    message = str(caught.value)
    assert f"callback 'simpson' ({__file__}:" in message
    assert "ShapeDtypeStruct" in message


def test_a_shape_in_the_place_of_a_type_is_told_from_types():
    for declared in ((3,), ((3,), float)):
        with pytest.raises(
            TypeError, match=r"expected types of arrays, got \(3,\), which is a tuple"
        ):
            bellhop.pure_callback(np.sin, declared)
    # Numbers of a class of its own are examples, and so is one alone.
    two = bellhop.pure_callback(lambda x: Pair(x, 2), Pair(0.0, 0))
    assert two(1.0) == (1.0, 2)
    assert bellhop.pure_callback(lambda x: x, 0.0)(1.0) == 1


@pytest.mark.parametrize("wrong", [3, "f"])
def test_first_argument_must_be_a_function(wrong):
    with pytest.raises(TypeError, match="pure_callback takes a function first"):
        bellhop.pure_callback(wrong, float)


def test_decorator_forms_agree():
    def double(x) -> float:
        return 2 * float(x)

    forms = [
        bellhop.pure_callback(double),
        bellhop.pure_callback(double, float),
        bellhop.pure_callback(result_type=float)(double),
        bellhop.pure_callback()(double),
    ]
    for form in forms:
        assert bellhop.qjit(form)(1.5) == 3.0
        assert form.__name__ == "double"


def test_a_random_key_is_refused_by_name():
    key = jax.eval_shape(lambda: jax.random.key(0))
    with pytest.raises(TypeError, match="cannot return random keys.*jax.random.wrap_key_data"):
        bellhop.pure_callback(lambda: None, key)


SHAPES = {
    (-1,): "expected sizes of at least 0",
    (2**62, 4, 0): "exceeds the address space",
}
# JAX 0.12.0.1 rejects this one itself.
with contextlib.suppress(ValueError):
    STRUCT((None, 3), float)
    SHAPES[None, 3] = "expected sizes that are integers"
FLAVOURS = {
    "pure_callback": lambda f, type_: bellhop.pure_callback(f, type_),
    "io_callback": lambda f, type_: jax.make_jaxpr(lambda: bellhop.io_callback(f, type_))(),
    "buffer_callback": lambda f, type_: bellhop.buffer_callback(f, type_),
    "call_torch": lambda f, type_: bellhop.call_torch(f, result_type=type_),
    "host_callback.call": lambda f, type_: jax.make_jaxpr(
        lambda: host_callback.call(f, 1.0, result_shape=type_)
    )(),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("flavour", params(FLAVOURS, {"call_torch": PYTORCH}))
def test_a_shape_that_no_array_has_is_refused_where_it_is_declared(flavour, shape):
    def f(x=0.0):
        return x

    # The compiler would end the process.
    with pytest.raises(ResultTypeError, match=rf"\(.*test_result_type.py:.*{SHAPES[shape]}"):
        FLAVOURS[flavour](f, {"a": STRUCT((2,), float), "b": STRUCT(shape, float)})


def test_a_shape_that_no_array_has_is_refused_in_callbacks_of_jax_too():
    f = functools.partial(jax.pure_callback, abs, STRUCT((2**62, 4), float))
    with pytest.raises(ResultTypeError, match="jax.pure_callback .*exceeds the address space"):
        bellhop.qjit(f)(1.0)


def test_a_batch_of_results_that_no_array_holds_is_refused():
    f = bellhop.pure_callback(abs, STRUCT((2**58,), float), vmap_method="broadcast_all")
    with pytest.raises(ResultTypeError, match="mapped by vmap.*exceeds the address space"):
        jax.make_jaxpr(jax.vmap(f))(jnp.zeros(16))


def test_more_results_than_memory_are_an_error_of_the_run():
    f = bellhop.qjit(bellhop.pure_callback(lambda x: x, STRUCT((2**58,), float)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="Out of memory"):
        f(1.0)
