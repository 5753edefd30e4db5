"""buffer_callback under vmap: every method, with and without aliases."""

import jax
import numpy as np
import pytest
from tests.frontend.callbacks.callback_types.buffers import vector

import bellhop


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
        NotImplementedError,
        match=r"buffer_callback '<lambda>' .*is mapped by vmap but has no vmap_method",
    ):
        form(jax.vmap(callback))(np.ones(3))


def test_unknown_vmap_method_is_refused():
    with pytest.raises(ValueError, match="has vmap_method='fast', expected one of"):
        bellhop.buffer_callback(print, float, vmap_method="fast")
