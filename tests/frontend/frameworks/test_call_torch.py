"""call_torch: PyTorch's functions in programs, and what passes in and out of them."""

import concurrent.futures

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from tests.frontend.frameworks.functions import X, Y, jax_function, torch_function
from tests.needs import PYTORCH

import bellhop

torch = PYTORCH.import_module()
pytestmark = PYTORCH.mark

STRUCT = jax.ShapeDtypeStruct


def test_values(form):
    call = bellhop.call_torch(torch_function)
    np.testing.assert_allclose(form(call)(X, Y), jax_function(X, Y), rtol=1e-14)


def test_integers_and_unused_arguments(form):
    def function(x, n, unused):
        return x**n, n + 1, torch.zeros(2, dtype=torch.float64)

    call = bellhop.call_torch(function)
    power, number, zeros = form(call)(1.5, 3, 2.0)
    assert (power, number) == (1.5**3, 4)
    assert number.dtype == np.int64
    np.testing.assert_array_equal(zeros, [0, 0])
    gradient = form(jax.grad(lambda x, u: call(x, 3, u)[0] + call(x, 3, u)[2][0], argnums=(0, 1)))
    np.testing.assert_allclose(gradient(1.5, 2.0), (3 * 1.5**2, 0.0))
    with pytest.raises(TypeError, match="int"):
        jax.grad(lambda n: call(1.5, n, 2.0)[0])(3)


def test_pytrees_and_keywords(form):
    def function(tree, *, scale):
        return {"sum": tree["a"].sum() * scale, "max": torch.max(tree["b"], dim=0), "none": None}

    call = bellhop.call_torch(function)
    tree = {"a": X, "b": np.array([[1.0, 5.0], [4.0, 2.0]])}
    result = form(lambda tree, scale: call(tree, scale=scale))(tree, 2.0)
    np.testing.assert_allclose(result["sum"], 2 * X.sum())
    values, indices = result["max"]
    np.testing.assert_array_equal(values, [4, 5])
    np.testing.assert_array_equal(indices, [1, 0])
    assert result["none"] is None


def test_numbers_may_be_returned(form):
    result = form(bellhop.call_torch(lambda x: (x.ndim, 2.5, True)))(X)
    assert result == (1, 2.5, True)
    assert [leaf.dtype for leaf in result] == [np.int64, np.float64, np.bool_]


@pytest.mark.parametrize("size", [3, 100_000])
def test_argument_may_be_the_result(form, size):
    x = jnp.arange(float(size))
    np.testing.assert_array_equal(form(bellhop.call_torch(lambda x: x))(x), x)
    np.testing.assert_array_equal(form(bellhop.call_torch(lambda x: x[1:].flip(0)))(x), x[:0:-1])


@pytest.mark.parametrize("size", [3, 100_000])
def test_change_in_place_reaches_nobody(form, size):
    def function(x):
        x.mul_(2)
        return x.sum()

    call = bellhop.call_torch(function)
    x = jnp.ones(size)
    assert form(call)(x) == 2 * size
    np.testing.assert_array_equal(x, np.ones(size))
    np.testing.assert_array_equal(form(jax.grad(call))(x), np.full(size, 2.0))


def test_change_in_place_that_did_not_show_is_an_error():
    changes = []

    def function(x):
        if changes:
            x.mul_(2)
        return x.sum()

    f = bellhop.qjit(bellhop.call_torch(function))
    assert f(X) == X.sum()
    changes.append(True)
    with pytest.raises(RuntimeError, match=r"'function' changed an argument in place"):
        f(X)


def test_kept_tensors_have_memory_of_their_own():
    kept = []

    def function(x):
        if type(x) is torch.Tensor:
            kept.append(x)
        return x.sum()

    f = bellhop.qjit(bellhop.call_torch(function))
    for value in (X, np.ones(100_000)):
        f(value)
        f(value + 1)
    for value, tensor in zip(
        (X, X + 1, np.ones(100_000), np.full(100_000, 2.0)), kept, strict=True
    ):
        np.testing.assert_array_equal(tensor, value)


def test_exceptions_are_those_of_torch():
    class Mine(Exception):
        pass

    error = Mine("data")

    def function(x):
        if type(x) is torch.Tensor and x.sum() > 0:
            raise error
        return x.sum()

    f = bellhop.qjit(bellhop.call_torch(function))
    with pytest.raises(Mine) as caught:
        f(np.ones(2))
    assert caught.value is error
    assert f(-np.ones(2)) == -2.0

    solve = bellhop.qjit(bellhop.call_torch(torch.linalg.inv))
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        solve(np.zeros((2, 2)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: torch.tensor(x.numpy()),
        lambda x: x.nonzero(),
        lambda x: x @ torch.ones(7, 7, dtype=x.dtype),
    ],
    ids=["branch", "numpy", "nonzero", "shapes"],
)
def test_what_does_not_run_without_data_asks_for_a_result_type(function):
    with pytest.raises(bellhop.CompileError, match=r"'<lambda>' \(.*result_type=") as caught:
        bellhop.qjit(bellhop.call_torch(function))(X)
    assert caught.value.__cause__ is not None


