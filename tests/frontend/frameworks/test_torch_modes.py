"""call_torch in PyTorch's ambient modes, and of each kind of function and module."""

import contextlib

import jax
import numpy as np
import pytest
from tests.frontend.frameworks.functions import X, network
from tests.needs import PYTORCH

import bellhop

torch = PYTORCH.import_module()
pytestmark = PYTORCH.mark


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def product(x):
    """A function whose result type depends on autocast."""
    return x[None] @ torch.full((3, 1), 1 / 3, dtype=x.dtype, device=x.device)


def filled(x):
    """A function whose result type depends on the default dtype."""
    return torch.ones(2) * x.sum().to(torch.get_default_dtype())


# Name: the mode, the function, its argument.
MODES = {
    "inference_mode": (torch.inference_mode, torch.sin, X),
    "no_grad": (torch.no_grad, torch.sin, X),
    "enable_grad": (torch.enable_grad, torch.sin, X),
    "autocast": (
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        product,
        X.astype(np.float32),
    ),
    "default device": (lambda: torch.device("meta"), lambda x: 2 * x.abs(), X),
    "default dtype": (lambda: default_dtype(torch.float64), filled, X),
    "anomaly detection": (lambda: torch.autograd.set_detect_anomaly(True), torch.sin, X),
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("name", MODES)
def test_a_program_traced_in_a_mode_gives_what_torch_gives_in_it(name):
    mode, function, x = MODES[name]
    with mode():
        expected = function(torch.tensor(x, device="cpu"))
        found = bellhop.qjit(bellhop.call_torch(function))(x)
        gradient = bellhop.qjit(jax.grad(lambda x: bellhop.call_torch(function)(x).sum()))(x)
    expected = expected.detach()
    assert str(found.dtype) == str(expected.dtype).removeprefix("torch.")
    np.testing.assert_array_equal(np.asarray(found, float), expected.double().numpy())
    leaf = torch.tensor(x, device="cpu", requires_grad=True)
    function(leaf).sum().backward()
    np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-2)


@pytest.mark.parametrize("name", [name for name in MODES if name != "default dtype"])
def test_a_program_keeps_the_modes_that_it_was_traced_in(name):
    mode, function, x = MODES[name]
    f = bellhop.qjit(bellhop.call_torch(function))
    outside = f(x)
    with mode():
        inside = f(x)
    assert (inside.dtype, inside.tolist()) == (outside.dtype, outside.tolist())
    traced_inside = bellhop.qjit(bellhop.call_torch(function))
    with mode():
        inside = traced_inside(x)
    outside = traced_inside(x)
    assert (inside.dtype, inside.tolist()) == (outside.dtype, outside.tolist())


def test_another_default_dtype_than_when_traced_is_named():
    f = bellhop.qjit(bellhop.call_torch(filled))
    f(X)
    with (
        default_dtype(torch.float64),
        pytest.raises(TypeError, match=r"default dtype was torch\.float32 when the program"),
    ):
        f(X)


@pytest.mark.parametrize("order", [1, 2])
def test_inference_mode_stops_no_derivative_of_a_module(order):
    module = network()
    call = bellhop.call_torch(module)

    def cost(parameters, x):
        return (call.apply(parameters, x) ** 2).sum()

    derivative = bellhop.qjit(jax.grad(cost) if order == 1 else jax.hessian(cost, argnums=1))
    with torch.inference_mode():
        inside = derivative(call.parameters(), X)
        call.update(call.parameters())
    outside = derivative(call.parameters(), X)
    jax.tree.map(np.testing.assert_allclose, inside, outside)
    assert not any(parameter.is_inference() for parameter in module.parameters())


