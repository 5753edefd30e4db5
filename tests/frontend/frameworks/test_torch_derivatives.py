"""Derivatives of PyTorch's functions in programs, held against those of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.frontend.frameworks.functions import (
    NOT_HOLOMORPHIC,
    X,
    Y,
    jax_function,
    loss,
    torch_function,
)
from tests.needs import PYTORCH

import bellhop

torch = PYTORCH.import_module()
pytestmark = PYTORCH.mark

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
# The plain one stands for them in make test.
HIGHER = dict.fromkeys(
    [
        "reverse over reverse",
        "reverse over forward",
        "forward over forward",
        "third",
        "vmap of hessian",
    ],
    pytest.mark.hessian,
)


@pytest.mark.parametrize("method", ["sequential", "expand_dims"])
@pytest.mark.parametrize(
    "derivative",
    [
        pytest.param(derivative, id=name, marks=HIGHER.get(name, ()))
        for name, derivative in DERIVATIVES.items()
    ],
)
def test_derivatives_of_every_kind(derivative, method):
    # One that takes mapped axes before its own as well as none.
    def batched(x, y):
        return torch.sin(x) * y.sum(-1, keepdim=True) + x * (y**3).sum(-1, keepdim=True)

    def reference(x, y):
        return jnp.sin(x) * y.sum(-1, keepdims=True) + x * (y**3).sum(-1, keepdims=True)

    call = bellhop.call_torch(batched, vmap_method=method)
    observed = bellhop.qjit(derivative(loss(call)))(X, Y)
    expected = jax.jit(derivative(loss(reference)))(X, Y)
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12),
        observed,
        expected,
    )


@pytest.mark.large
def test_derivatives_without_a_program():
    call = bellhop.call_torch(torch_function)
    for derivative in (jax.grad, jax.hessian):
        expected = derivative(loss(jax_function))(X, Y)
        np.testing.assert_allclose(derivative(loss(call))(X, Y), expected, rtol=1e-10)
        np.testing.assert_allclose(jax.jit(derivative(loss(call)))(X, Y), expected, rtol=1e-10)


HOLOMORPHIC = (lambda z: torch.exp(z) * z, lambda z: jnp.exp(z) * z)


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
