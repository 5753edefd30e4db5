"""Sixty kinds of classical code: functions of one square matrix `x`, with entries around 1/3.

A large one gets a matrix of 256 rows.  A small one gets four hundred matrices of 4 rows, one after
another, so that the kinds' code is compared and not the cost of a call, which other cases measure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Function = Callable[[Any], Any]


def _gradient(function: Function) -> Function:
    """Return the gradient of the sum of the squares of a function's result."""
    return jax.grad(lambda x: jnp.sum(function(x) ** 2))


def _network(x: Any) -> Any:
    for _ in range(8):
        x = jnp.tanh(x @ x.T / x.shape[0])
    return x


def _layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def _attention(x: Any) -> Any:
    return jax.nn.softmax(x @ x.T / x.shape[0] ** 0.5) @ x


def _products(x: Any) -> Any:
    for _ in range(4):
        x = x @ x / x.shape[0]
    return x


def _convolution(x: Any) -> Any:
    kernel = jnp.ones((4, 1, 3, 3), x.dtype) / 9
    return jax.lax.conv(x[None, None], kernel, (1, 1), "SAME")


def _pool(x: Any) -> Any:
    start = jnp.asarray(-jnp.inf, x.dtype)
    return jax.lax.reduce_window(x, start, jax.lax.max, (2, 2), (2, 2), "VALID")


def _scan(x: Any) -> Any:
    return jax.lax.scan(lambda c, row: (jnp.tanh(c + row), c.sum()), x[0], x)


def _scan_of_products(x: Any) -> Any:
    step = lambda c, _: (jnp.tanh(x @ c), None)
    return jax.lax.scan(step, x[0], None, length=20)[0]


def _loop(x: Any) -> Any:
    return jax.lax.fori_loop(0, 20, lambda i, x: jnp.sin(x) * 0.9 + 0.1, x)


def _while(x: Any) -> Any:
    return jax.lax.while_loop(lambda x: x.sum() > 1e-3, lambda x: x * 0.5, x)


def _newton(x: Any) -> Any:
    step = lambda i, y: y - (y * y - x) / (2 * y)
    return jax.lax.fori_loop(0, 10, step, jnp.ones_like(x))


def _long_chain(x: Any) -> Any:
    for i in range(20):
        x = jnp.sin(x) + i * x
    return x


def _adam(x: Any) -> Any:
    mean, square = 0.9 * x + 0.1 * x, 0.99 * x**2 + 0.01 * x**2
    return x - 0.1 * (mean / 0.1) / (jnp.sqrt(square / 0.01) + 1e-8), mean, square


def _well_conditioned(x: Any) -> Any:
    return x @ x.T + x.shape[0] * jnp.eye(x.shape[0], dtype=x.dtype)


def _indices(x: Any) -> Any:
    return (jnp.arange(x.shape[0]) * 7) % x.shape[0]


def _key() -> Any:
    return jax.random.key(0)


def _log_softmax_loss(x: Any) -> Any:
    return jax.nn.log_softmax(x)[:, 0]


KINDS: dict[str, Function] = {
    "add": lambda x: x * 2 + 1,
    "polynomial": lambda x: ((x * 3 + 2) * x + 1) * x - x / (1 + x * x),
    "compare and select": lambda x: jnp.where(x > 0.3, x, 1 / x),
    "clip and round": lambda x: jnp.round(jnp.clip(x * 100, 3, 70)),
    "integers": lambda x: (x * 100).astype(jnp.int32) // 7 % 5,
    "complex product": lambda x: (x + 1j * x) * (x - 2j * x),
    "transpose": lambda x: x.T * 2 + x,
    "concatenate": lambda x: jnp.concatenate([x, x * 2], 1),
    "reverse and reshape": lambda x: x[::-1].reshape(-1) * 2,
    "one-hot": lambda x: jax.nn.one_hot((x * 10).astype(jnp.int32)[0], 16),
    "tanh": jnp.tanh,
    "exp": jnp.exp,
    "log and log1p": lambda x: jnp.log(x) + jnp.log1p(x),
    "sin and cos": lambda x: jnp.sin(x) * jnp.cos(x),
    "power": lambda x: x**1.7,
    "erf": jax.scipy.special.erf,
    "sigmoid and gelu": lambda x: jax.nn.sigmoid(x) * jax.nn.gelu(x),
    "arctan2 and hypot": lambda x: jnp.arctan2(x, x.T) + jnp.hypot(x, x.T),
    "long chain": _long_chain,
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: (x * x).sum(1),
    "sum of columns": lambda x: (x * x).sum(0),
    "maximum and argmax": lambda x: (x.max(0), jnp.argmax(x, 1)),
    "mean and variance": lambda x: (x.mean(), x.var(0)),
    "softmax": jax.nn.softmax,
    "log-softmax": jax.nn.log_softmax,
    "logsumexp": lambda x: jax.nn.logsumexp(x, 0),
    "layer norm": _layer_norm,
    "2-norm": lambda x: jnp.linalg.norm(x, axis=1),
    "matrix product": lambda x: x @ x,
    "product and bias": lambda x: jax.nn.relu(x @ x + x[0]),
    "product with a vector": lambda x: x @ x[0],
    "chain of products": _products,
    "einsum": lambda x: jnp.einsum("ij,kj->ki", x, x),
    "network": _network,
    "attention": _attention,
    "convolution": _convolution,
    "max pooling": _pool,
    "gradient of tanh": _gradient(jnp.tanh),
    "gradient of log-softmax": _gradient(_log_softmax_loss),
    "gradient of layer norm": _gradient(_layer_norm),
    "gradient of a network": _gradient(_network),
    "gradient of attention": _gradient(_attention),
    "gradient of a convolution": _gradient(_convolution),
    "gradient of a scan": _gradient(lambda x: _scan(x)[0]),
    "scan": _scan,
    "scan of products": _scan_of_products,
    "loop": _loop,
    "while": _while,
    "Newton's iteration": _newton,
    "Adam's step": _adam,
    "cumulative sum": lambda x: jnp.cumsum(x, 0),
    "sort": lambda x: jnp.sort(jnp.sin(x * 1e3), 1),
    "gather": lambda x: x[_indices(x)] + 1,
    "scatter": lambda x: x.at[_indices(x)].add(1.0),
    "Fourier transform": lambda x: jnp.fft.fft2(x).real,
    "Cholesky and solve": lambda x: jnp.linalg.solve(_well_conditioned(x), x[0]),
    "eigenvalues": lambda x: jnp.linalg.eigvalsh(x + x.T),
    "normal numbers": lambda x: x + jax.random.normal(_key(), x.shape, x.dtype),
    "uniform and permutation": lambda x: jax.random.permutation(_key(), x, independent=False),
}

#: Rows of the matrix.
SIZES = {"small": 4, "large": 256}
#: Kinds that take more than a tenth of a second for 256 rows.
SLOW = {"eigenvalues": 64, "gradient of a network": 128, "network": 128}
SMALL_MATRICES = 400


def build(kind: str, size: str, dtype: str) -> tuple[Function, Any]:
    """Return a new function of a kind, and its argument."""
    function = KINDS[kind]
    if size == "small":
        entries = jnp.linspace(0.25, 0.45, SMALL_MATRICES * SIZES[size] ** 2)
        shape = (SMALL_MATRICES, SIZES[size], SIZES[size])
        return lambda xs: jax.lax.map(function, xs), entries.reshape(shape).astype(dtype)
    rows = SLOW.get(kind, SIZES[size])
    entries = jnp.linspace(0.25, 0.45, rows * rows).reshape(rows, rows)
    return lambda x: function(x), entries.astype(dtype)