class Scaled(torch.nn.Module):
    """A module with a buffer, and a layer that is another one in training."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2).double()
        self.norm = torch.nn.BatchNorm1d(2).double()
        self.register_buffer("scale", torch.tensor([2.0, -1.0], dtype=torch.float64))

    def forward(self, x):
        return torch.tanh(self.norm(self.layer(x))) * self.scale


ROWS = np.arange(12.0).reshape(4, 3) ** 2 / 50

MODULES = {
    "eager": lambda module: module,
    "TorchScript": torch.jit.script,
    "TorchScript, traced": lambda module: torch.jit.trace(
        module, torch.tensor(ROWS), check_trace=False
    ),
    "TorchScript in a module": lambda module: torch.nn.Sequential(torch.jit.script(module)),
    "torch.compile": lambda module: torch.compile(module, backend="eager"),
}


@pytest.mark.filterwarnings("ignore:.torch.jit", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("is_trained", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("kind", MODULES)
def test_every_kind_of_module_has_values_and_gradients(kind, is_trained):
    torch.manual_seed(2)
    reference = Scaled().train(is_trained)
    module = MODULES[kind](reference)
    call = bellhop.call_torch(module)
    parameters = {name: 1.5 * value for name, value in call.parameters().items()}
    before = [buffer.clone() for buffer in module.buffers()]
    bellhop.qjit(call).lower(ROWS)
    assert all(map(torch.equal, module.buffers(), before))

    leaf = torch.tensor(ROWS, requires_grad=True)
    given = [torch.tensor(np.asarray(value), requires_grad=True) for value in parameters.values()]
    names = [name for name, _ in reference.named_parameters()]
    expected = torch.func.functional_call(reference, dict(zip(names, given, strict=True)), (leaf,))
    gradients = torch.autograd.grad((expected**2).sum(), [leaf, *given])

    def cost(x, parameters):
        value = call.apply(parameters, x)
        return (value**2).sum(), value

    found, value = bellhop.qjit(jax.grad(cost, argnums=(0, 1), has_aux=True))(ROWS, parameters)
    np.testing.assert_allclose(value, expected.detach().numpy(), rtol=1e-10)
    for one, other in zip(
        [found[0], *(found[1][name] for name in parameters)], gradients, strict=True
    ):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-7, atol=1e-9)


WEIGHTS = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)


def weighted(x):
    return x**2 * WEIGHTS


def cube(x):
    return x**3


FUNCTIONS = {
    "torch.func.grad": lambda: torch.func.grad(lambda x: (x**3).sum()),
    "torch.func.vmap": lambda: torch.func.vmap(cube),
    "torch.func.jacrev": lambda: torch.func.jacrev(cube),
    "torch.func.jacfwd": lambda: torch.func.jacfwd(cube),
    "torch.compile": lambda: torch.compile(cube, backend="eager"),
    "TorchScript, traced": lambda: torch.jit.trace(weighted, torch.tensor(X)),
}


@pytest.mark.filterwarnings("ignore:.torch.jit", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_every_kind_of_function_has_values_and_gradients(kind):
    function = FUNCTIONS[kind]()
    call = bellhop.call_torch(function)
    leaf = torch.tensor(X, requires_grad=True)
    expected = function(leaf)
    (gradient,) = torch.autograd.grad(expected.sum(), leaf)
    np.testing.assert_allclose(bellhop.qjit(call)(X), expected.detach().numpy(), rtol=1e-12)
    found = bellhop.qjit(jax.grad(lambda x: call(x).sum()))(X)
    np.testing.assert_allclose(found, gradient.numpy(), rtol=1e-12)


# The other way round: what PyTorch's modes and transforms do to to_torch.
def test_to_torch_in_modes_and_under_transforms():
    f = bellhop.to_torch(lambda x: jax.numpy.sin(x))
    x = torch.tensor(X)
    expected = np.sin(X)
    for mode in (torch.inference_mode, torch.no_grad, lambda: torch.device("meta")):
        with mode():
            result = f(x)
        assert not result.requires_grad
        np.testing.assert_allclose(result.numpy(), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert f(x.float()).dtype == torch.float32
    compiled = torch.compile(lambda x: f(x) + 1, backend="eager")
    np.testing.assert_allclose(compiled(x).numpy(), expected + 1)
    np.testing.assert_allclose(torch.func.grad(lambda x: f(x).sum())(x).numpy(), np.cos(X))
    np.testing.assert_allclose(torch.func.vmap(f)(torch.stack([x, x]))[1].numpy(), expected)