def test_declared_result_type():
    function = bellhop.call_torch(lambda x: x if x.sum() > 0 else -x, STRUCT((3,), np.float64))
    np.testing.assert_array_equal(bellhop.qjit(function)(X), X)
    np.testing.assert_array_equal(bellhop.qjit(function)(-X), X)
    np.testing.assert_array_equal(jax.grad(lambda x: function(x).sum())(-X), [-1, -1, -1])
    wrong = bellhop.call_torch(lambda x: x[:2], result_type=STRUCT((3,), np.float64))
    with pytest.raises(TypeError, match=r"call_torch '.*' returned float64\[2\], declared"):
        bellhop.qjit(wrong)(X)
    wrong = bellhop.call_torch(lambda x: (x, x), result_type=STRUCT((3,), np.float64))
    with pytest.raises(TypeError, match="call_torch '<lambda>' returned"):
        bellhop.qjit(wrong)(X)


def test_two_shapes_and_types_in_one_program():
    double = bellhop.call_torch(lambda x: 2 * x)
    f = bellhop.qjit(lambda x, y: (double(x), double(y)))
    first, second = f(X, np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, np.full((2, 2), 2, np.float32))
    assert second.dtype == np.float32


DTYPES = [
    *(np.bool_, np.int8, np.int16, np.int32, np.int64),
    *(np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.float16, np.float32, np.float64, np.complex64, np.complex128),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
    *(ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e8m0fnu),
]


@pytest.mark.parametrize("shape", [(), (3,), (2, 0)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_every_dtype_arrives_and_returns_unchanged(dtype, shape):
    value = np.ones(shape).astype(dtype)
    result = bellhop.qjit(bellhop.call_torch(lambda x: x.clone()))(value)
    assert (result.dtype, result.shape) == (np.dtype(dtype), shape)
    assert np.asarray(result).tobytes() == value.tobytes()


def test_dtype_that_torch_lacks_is_named():
    with pytest.raises(TypeError, match="no tensors of type float8_e3m4"):
        bellhop.call_torch(lambda x: x)(np.ones(2, ml_dtypes.float8_e3m4))


def test_with_64_bit_types_off(run_script):
    run_script(
        """
        import jax, numpy as np, bellhop, torch
        jax.config.update("jax_enable_x64", False)
        f = bellhop.call_torch(lambda x: (x.double() ** 2, torch.arange(3)))
        square, numbers = bellhop.qjit(f)(np.ones(2, np.float32))
        assert (square.dtype, numbers.dtype) == (np.float32, np.int32), (square, numbers)
        np.testing.assert_array_equal(numbers, [0, 1, 2])
        gradient = bellhop.qjit(jax.grad(lambda x: f(x)[0].sum()))(np.full(2, 3.0, np.float32))
        np.testing.assert_array_equal(gradient, [6, 6])
        """
    )


@pytest.mark.parametrize("first", ["torch", "bellhop"])
def test_either_may_be_imported_first_and_threads_do_not_wait_for_each_other(run_script, first):
    second = {"torch": "bellhop", "bellhop": "torch"}[first]
    run_script(
        f"""
        import {first}
        import {second}
        import concurrent.futures, jax, jax.numpy as jnp, numpy as np
        torch.set_num_threads(2)
        product = bellhop.call_torch(lambda x: (x @ x).sum())
        f = bellhop.qjit(jax.grad(lambda x: product(jnp.sin(x))))
        x = np.ones((200, 200))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: np.asarray(f(x)), range(12)))
        assert all(np.array_equal(result, results[0]) for result in results)
        """
    )


def test_import_of_bellhop_does_not_import_torch(run_script):
    run_script("import bellhop, sys; assert 'torch' not in sys.modules")


def test_without_torch_the_extra_is_named(run_script):
    script = """
    import sys
    sys.modules["torch"] = None
    import bellhop
    for make in (bellhop.call_torch, bellhop.to_torch):
        try:
            make(abs)
        except ImportError as error:
            assert f"{make.__name__} needs PyTorch" in str(error), error
            assert "pip install torch" in str(error), error
        else:
            raise AssertionError("no error")
    """
    run_script(script)


def test_calls_from_several_threads():
    f = bellhop.qjit(jax.value_and_grad(lambda x: bellhop.call_torch(torch.square)(x).sum()))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for i, (value, gradient) in enumerate(
            pool.map(lambda i: f(np.full(9, i * 1.0)), range(24))
        ):
            assert value == 9.0 * i * i
            np.testing.assert_array_equal(gradient, np.full(9, 2.0 * i))


def test_equal_calls_are_one_and_dead_calls_go():
    calls = []

    def function(x):
        if type(x) is torch.Tensor:
            calls.append(1)
        return 2 * x

    call = bellhop.call_torch(function)

    @bellhop.qjit
    def f(x):
        call(x + 1)
        return call(x) + call(x)

    np.testing.assert_array_equal(f(X), 4 * X)
    assert calls == [1]


@pytest.mark.parametrize("wrong", [3, None], ids=repr)
def test_what_is_no_function_is_refused(wrong):
    if wrong is None:
        double = bellhop.call_torch(vmap_method="expand_dims")(lambda x: 2 * x)
        np.testing.assert_array_equal(jax.vmap(double)(X), 2 * X)
        return
    with pytest.raises(TypeError, match="call_torch takes a PyTorch function or module"):
        bellhop.call_torch(wrong)


def test_what_returns_no_tensors_is_refused():
    with pytest.raises(TypeError, match="'<lambda>' returns 'text' of type str"):
        bellhop.qjit(bellhop.call_torch(lambda x: "text"))(X)
