"""Code as users write it; mypy --strict and pyright must accept it and infer these types."""

from typing import assert_type

import jax
import jax.numpy as jnp
import numpy as np

import bellhop
from bellhop import PureCallback


@bellhop.qjit
def scaled(x: jax.Array, factor: float = 2.0) -> jax.Array:
    return factor * x


assert_type(scaled(jnp.ones(3)), jax.Array)
assert_type(scaled(jnp.ones(3), factor=3.0), jax.Array)
assert_type(scaled.mlir, str)


@bellhop.qjit(keep_intermediate=True)
def with_options(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x, x


assert_type(with_options(jnp.ones(3)), tuple[jax.Array, jax.Array])
assert_type(bellhop.debug.get_compilation_stage(with_options, "order-effects"), str)


@bellhop.pure_callback
def halved(x: np.ndarray) -> float:
    return float(x) / 2


@halved.fwd
def halved_fwd(x: jax.Array) -> tuple[jax.Array, None]:
    return halved(x), None


@halved.bwd
def halved_bwd(residuals: None, cotangent: jax.Array) -> jax.Array:
    return cotangent / 2


thirded: PureCallback[[jax.Array], jax.Array] = bellhop.pure_callback(lambda x: x / 3, float)


@bellhop.accelerate
def layer(weights: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.tanh(weights @ x)


@bellhop.pure_callback(vmap_method="expand_dims")
def doubled(x: np.ndarray) -> float:
    return 2 * float(x)


assert_type(layer(jnp.ones((2, 2)), jnp.ones(2)), jax.Array)


@bellhop.accelerate(dev="cpu")
def on_the_cpu(x: jax.Array) -> jax.Array:
    return x


assert_type(on_the_cpu(jnp.ones(2)), jax.Array)


@bellhop.io_callback
def record(x: np.ndarray) -> float:
    return float(x)


@bellhop.callback
def log(x: np.ndarray) -> None:
    print(x)


@bellhop.qjit
def program(x: jax.Array) -> jax.Array:
    bellhop.debug.print("x = {}", x)
    log(x)
    total = bellhop.for_loop(0, 10, 1)(lambda i, y: y + i)(x)
    gradient: jax.Array = bellhop.grad(lambda x: halved(x))(total)
    return gradient


assert_type(program(jnp.float64(1.0)), jax.Array)


def loss(x: jax.Array) -> jax.Array:
    return x**2


value, gradient = bellhop.value_and_grad(loss)(jnp.float64(1.0))
assert_type(value, jax.Array)


def two(x: jax.Array, scale: float = 2.0) -> tuple[jax.Array, float]:
    return scale * x, scale


@bellhop.for_loop(0, 3, 1)
def summed(i: jax.Array, x: jax.Array) -> jax.Array:
    return x + i


@bellhop.while_loop(lambda x: x < 10.0)
def grown(x: jax.Array) -> jax.Array:
    return 2 * x


@bellhop.cond(True)
def branch(x: jax.Array) -> jax.Array:
    return x


@branch.otherwise
def _(x: jax.Array) -> jax.Array:
    return -x


def typed(x: jax.Array) -> None:
    slope: jax.Array = bellhop.grad(loss)(x)
    cubed: jax.Array = bellhop.grad(lambda y: y**3)(2.0)
    print(slope, cubed)
    assert_type(bellhop.vmap(two)(x, scale=3.0), tuple[jax.Array, float])
    assert_type(thirded(x), jax.Array)
    assert_type(summed(x), jax.Array)
    assert_type(grown(x), jax.Array)
    assert_type(branch(x), jax.Array)
    assert_type(bellhop.cond(x > 0, lambda: x, lambda: -x)(), jax.Array)


bellhop.jacobian(loss)(jnp.ones(2))
print(bellhop.draw(loss)(jnp.float64(1.0)).mermaid, value, gradient)
