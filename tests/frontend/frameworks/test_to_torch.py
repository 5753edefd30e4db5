"""to_torch: functions of JAX in PyTorch's programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.frameworks.functions import NOT_HOLOMORPHIC, X, Y, jax_function, loss, network
from tests.needs import PYTORCH

import bellhop

torch = PYTORCH.import_module()
pytestmark = PYTORCH.mark


def test_values_and_pytrees():
    f = bellhop.to_torch(lambda tree, *, scale: {"y": tree["x"] * scale, "n": scale + 1})
    result = f({"x": torch.from_numpy(X)}, scale=2)
    np.testing.assert_array_equal(result["y"], 2 * X)
    assert result["n"] == 3


@pytest.mark.hessian
def test_derivatives_to_the_second_order():
    f = bellhop.to_torch(lambda x, y: jnp.sum(jax_function(x, y) ** 2))
    x, y = (torch.from_numpy(v).clone().requires_grad_() for v in (X, Y))
    assert torch.autograd.gradcheck(f, (x, y))
    assert torch.autograd.gradgradcheck(f, (x, y))
    observed = torch.autograd.functional.hessian(f, (x, y))
    expected = jax.hessian(loss(jax_function), argnums=(0, 1))(X, Y)
    for row, other in zip(observed, expected, strict=True):
        for block, reference in zip(row, other, strict=True):
            np.testing.assert_allclose(block, reference, rtol=1e-9, atol=1e-12)


def test_complex_gradients_are_those_of_torch():
    z = torch.tensor([1 + 2j, -0.5j], dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(bellhop.to_torch(NOT_HOLOMORPHIC[1]), (z,))


def test_circuit_in_a_module_that_torch_trains():
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


def test_torch_in_jax_in_torch():
    inner = bellhop.call_torch(torch.sin)
    outer = bellhop.to_torch(lambda x: jnp.sum(inner(x) ** 2))
    x = torch.from_numpy(X).clone().requires_grad_()
    assert torch.autograd.gradcheck(outer, (x,))
    np.testing.assert_allclose(outer(x).item(), (np.sin(X) ** 2).sum())


def test_structure_of_the_result_is_that_of_the_call():
    f = bellhop.to_torch(lambda x: {"one": x[0]} if x.shape == (1,) else (x.sum(), {"all": x}))
    one, two = torch.ones(1, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    assert f(one) == {"one": 1.0}
    total, tree = f(two)
    assert (total, tree["all"].shape) == (2.0, (2,))
    # Nothing is traced here.
    assert f(one) == {"one": 1.0}


def _quadratic(x):
    return {"y": x @ x * x, "n": x.argmax()}


F = torch.func
TRANSFORMED = {
    "grad": lambda f, x: F.grad(lambda x: f(x)["y"].sum())(x),
    "jacrev": lambda f, x: F.jacrev(lambda x: f(x)["y"])(x),
    "jacfwd": lambda f, x: F.jacfwd(lambda x: f(x)["y"])(x),
    "hessian": lambda f, x: F.hessian(lambda x: f(x)["y"].sum())(x),
    "jvp": lambda f, x: F.jvp(lambda x: f(x)["y"], (x,), (2 * x,))[1],
    "vmap": lambda f, x: F.vmap(f, in_dims=1)(torch.outer(x, x))["y"],
    "vmap of grad": lambda f, x: F.vmap(F.grad(lambda x: f(x)["y"].sum()))(torch.outer(x, x)),
    "grad of vmap": lambda f, x: F.grad(lambda x: F.vmap(f)(torch.outer(x, x))["y"].sum())(x),
    "compile": lambda f, x: torch.compile(lambda x: f(x + 1)["y"] * 2, backend="eager")(x),
}


# PyTorch's own forward mode uses what PyTorch has deprecated.
@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("transform", TRANSFORMED)
def test_transformed_by_torch_as_functions_of_its_own_are(transform):
    x = torch.tensor([0.5, 1.5, -1.0], dtype=torch.float64)
    transformed = TRANSFORMED[transform]
    torch.testing.assert_close(
        transformed(bellhop.to_torch(_quadratic), x), transformed(_quadratic, x)
    )


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_forward_mode_through_a_circuit():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(angle):
        qml.RX(angle, wires=0)
        return qml.expval(qml.PauliZ(0))

    f = bellhop.to_torch(circuit)
    angles = torch.tensor([0.1, 0.4], dtype=torch.float64)
    value, tangent = F.vmap(lambda a: F.jvp(f, (a,), (torch.ones_like(a),)))(angles)
    torch.testing.assert_close(value, torch.cos(angles))
    torch.testing.assert_close(tangent, -torch.sin(angles))


@pytest.mark.parametrize("trace", [F.linearize, lambda f, x: f(x.to("meta"))])
def test_it_is_no_part_of_a_graph_of_torch(trace):
    f = bellhop.to_torch(lambda x: x)
    with pytest.raises(NotImplementedError, match="does not support tensors without data"):
        trace(f, torch.ones(1))
    assert f(torch.ones(1)) == 1


def test_result_may_be_written():
    x = torch.from_numpy(X).clone()
    result = bellhop.to_torch(lambda x: x)(x)
    result.zero_()
    np.testing.assert_array_equal(x, X)


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="to_torch takes a function, got 3"):
        bellhop.to_torch(3)
