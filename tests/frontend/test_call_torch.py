"""call_torch: PyTorch's functions in programs; derivatives held against PyTorch's and JAX's."""

import concurrent.futures

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pennylane as qml
import pytest

import bellhop

torch = pytest.importorskip("torch")

FORMS = {"qjit": bellhop.qjit, "jit": jax.jit, "eager": lambda function: function}
STRUCT = jax.ShapeDtypeStruct
X = np.array([0.3, -1.2, 2.0])
Y = np.array([0.5, 0.7, -0.2])


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request):
    return request.param


def torch_function(x, y):
    return torch.sin(x) * y.sum() + torch.outer(x, y**2) @ y


def jax_function(x, y):
    return jnp.sin(x) * y.sum() + jnp.outer(x, y**2) @ y


def loss(function):
    return lambda x, y: (function(x, y) ** 2).sum()


def test_values(form):
    call = bellhop.call_torch(torch_function)
    np.testing.assert_allclose(form(call)(X, Y), jax_function(X, Y), rtol=1e-14)


DERIVATIVES = {
    "grad": jax.grad,
    "grad of the second": lambda f: jax.grad(f, argnums=1),
    "grad of both": lambda f: jax.grad(f, argnums=(0, 1)),
    "jvp": lambda f: lambda x, y: jax.jvp(f, (x, y), (y, x)),
    "jacfwd": jax.jacfwd,
    "hessian": jax.hessian,
    "reverse over reverse": lambda f: jax.jacrev(jax.jacrev(f)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f, argnums=1)),
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "third": lambda f: jax.jacrev(jax.hessian(f)),
    "vmap of grad": lambda f: lambda x, y: jax.vmap(jax.grad(f), (0, None))(jnp.stack([x, y]), y),
    "grad of vmap": lambda f: jax.grad(
        lambda x, y: jax.vmap(f, (None, 0))(x, jnp.stack([x, y])).sum()
    ),
    "vmap of hessian": lambda f: (
        lambda x, y: jax.vmap(jax.hessian(f))(jnp.stack([x, y]), jnp.stack([y, x]))
    ),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
    "scan": lambda f: jax.grad(
        lambda x, y: jax.lax.scan(lambda c, _: (jnp.tanh(c + f(c, y)), None), x, None, 3)[0].sum()
    ),
}


@pytest.mark.parametrize("method", ["sequential", "expand_dims"])
@pytest.mark.parametrize("derivative", DERIVATIVES.values(), ids=DERIVATIVES)
def test_derivatives_of_every_kind(derivative, method):
    # One that takes mapped axes before its own as well as none.
    def batched(x, y):
        return torch.sin(x) * y.sum(-1, keepdim=True) + x * (y**3).sum(-1, keepdim=True)

    def reference(x, y):
        return jnp.sin(x) * y.sum(-1, keepdims=True) + x * (y**3).sum(-1, keepdims=True)

    call = bellhop.call_torch(batched, vmap_method=method)
    observed = bellhop.qjit(derivative(loss(call)))(X, Y)
    expected = derivative(loss(reference))(X, Y)
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12),
        observed,
        expected,
    )


def test_derivatives_without_a_program():
    call = bellhop.call_torch(torch_function)
    for derivative in (jax.grad, jax.hessian):
        expected = derivative(loss(jax_function))(X, Y)
        np.testing.assert_allclose(derivative(loss(call))(X, Y), expected, rtol=1e-10)
        np.testing.assert_allclose(jax.jit(derivative(loss(call)))(X, Y), expected, rtol=1e-10)


HOLOMORPHIC = (lambda z: torch.exp(z) * z, lambda z: jnp.exp(z) * z)
NOT_HOLOMORPHIC = (
    lambda z: z.conj() * z.abs() ** 2 + z.real,
    lambda z: jnp.conj(z) * jnp.abs(z) ** 2 + jnp.real(z),
)


