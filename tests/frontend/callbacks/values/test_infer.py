"""result_type=bellhop.infer: a call with zeros says what a pure callback returns."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.errors import ResultTypeError


@pytest.fixture
def calls():
    return []


@pytest.fixture
def statistics(calls):
    @bellhop.pure_callback(result_type=bellhop.infer)
    def statistics(x, scale=1):
        calls.append(np.array(x))
        return {"sorted": np.sort(x) * scale, "size": x.size, "ends": [float(x[0]), None]}

    return statistics


def test_a_call_with_zeros_of_each_signature_says_what_is_returned(form, statistics, calls):
    x = np.array([3.0, 1.0, 2.0], np.float32)
    f = form(lambda x: statistics(x, scale=2))
    for _ in range(2):
        result = f(x)
    np.testing.assert_array_equal(result["sorted"], [2.0, 4.0, 6.0])
    assert (result["size"], result["ends"]) == (3, [3.0, None])
    assert result["sorted"].dtype == (x * np.array(2)).dtype
    assert [call.tolist() for call in calls] == [[0.0] * 3, x.tolist(), x.tolist()]
    form(lambda x: statistics(x, scale=2))(x[:2])
    assert [call.tolist() for call in calls[3:]] == [[0.0] * 2, [3.0, 1.0]]


def test_another_program_of_the_same_function_knows(calls):
    def double(x):
        calls.append(float(x))
        return 2 * x

    for shift in (1.0, 2.0):
        f = bellhop.qjit(lambda x: bellhop.pure_callback(double, bellhop.infer)(x + shift))  # noqa: B023
        assert f(1.0) == 2 * (1 + shift)
    assert f(4.0) == 12.0
    assert calls == [0.0, 2.0, 3.0, 6.0]


def test_an_annotation_and_the_call_with_arguments_ask_for_it_too(form):
    @bellhop.pure_callback
    def outer(x) -> bellhop.infer:
        return np.outer(x, x)

    x = np.arange(3.0)
    np.testing.assert_array_equal(form(outer)(x), np.outer(x, x))
    sums = form(lambda x: bellhop.pure_callback(np.cumsum, bellhop.infer, x))(x)
    np.testing.assert_array_equal(sums, np.cumsum(x))


def test_the_call_is_no_part_of_the_trace(form):
    """It may use JAX and other programs, and stand in a circuit."""
    twice = bellhop.qjit(lambda x: 2 * x)

    @bellhop.pure_callback(result_type=bellhop.infer)
    def f(x):
        return np.asarray(jnp.sin(x)) + np.asarray(twice(x))

    points = np.array([0.3, 0.4])
    np.testing.assert_allclose(form(jax.vmap(f))(points), np.sin(points) + 2 * points)

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(angle):
        qml.RX(f(angle), wires=0)
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(bellhop.qjit(circuit)(0.3), np.cos(np.sin(0.3) + 0.6))


def test_derivatives_and_methods():
    class Power:
        def __init__(self, exponents):
            self.exponents, self.calls = np.array(exponents), 0

        @bellhop.pure_callback(result_type=bellhop.infer)
        def powers(self, x):
            self.calls += 1
            return x**self.exponents

        @powers.jvp
        def powers_jvp(self, primals, tangents):
            (x,), (dx,) = primals, tangents
            return self.powers(x), self.exponents * x ** (self.exponents - 1.0) * dx

    two, three = Power([1, 2]), Power([1, 2, 3])
    f = jax.jit(jax.jacfwd(lambda x: (two.powers(x), three.powers(x))))
    np.testing.assert_allclose(f(2.0)[0], [1, 4])
    np.testing.assert_allclose(f(2.0)[1], [1, 4, 12])
    assert two.calls == 1  # its value is nobody's, so it is called for its type alone


def test_keys_and_32_bit_types():
    key = jax.random.key(5)
    words = bellhop.qjit(bellhop.pure_callback(lambda key: key + np.uint32(1), bellhop.infer))(key)
    np.testing.assert_array_equal(words, jax.random.key_data(key) + np.uint32(1))
    with jax.enable_x64(False):
        half = bellhop.pure_callback(lambda x: np.full(2, x / 2.0), bellhop.infer)
        assert bellhop.qjit(half)(3).dtype == np.float32


def test_what_cannot_take_zeros_says_that_it_was_called():
    @bellhop.pure_callback(result_type=bellhop.infer)
    def inverse(x):
        return 1 / float(x)

    with pytest.raises(ZeroDivisionError) as raised:
        bellhop.qjit(inverse)(2.0)
    (note,) = [note for note in raised.value.__notes__ if "bellhop.infer" in note]
    assert note.startswith("pure_callback 'inverse' (called from ")
    assert "was called with zeros (float64[]) while the program was traced" in note


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: "text", r"It returned a str, .*Return pytrees of arrays"),
        (lambda x: float, r"It returned a type, .*Return pytrees of arrays"),
        (lambda x: x[x > 0], r"It returned an empty array \(float64\[0\]\), so the size"),
    ],
    ids=["text", "type", "empty"],
)
def test_results_that_say_no_type(function, message):
    with pytest.raises(ResultTypeError, match=message):
        bellhop.qjit(bellhop.pure_callback(function, bellhop.infer))(np.ones(2))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            lambda x: x.astype(int),
            r"returned int64\[\], and float64\[\] when it was called with zeros",
        ),
        (
            lambda x: x.reshape(1, 1),
            r"returned float64\[1,1\], and float64\[\] when it was called with",
        ),
    ],
    ids=["dtype", "shape"],
)
def test_other_types_for_other_values_are_an_error_that_says_so(result, message):
    f = bellhop.pure_callback(lambda x: result(x) if x > 0 else x, bellhop.infer)
    with pytest.raises(TypeError, match=message):
        bellhop.qjit(f)(2.0)


def test_another_structure_for_other_values_is_an_error_that_says_so():
    f = bellhop.pure_callback(lambda x: {"b" if x > 0 else "a": x}, bellhop.infer)
    with pytest.raises(
        TypeError, match="returned a value of structure .*, and .* when it was called with zeros"
    ):
        bellhop.qjit(f)(2.0)


@pytest.mark.parametrize(
    "make",
    [
        bellhop.io_callback,
        functools.partial(bellhop.io_callback, ordered=True),
        bellhop.buffer_callback,
        lambda function, type_: bellhop.pure_callback(function, {"a": type_}),
    ],
    ids=["io", "ordered io", "buffer", "part of a type"],
)
def test_only_pure_callback_infers(make, calls):
    with pytest.raises(ResultTypeError, match=r"bellhop\.infer"):
        make(calls.append, bellhop.infer)
    assert calls == []
