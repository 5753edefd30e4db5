"""Step (f): values and gradients of regions against the CPU in double precision.

Products of single-precision matrices by TF32, which JAX may choose on a GPU, have relative errors
of about 3e-4.  Circuits must not have them; for a user's own product the report says what JAX does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

import bellhop
from benchmarks.gpu_report.region_device import find_region_device, relative_error, run_on_host
from benchmarks.gpu_report.step_records import try_case

TOLERANCES = {np.float64: 1e-11, np.float32: 5e-5}
_RANDOM = np.random.default_rng(7)
_DEVICE = find_region_device()


def _network(w: Any) -> Any:
    x = jnp.linspace(-1, 1, w.shape[0], dtype=w.dtype)
    product = lambda w, x: jnp.matmul(w, x, precision="highest")
    return jnp.sum(jnp.tanh(product(w, jnp.tanh(product(w, x)))) ** 2)


@qml.qnode(qml.device("default.qubit", wires=8))
def _circuit(angles: Any) -> Any:
    for layer in range(3):
        for wire in range(8):
            qml.Rot(*(angles[layer, wire, n] for n in range(3)), wire)
        for wire in range(8):
            qml.CNOT([wire, (wire + 1) % 8])
    return qml.expval(qml.Z(0) @ qml.X(3))


#: The functions, and their argument in double precision.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "tanh, exp, log, sin": (
        lambda x: jnp.sum(jnp.tanh(x) + jnp.exp(-x) + jnp.log(1 + x) + jnp.sin(x)),
        _RANDOM.uniform(0.1, 3, 4096),
    ),
    "sum of a million numbers": (jnp.sum, _RANDOM.uniform(size=1_000_000)),
    "network of two layers": (_network, _RANDOM.normal(size=(256, 256)) / 16),
    "circuit, 8 qubits": (_circuit, _RANDOM.uniform(0, 3, (3, 8, 3))),
}


def compare(function: Callable[[Any], Any], x: np.ndarray, dtype: Any) -> dict[str, Any]:
    """Return the relative errors of a region's value and gradient."""
    region = bellhop.accelerate(function, dev=_DEVICE)
    program = bellhop.qjit(lambda x: jax.value_and_grad(region)(x))
    rounded = x.astype(dtype)
    exact = rounded.astype(np.float64)
    if function is _circuit:
        expected = bellhop.qjit(lambda x: jax.value_and_grad(_circuit)(x))(exact)
    else:
        expected = run_on_host(jax.value_and_grad(function), exact)
    value, gradient = program(rounded)
    errors = [relative_error(value, expected[0]), relative_error(gradient, expected[1])]
    right = all(error < TOLERANCES[dtype] for error in errors)
    return {"ok": right, "value error": errors[0], "gradient error": errors[1]}


def compare_products(precision: str | None) -> dict[str, Any]:
    """Return the error of a single-precision product in a region and under `jax.jit`."""
    x, y = _RANDOM.normal(size=(2, 512, 512)).astype(np.float32)
    product = lambda x, y: jnp.matmul(x, y, precision=precision)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    region = bellhop.qjit(lambda x, y: bellhop.accelerate(product, dev=_DEVICE)(x, y))
    ours = relative_error(region(x, y), exact)
    put = lambda x: jax.device_put(x, _DEVICE)
    plain = relative_error(jax.jit(product)(put(x), put(y)), exact)
    kind = "TF32 or fewer bits" if plain > 1e-4 else "single precision"
    return {"ok": ours <= 2 * plain, "region": ours, "jax.jit": plain, "JAX multiplies in": kind}


def main() -> None:
    """Record all comparisons, the circuits first."""
    for name, (function, x) in reversed(FUNCTIONS.items()):
        for dtype in TOLERANCES:
            try_case(f"{name}, {np.dtype(dtype)}", compare, function, x, dtype)
    for precision in (None, "highest"):
        name = f"product of float32 matrices, precision={precision}"
        try_case(name, compare_products, precision)


if __name__ == "__main__":
    main()
