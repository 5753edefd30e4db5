"""buffer_callback: results in the memory of arguments."""

import jax.numpy as jnp
import numpy as np
import pytest
from tests.frontend.callbacks.callback_types.buffers import LARGE, SMALL, STRUCT, address, vector

import bellhop


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

    callback = bellhop.buffer_callback(
        note, vector(LARGE), input_output_aliases={0: 0}, in_place=True
    )
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
        ({2: 0}, r"has 2: 0, .* index of one of 2 arguments"),
        ({-1: 0}, r"has -1: 0, .* index of one of 2 arguments"),
        ({0: 1}, r"has 0: 1, .* index of one of 1 results"),
        ({1: 0}, r"has 1: 0: the argument has type float64\[3\] and the result type float64\[2\]"),
        ({0: 0, 1: 0}, r"has 1: 0: the argument has type"),
    ],
)
def test_wrong_aliases_are_refused(form, aliases, message):
    callback = bellhop.buffer_callback(
        lambda context, out, x, y: None, vector(2), input_output_aliases=aliases
    )
    with pytest.raises(ValueError, match=rf"^buffer_callback '<lambda>': .*{message}"):
        form(callback)(np.zeros(2), np.zeros(3))


def test_aliases_of_another_dtype_and_twice_the_same_result_are_refused():
    def nothing(context, out, x, y):
        pass

    callback = bellhop.buffer_callback(nothing, vector(2), input_output_aliases={0: 0})
    with pytest.raises(
        ValueError, match=r"argument has type float32\[2\] and the result type float64"
    ):
        callback(np.zeros(2, np.float32), 0.0)
    callback = bellhop.buffer_callback(nothing, vector(2), input_output_aliases={0: 0, 1: 0})
    with pytest.raises(ValueError, match=r"\{0: 0, 1: 0\} has two arguments for one result"):
        callback(np.zeros(2), np.zeros(2))
