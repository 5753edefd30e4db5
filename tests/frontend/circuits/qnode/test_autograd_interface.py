"""PennyLane's optimizers and derivatives over qjit functions, as over uncompiled QNodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from pennylane import numpy as pnp
from tests.needs import PYTORCH

import bellhop


@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x, y):
    qml.RX(x[0], wires=0)
    qml.RY(x[1] * y, wires=0)
    return qml.expval(qml.Z(0))


OPTIMIZERS = {
    "gradient descent": (lambda: qml.GradientDescentOptimizer(0.4), {}),
    "adam": (lambda: qml.AdamOptimizer(0.4), {}),
    "spsa": (lambda: qml.SPSAOptimizer(10), {}),
    "rotosolve": (
        lambda: qml.RotosolveOptimizer(),
        {"nums_frequency": {"x": {(0,): 1, (1,): 1}}},
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_take_the_steps_that_they_take_uncompiled(name):
    make, options = OPTIMIZERS[name]
    found = []
    for cost in (circuit, bellhop.qjit(circuit)):
        np.random.seed(1)
        optimizer = make()
        x, y = pnp.array([0.3, 0.5], requires_grad=True), pnp.array(1.0, requires_grad=False)
        for _ in range(3):
            (x, y), value = optimizer.step_and_cost(cost, x, y, **options)
            assert x.requires_grad
        found.append([*x, float(value)])
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)


def test_derivatives_of_higher_order_by_several_arguments_and_of_trees():
    f = bellhop.qjit(lambda x, n, y: {"s": (jnp.sin(x) * y).sum() * n, "n": n}, static_argnums=1)
    x, y = pnp.array([0.3, 0.5]), pnp.array(2.0)
    slopes = qml.grad(lambda x, y: f(x, 3, y)["s"])(x, y)
    np.testing.assert_allclose(slopes[0], 6 * np.cos(x))
    np.testing.assert_allclose(slopes[1], 3 * np.sin(x).sum())
    hessian = qml.jacobian(qml.grad(lambda x: f(x, 3, y)["s"]))(x)
    np.testing.assert_allclose(hessian, np.diag(-6 * np.sin(x)), atol=1e-12)
    assert f(x, 3, y)["s"].requires_grad
    assert not f(x, 3, y)["n"].requires_grad
    # Without anything to differentiate, results are JAX's.
    assert isinstance(f(pnp.array([0.3], requires_grad=False), 3, 1.0)["s"], jax.Array)
    # JAX does not know autograd's own containers.
    with pytest.raises(TypeError, match="Pass arrays of PennyLane's autograd as separate"):
        qml.grad(bellhop.qjit(lambda pair: pair[0] * pair[1]), argnums=0)([y, y])


@PYTORCH.mark
def test_tensors_of_torch_and_layers_name_what_takes_them():
    import torch

    f = bellhop.qjit(lambda x: x)
    with pytest.raises(TypeError, match="Convert the function for PyTorch by bellhop.to_torch"):
        f(torch.ones(2))
    with pytest.raises(AttributeError, match="bellhop.to_torch, which returns a function"):
        qml.qnn.TorchLayer(f, {})


def test_derivatives_by_keyword_arguments_and_elements_of_containers():
    """The boxes of autograd are found where they are."""
    scaled = bellhop.qjit(lambda pair, scale=1.0: {"value": pair["x"] * pair["y"] ** 2 * scale})
    by_element = lambda x: scaled({"x": x, "y": 3.0}, scale=2.0)["value"]
    by_keyword = lambda x: scaled({"x": 2.0, "y": 3.0}, scale=x)["value"]
    at = pnp.array(0.5, requires_grad=True)
    assert qml.grad(by_element)(at) == pytest.approx(18)
    assert qml.grad(by_keyword)(at) == pytest.approx(18)