@pytest.mark.parametrize(
    ("function", "reference"), [HOLOMORPHIC, NOT_HOLOMORPHIC], ids=["holomorphic", "not"]
)
def test_complex_derivatives_are_those_of_jax(form, function, reference):
    z, t = np.array([1.0 + 2j, -0.5j]), np.array([0.3 - 1j, 2.0])
    call = bellhop.call_torch(function)
    for transform in (
        lambda f: lambda z, t: jax.jvp(f, (z,), (t,)),
        lambda f: lambda z, t: jax.vjp(f, z)[1](t),
        lambda f: lambda z, t: jax.grad(lambda z: jnp.abs(f(z)).sum())(z),
        lambda f: lambda z, t: jax.jvp(jax.grad(lambda z: (jnp.abs(f(z)) ** 2).sum()), (z,), (t,)),
    ):
        observed, expected = form(transform(call))(z, t), transform(reference)(z, t)
        jax.tree.map(
            lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-9),
            observed,
            expected,
        )


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


def test_arguments_are_not_copied():
    addresses = []

    def function(x):
        if type(x) is torch.Tensor:
            addresses.append(x.data_ptr())
        return x.sum()

    x = jnp.ones(100_000)
    assert bellhop.qjit(bellhop.call_torch(function))(x) == 100_000
    assert addresses == [x.unsafe_buffer_pointer()]


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


def test_kept_tensor_is_an_error_or_has_memory_of_its_own():
    kept = []

    def function(x):
        if type(x) is torch.Tensor:
            kept.append(x)
        return x.sum()

    f = bellhop.qjit(bellhop.call_torch(function))
    f(X)
    np.testing.assert_array_equal(kept[0], X)
    with pytest.raises(RuntimeError, match="callback 'function' kept its argument 0"):
        f(np.ones(100_000))


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


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)
    ).double()


def test_gradients_of_a_module_are_those_of_torch(form):
    module = network()
    call = bellhop.call_torch(module)
    x = torch.from_numpy(X).clone().requires_grad_()
    (module(x) ** 2).sum().backward()

    def cost(parameters, x):
        return (call.apply(parameters, x) ** 2).sum()

    by_parameters, by_x = form(jax.grad(cost, argnums=(0, 1)))(call.parameters(), X)
    np.testing.assert_allclose(by_x, x.grad.numpy(), rtol=1e-12)
    assert by_parameters.keys() == dict(module.named_parameters()).keys()
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(by_parameters[name], parameter.grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(form(jax.grad(lambda x: (call(x) ** 2).sum()))(X), by_x)


def test_module_is_called_with_the_parameters_it_has():
    module = network()
    call = bellhop.call_torch(module)
    f = bellhop.qjit(call)
    before = f(X)
    call.update({name: 2 * value for name, value in call.parameters().items()})
    assert f(X) != before
    np.testing.assert_allclose(f(X), module(torch.from_numpy(X)).detach().numpy())
    unchanged = call.parameters()["0.weight"]
    with torch.no_grad():
        module[0].weight.zero_()
    assert np.all(np.asarray(unchanged) != 0)


def test_parameters_that_are_unknown_or_of_a_function_are_refused():
    call = bellhop.call_torch(network())
    with pytest.raises(ValueError, match=r"'Sequential' has no parameters \['2.scale'\]"):
        call.apply({"2.scale": 1.0}, X)
    with pytest.raises(TypeError, match="'sin' is a function, which has no parameters"):
        bellhop.call_torch(torch.sin).parameters()


def test_tracing_leaves_a_module_as_it_is():
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.ReLU(inplace=True)).double()
    call = bellhop.call_torch(module)
    state = torch.get_rng_state()
    lowered = bellhop.qjit(call).lower(np.ones((4, 3)))
    assert lowered is not None
    assert module[0].num_batches_tracked == 0
    assert torch.equal(torch.get_rng_state(), state)
    bellhop.qjit(call)(np.ones((4, 3)))
    assert module[0].num_batches_tracked == 1


