"""PyTorch's modules in programs: their parameters, and training."""

import jax
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.frameworks.functions import X, network
from tests.needs import PYTORCH

import bellhop

torch = PYTORCH.import_module()
pytestmark = PYTORCH.mark


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
    with pytest.raises(TypeError, match="'sin' is a function without parameters"):
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
