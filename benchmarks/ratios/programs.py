"""Twenty programs without circuits and callbacks, whose first calls are measured.

Each builder returns a function and its arguments, and imports what it needs beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.ratios.kinds import build

Built = tuple[Callable[..., Any], tuple[Any, ...]]


def _of_kind(kind: str) -> Callable[[], Built]:
    def built() -> Built:
        function, x = build(kind, "large", "float64")
        return function, (x,)

    return built


def _adam(leaves: int) -> Built:
    import optax

    optimizer = optax.adam(0.1)
    params = {f"w{i}": jnp.ones((8, 8)) for i in range(leaves)}

    def update(params: Any, state: Any) -> Any:
        gradients = jax.tree.map(lambda value: value * 0.1, params)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state

    return update, (params, optimizer.init(params))


def _additions(x: Any) -> Built:
    def add(x: Any) -> Any:
        for i in range(1000):
            x = x + i
        return x

    return add, (x,)


def _tree() -> Built:
    tree = {f"a{i}": jnp.ones(4) for i in range(1000)}
    return lambda tree: jax.tree.map(lambda leaf: 2 * leaf, tree), (tree,)


def _unused() -> Built:
    return lambda xs: xs[0] + 1, ([jnp.ones(4) for _ in range(300)],)


def _closure() -> Built:
    table = jnp.arange(100_000.0)
    return lambda i: table[i] + table[0], (jnp.asarray(3),)


def _branches() -> Built:
    branches = [lambda x, i=i: jnp.sin(x) * i for i in range(20)]
    return lambda i, x: jax.lax.switch(i, branches, x), (jnp.asarray(3), jnp.ones(4))


def _nested_jits() -> Built:
    def call(x: Any) -> Any:
        for _ in range(20):
            x = jax.jit(lambda x: jnp.where(x > 0, jnp.sin(x), x))(x)
        return x

    return call, (jnp.ones(4),)


def _hessian() -> Built:
    return lambda x: jax.hessian(lambda x: jnp.prod(jnp.sin(x)))(x), (jnp.linspace(0.1, 1, 6),)


def _scalars() -> Built:
    def compute(x: Any, y: Any) -> Any:
        return jnp.sin(x) * y + jnp.exp(-x), jnp.hypot(x, y)

    return compute, (jnp.asarray(0.3), jnp.asarray(0.4))


PROGRAMS: dict[str, Callable[[], Built]] = {
    "nothing": lambda: (lambda: None, ()),
    "identity": lambda: (lambda x: x, (jnp.ones(4),)),
    "x + 1": lambda: (lambda x: x + 1, (jnp.ones(4),)),
    "scalars": _scalars,
    "Adam on 200 arrays": lambda: _adam(200),
    "Adam on 20 arrays": lambda: _adam(20),
    "1000 additions of arrays": lambda: _additions(jnp.ones(4)),
    "1000 additions of numbers": lambda: _additions(jnp.asarray(0.0)),
    "tree of 1000 arrays": _tree,
    "one of 300 arguments": _unused,
    "large constant": _closure,
    "20 branches": _branches,
    "20 nested jits": _nested_jits,
    "Hessian": _hessian,
    "network": _of_kind("network"),
    "gradient of a network": _of_kind("gradient of a network"),
    "gradient of attention": _of_kind("gradient of attention"),
    "scan": _of_kind("scan"),
    "sort": _of_kind("sort"),
    "solve": _of_kind("Cholesky and solve"),
}