def test_hybrid_network_trains_like_torch_alone():
    """PennyLaneAI/catalyst#1157: a torch layer before a circuit, trained through qjit."""
    module, reference = network(), network()
    call = bellhop.call_torch(module)

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(angle):
        qml.RX(angle, wires=0)
        return qml.expval(qml.PauliZ(0))

    @bellhop.qjit
    def step(parameters):
        def cost(parameters):
            return (circuit(call.apply(parameters, X)[0]) - 0.3) ** 2

        value, gradient = jax.value_and_grad(cost)(parameters)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient)

    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    parameters = call.parameters()
    for _ in range(3):
        value, parameters = step(parameters)
        optimizer.zero_grad()
        expected = (torch.cos(reference(torch.from_numpy(X))[0]) - 0.3) ** 2
        expected.backward()
        optimizer.step()
        np.testing.assert_allclose(value, expected.item(), rtol=1e-10)
    for name, parameter in reference.named_parameters():
        np.testing.assert_allclose(parameters[name], parameter.detach().numpy(), rtol=1e-9)


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
            assert "pennylane-bellhop[torch]" in str(error), error
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


class TestToTorch:
    def test_values_and_pytrees(self):
        f = bellhop.to_torch(lambda tree, *, scale: {"y": tree["x"] * scale, "n": scale + 1})
        result = f({"x": torch.from_numpy(X)}, scale=2)
        np.testing.assert_array_equal(result["y"], 2 * X)
        assert result["n"] == 3

    def test_derivatives_to_the_second_order(self):
        f = bellhop.to_torch(lambda x, y: jnp.sum(jax_function(x, y) ** 2))
        x, y = (torch.from_numpy(v).clone().requires_grad_() for v in (X, Y))
        assert torch.autograd.gradcheck(f, (x, y))
        assert torch.autograd.gradgradcheck(f, (x, y))
        observed = torch.autograd.functional.hessian(f, (x, y))
        expected = jax.hessian(loss(jax_function), argnums=(0, 1))(X, Y)
        for row, other in zip(observed, expected, strict=True):
            for block, reference in zip(row, other, strict=True):
                np.testing.assert_allclose(block, reference, rtol=1e-9, atol=1e-12)

    def test_complex_gradients_are_those_of_torch(self):
        z = torch.tensor([1 + 2j, -0.5j], dtype=torch.complex128, requires_grad=True)
        assert torch.autograd.gradcheck(bellhop.to_torch(NOT_HOLOMORPHIC[1]), (z,))

    def test_circuit_in_a_module_that_torch_trains(self):
        """PennyLaneAI/catalyst#1157: the other nesting, a compiled circuit in a torch module."""

        @qml.qnode(qml.device("lightning.qubit", wires=1))
        def circuit(angle):
            qml.RX(angle, wires=0)
            return qml.expval(qml.PauliZ(0))

        layer = bellhop.to_torch(bellhop.qjit(circuit))

        class Hybrid(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.network = network()

            def forward(self, x):
                return layer(self.network(x)[0])

        model, reference = Hybrid(), network()
        x = torch.from_numpy(X)
        optimizers = [torch.optim.Adam(m.parameters(), lr=0.05) for m in (model, reference)]
        for _ in range(3):
            losses = ((model(x) - 0.3) ** 2, (torch.cos(reference(x)[0]) - 0.3) ** 2)
            for value, optimizer in zip(losses, optimizers, strict=True):
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
        assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-9)
        for one, other in zip(model.parameters(), reference.parameters(), strict=True):
            np.testing.assert_allclose(one.detach(), other.detach(), rtol=1e-8)

    def test_torch_in_jax_in_torch(self):
        inner = bellhop.call_torch(torch.sin)
        outer = bellhop.to_torch(lambda x: jnp.sum(inner(x) ** 2))
        x = torch.from_numpy(X).clone().requires_grad_()
        assert torch.autograd.gradcheck(outer, (x,))
        np.testing.assert_allclose(outer(x).item(), (np.sin(X) ** 2).sum())

    def test_result_may_be_written(self):
        x = torch.from_numpy(X).clone()
        result = bellhop.to_torch(lambda x: x)(x)
        result.zero_()
        np.testing.assert_array_equal(x, X)

    def test_what_is_no_function_is_refused(self):
        with pytest.raises(TypeError, match="to_torch takes a function, got 3"):
            bellhop.to_torch(3)
