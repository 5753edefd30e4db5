"""Step (g): what a stand-in for a GPU lacks: cuSOLVER, cuFFT, random numbers, grouped products.

::

    python -m benchmarks.gpu_report.linear_algebra eigh svd

Values and gradients in regions are compared with the CPU's in double precision.  Functions return
what does not depend on the signs and phases that a decomposition is free to choose.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import bellhop
from benchmarks.gpu_report.region_device import find_region_device, relative_error, run_on_host
from benchmarks.gpu_report.step_records import try_case

SIDE = 24
TOLERANCES = {np.float64: 1e-9, np.float32: 2e-3}
_RANDOM = np.random.default_rng(11)
_MATRIX = _RANDOM.normal(size=(SIDE, SIDE)) + SIDE * np.diag(np.linspace(1, 2, SIDE))
_WEIGHTS = np.linspace(-1, 1, SIDE)
_DEVICE = find_region_device()


def _weighted(values: Any) -> Any:
    return jnp.sum(jnp.asarray(_WEIGHTS, values.dtype) * values)


def _eigh(m: Any) -> Any:
    values, vectors = jnp.linalg.eigh(m + m.T)
    return _weighted(values) + _weighted(vectors[0] ** 2)


def _svd(m: Any) -> Any:
    left, values, right = jnp.linalg.svd(m)
    return _weighted(values) + jnp.sum((left[:, 0] * right[0]) ** 2)


def _qr(m: Any) -> Any:
    q, r = jnp.linalg.qr(m)
    return _weighted(jnp.abs(jnp.diag(r))) + _weighted(q[:, 0] ** 2)


DECOMPOSITIONS: dict[str, Callable[[Any], Any]] = {
    "eigh": _eigh,
    "svd": _svd,
    "qr": _qr,
    "solve": lambda m: _weighted(jnp.linalg.solve(m, jnp.asarray(_WEIGHTS, m.dtype))),
    "cholesky": lambda m: _weighted(jnp.diag(jnp.linalg.cholesky(m @ m.T))),
    "inv": lambda m: _weighted(jnp.diag(jnp.linalg.inv(m))),
    "slogdet": lambda m: jnp.linalg.slogdet(m)[1],
}


def _ragged(m: Any) -> Any:
    rows = m.reshape(-1, 8)
    groups = jnp.linspace(-1, 1, 4 * 8 * 3, dtype=m.dtype).reshape(4, 8, 3)
    sizes = jnp.array([10, 0, 30, rows.shape[0] - 40], jnp.int32)
    with jax.default_matmul_precision("highest"):
        return jnp.sum(jax.lax.ragged_dot(rows, groups, sizes) ** 2)


OTHERS: dict[str, Callable[[Any], Any]] = {
    "fft": lambda m: jnp.sum(jnp.abs(jnp.fft.fft(m[0])) ** 2 * jnp.asarray(_WEIGHTS, m.dtype)),
    "rfft2, irfft2": lambda m: _weighted(jnp.fft.irfft2(jnp.fft.rfft2(m) ** 2, m.shape)[0]),
    "ragged_dot": _ragged,
    "sort, cumsum": lambda m: _weighted(jnp.cumsum(jnp.sort(m[0]))),
    "segment_sum": lambda m: jnp.sum(jax.ops.segment_sum(m[0], jnp.arange(SIDE) % 5, 5) ** 2),
    "convolve": lambda m: jnp.sum(jnp.convolve(m[0], m[1], precision="highest") ** 2),
}


def compare(function: Callable[[Any], Any], dtype: Any) -> dict[str, Any]:
    """Return the relative errors of a region's value and gradient."""
    region = bellhop.accelerate(function, dev=_DEVICE)
    x = _MATRIX.astype(dtype)
    both = jax.value_and_grad(region)
    value, gradient = bellhop.qjit(lambda x: both(x))(x)
    expected = run_on_host(jax.value_and_grad(function), x.astype(np.float64))
    errors = [relative_error(value, expected[0]), relative_error(gradient, expected[1])]
    right = all(error < TOLERANCES[dtype] for error in errors)
    return {"ok": right, "value error": errors[0], "gradient error": errors[1]}


def compare_random(draw: Callable[[Any], Any], exact: bool) -> dict[str, Any]:
    """Compare the numbers that a region draws with those of the CPU."""
    data = np.asarray(jax.random.key_data(jax.random.key(5)))
    draw_from = lambda data: draw(jax.random.wrap_key_data(data))
    observed = bellhop.qjit(lambda data: bellhop.accelerate(draw_from, dev=_DEVICE)(data))(data)
    expected = run_on_host(draw_from, data)
    error = relative_error(observed, expected)
    return {"ok": error == 0 if exact else error < 1e-6, "relative difference": error}


RANDOM: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "bits": (lambda key: jax.random.bits(key, (1000,)), True),
    "uniform": (lambda key: jax.random.uniform(key, (1000,)), True),
    "normal": (lambda key: jax.random.normal(key, (1000,)), False),
    "categorical": (lambda key: jax.random.categorical(key, jnp.zeros(7), shape=(1000,)), True),
    "permutation": (lambda key: jax.random.permutation(key, 1000), True),
}


def main(names: list[str]) -> None:
    """Record decompositions by their names, "random" for random numbers, "others" for the rest."""
    functions = {name: DECOMPOSITIONS[name] for name in names if name in DECOMPOSITIONS}
    if "random" in names:
        for name, (draw, exact) in RANDOM.items():
            try_case(f"random {name}", compare_random, draw, exact)
    if "others" in names:
        functions.update(OTHERS)
    for name, function in functions.items():
        for dtype in TOLERANCES:
            try_case(f"{name}, {np.dtype(dtype)}", compare, function, dtype)


if __name__ == "__main__":
    main(sys.argv[1:])
