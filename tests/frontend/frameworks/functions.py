"""Functions of PyTorch's and of JAX's that give the same."""

import jax.numpy as jnp
import numpy as np
from tests.needs import PYTORCH

torch = PYTORCH.import_module()

X = np.array([0.3, -1.2, 2.0])
Y = np.array([0.5, 0.7, -0.2])


def torch_function(x, y):
    return torch.sin(x) * y.sum() + torch.outer(x, y**2) @ y


def jax_function(x, y):
    return jnp.sin(x) * y.sum() + jnp.outer(x, y**2) @ y


def loss(function):
    return lambda x, y: (function(x, y) ** 2).sum()


NOT_HOLOMORPHIC = (
    lambda z: z.conj() * z.abs() ** 2 + z.real,
    lambda z: jnp.conj(z) * jnp.abs(z) ** 2 + jnp.real(z),
)


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)
    ).double()
