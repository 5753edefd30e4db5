"""Step (e): a circuit of `default.qubit` in a region, under `jax.jit`, and in the engine.

::

    python -m benchmarks.gpu_report.circuits region 20 f32

Each way, size and precision has a process of its own, so that its peak of memory is its own, and
what does not fit or does not end takes nothing with it.  The value comes before the gradient.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

import bellhop
from bellhop._jax.patches.removed_jax_names import restore_removed_names
from benchmarks.gpu_report.region_device import find_region_device
from benchmarks.gpu_report.step_records import record, try_case

LAYERS = 2
#: Seconds for which a program is called again, and the most calls.
_SECONDS, _CALLS = 1.0, 20


def make_circuit(n_qubits: int) -> Callable[[Any], Any]:
    """Return a QNode: layers of RY and RZ on each wire, and a ring of CNOT."""

    @qml.qnode(qml.device("default.qubit", wires=n_qubits), diff_method="best")
    def circuit(angles: Any) -> Any:
        for layer in range(LAYERS):
            for wire in range(n_qubits):
                qml.RY(angles[layer, wire, 0], wire)
                qml.RZ(angles[layer, wire, 1], wire)
            for wire in range(n_qubits):
                qml.CNOT([wire, (wire + 1) % n_qubits])
        return qml.expval(qml.Z(0) @ qml.Z(1))

    return circuit


def list_programs(way: str, n_qubits: int) -> dict[str, Callable[[Any], Any]]:
    """Return the programs of the value and of the gradient.

    Args:
        way: "region" and "engine" are Bellhop's; "jit" is PennyLane's own path under `jax.jit`.
        n_qubits: of the circuit.
    """
    circuit = make_circuit(n_qubits)
    gradient = jax.grad(circuit)
    if way == "jit":
        # PennyLane 0.45 uses names that JAX 0.11 has removed.
        restore_removed_names()
        return {"value": jax.jit(circuit), "gradient": jax.jit(gradient)}
    if way == "region":
        region = bellhop.accelerate(circuit, dev=find_region_device())
        gradient = jax.grad(region)
        return {
            "value": bellhop.qjit(lambda x: region(x)),
            "gradient": bellhop.qjit(lambda x: gradient(x)),
        }
    return {"value": bellhop.qjit(circuit), "gradient": bellhop.qjit(lambda x: gradient(x))}


def measure(program: Callable[[Any], Any], angles: Any, name: str) -> dict[str, Any]:
    """Time the first call of a program and later ones."""
    begin = time.perf_counter()
    result = jax.block_until_ready(program(angles))
    first = time.perf_counter() - begin
    # Recorded at once: what comes next may be stopped.
    record(f"{name}, first call", True, **{"first seconds": round(first, 3)})
    times: list[float] = []
    while len(times) < 2 or (sum(times) < _SECONDS and len(times) < _CALLS):
        begin = time.perf_counter()
        result = jax.block_until_ready(program(angles))
        times.append(time.perf_counter() - begin)
    return {
        "seconds": min(times),
        "calls": len(times),
        "dtype": str(result.dtype),
        "result": float(jnp.sum(jnp.abs(result))),
        **_memory(),
    }


def _memory() -> dict[str, Any]:
    """Return the peaks of memory so far: of the GPU, where it says so, and of the process."""
    peak = {"host MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}
    device = jax.devices()[0]
    statistics = None if device.platform == "cpu" else device.memory_stats()
    if statistics:
        peak["GPU MiB"] = statistics.get("peak_bytes_in_use", 0) >> 20
    return peak


def main(way: str, n_qubits: int, precision: str) -> None:
    """Record the value and then the gradient."""
    dtype = {"f32": np.float32, "f64": np.float64}[precision]
    angles = np.random.default_rng(n_qubits).uniform(0, 3, (LAYERS, n_qubits, 2)).astype(dtype)
    name = f"{way}, {n_qubits} qubits, {precision}"
    for what, program in list_programs(way, n_qubits).items():
        try_case(f"{name}, {what}", measure, program, angles, f"{name}, {what}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
