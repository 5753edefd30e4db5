"""Accelerated regions on a GPU against the same work written by hand in JAX.

    python -m benchmarks.gpu_regions            # on the first GPU that JAX sees
    python -m benchmarks.gpu_regions --small    # sizes that any machine can do

Without a GPU a second CPU device stands in, which shows the cost of handing over and none
of the bus.  Each line times a program of ours and its reference in turn, round after round,
and gives the best rounds and their ratio: what else the machine does only adds to a round.
References compile ahead and hold their inputs ready.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

if "jax" not in sys.modules:
    # Before JAX starts: a second CPU device, in case there is no GPU.
    os.environ["XLA_FLAGS"] = (
        os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    )

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import bellhop  # noqa: E402  (before JAX starts its CPU client)

Run = Callable[[], Any]
LINKS = 10


@dataclass(frozen=True)
class Sizes:
    """How large the work is: bytes moved, side of a matrix, qubits of a circuit."""

    megabytes: int
    matrix: int
    qubits: int
    rounds: int


FULL = Sizes(megabytes=256, matrix=4096, qubits=22, rounds=15)
SMALL = Sizes(megabytes=4, matrix=256, qubits=12, rounds=7)


def best_rounds(runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
    """Return the seconds that a run of each program takes in its best round."""
    calls = {}
    for name, run in runs.items():
        run()
        begin = time.perf_counter()
        run()
        # About 20 ms a round, so that the clock does not count.
        calls[name] = max(1, int(0.02 / (time.perf_counter() - begin)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            begin = time.perf_counter()
            for _ in range(calls[name]):
                run()
            times[name].append((time.perf_counter() - begin) / calls[name])
    return {name: min(values) for name, values in times.items()}


def make_region_run(function: Callable[..., Any], device: jax.Device, *arguments: Any) -> Run:
    """Return a run of a program that is one region on a device."""
    region = bellhop.accelerate(function, dev=device)
    program = bellhop.qjit(lambda *args: region(*args))
    arrays = [jax.device_put(x, jax.devices("cpu")[0]) for x in arguments]
    return lambda: jax.block_until_ready(program(*arrays))


def make_manual_run(function: Callable[..., Any], device: jax.Device, *arguments: Any) -> Run:
    """Return a run that moves, computes and fetches, as one writes it without accelerate."""
    sharding = jax.sharding.SingleDeviceSharding(device)
    specs = [
        jax.ShapeDtypeStruct(np.shape(x), jnp.asarray(x).dtype, sharding=sharding)
        for x in arguments
    ]
    compiled = jax.jit(lambda *args: function(*args)).lower(*specs).compile()
    arrays = [jax.device_put(x, jax.devices("cpu")[0]) for x in arguments]
    return lambda: np.asarray(compiled(*(jax.device_put(x, device) for x in arrays)))


def scalar(device: jax.Device, sizes: Sizes) -> dict[str, Run]:
    """Latency of handing one number over and back."""
    del sizes
    return {
        "region": make_region_run(jnp.sin, device, 1.0),
        "by hand": make_manual_run(jnp.sin, device, 1.0),
    }


def same_device(device: jax.Device, sizes: Sizes) -> dict[str, Run]:
    """A region on the program's own device against one ``jax.jit`` of the whole."""
    del device, sizes
    host = jax.devices("cpu")[0]

    def whole(x: Any) -> Any:
        return jnp.cos(jnp.sin(x) @ x) + 1

    x = jax.device_put(np.linspace(0.0, 1.0, 64 * 64).reshape(64, 64), host)
    region = bellhop.accelerate(lambda x: jnp.sin(x) @ x, dev=host)
    program = bellhop.qjit(lambda x: jnp.cos(region(x)) + 1)
    reference = jax.jit(whole)
    return {
        "region": lambda: program(x).block_until_ready(),
        "by hand": lambda: reference(x).block_until_ready(),
    }


def transfer_in(device: jax.Device, sizes: Sizes) -> dict[str, Run]:
    """A large array to the device, one number back."""
    x = np.ones(sizes.megabytes << 17)
    return {
        "region": make_region_run(jnp.sum, device, x),
        "by hand": make_manual_run(jnp.sum, device, x),
    }


def transfer_out(device: jax.Device, sizes: Sizes) -> dict[str, Run]:
    """One number to the device, a large array back."""

    def fill(x: Any) -> Any:
        return jnp.full(sizes.megabytes << 17, x)

    return {
        "region": make_region_run(fill, device, 1.0),
        "by hand": make_manual_run(fill, device, 1.0),
    }


def matmul(device: jax.Device, sizes: Sizes) -> dict[str, Run]:
    """A matrix product, its factors moved at each call."""
    x = np.ones((sizes.matrix, sizes.matrix), np.float32)
    return {
        "region": make_region_run(jnp.matmul, device, x, x),
        "by hand": make_manual_run(jnp.matmul, device, x, x),
    }


@contextmanager
def disable_fusion() -> Any:
    """Compile programs as they are without the pass fuse-accelerate."""
    from bellhop.compiler import optimize

    passes = optimize.OPTIMIZATION
    optimize.OPTIMIZATION = tuple(each for each in passes if each.name != "fuse-accelerate")
    try:
        yield
    finally:
        optimize.OPTIMIZATION = passes


def _chain(device: jax.Device, links: int) -> Run:
    region = bellhop.accelerate(lambda x: jnp.tanh(x) * 2, dev=device)

    def chain(x: Any) -> Any:
        for _ in range(links):
            x = region(x) + 0.5
        return x

    program = bellhop.qjit(chain)
    x = jax.device_put(np.ones(8), jax.devices("cpu")[0])
    run = lambda: program(x).block_until_ready()  # noqa: E731
    run()
    return run


def fused_chain(device: jax.Device, sizes: Sizes) -> dict[str, Run]:
    """A chain of regions with arithmetic between, against a single one."""
    del sizes
    return {"region": _chain(device, LINKS), "by hand": _chain(device, 1)}


def separate_chain(device: jax.Device, sizes: Sizes) -> dict[str, Run]:
    """The same chain without the pass that fuses it."""
    del sizes
    with disable_fusion():
        separate = _chain(device, LINKS)
    return {"region": separate, "by hand": _chain(device, 1)}


def overlap(device: jax.Device, sizes: Sizes) -> dict[str, Run]:
    """A circuit and a region of about its length, against the circuit alone."""
    import pennylane as qml

    @qml.qnode(qml.device("lightning.qubit", wires=sizes.qubits))
    def circuit(x: Any) -> Any:
        for wire in range(sizes.qubits):
            qml.RX(x, wire)
        for wire in range(sizes.qubits - 1):
            qml.CNOT([wire, wire + 1])
        return qml.expval(qml.Z(0))

    side = sizes.matrix

    def work(x: Any, n_iterations: int) -> Any:
        matrix = jnp.full((side, side), x, jnp.float32) / side
        return jax.lax.fori_loop(0, n_iterations, lambda i, m: m @ matrix, matrix)[0, 0]

    alone = bellhop.qjit(lambda x: circuit(x))
    x = jax.device_put(np.array(0.3), jax.devices("cpu")[0])
    run_alone = lambda: alone(x).block_until_ready()  # noqa: E731
    once = best_rounds(
        {
            "circuit": run_alone,
            "work": make_region_run(lambda x: work(x, 10), device, 0.3),
        },
        3,
    )
    n_iterations = max(1, int(10 * once["circuit"] / once["work"]))
    region = bellhop.accelerate(lambda x: work(x, n_iterations), dev=device)
    both = bellhop.qjit(lambda x: circuit(x) + region(x))
    return {"region": lambda: both(x).block_until_ready(), "by hand": run_alone}


CASES: dict[str, tuple[str, Callable[[jax.Device, Sizes], dict[str, Run]]]] = {
    "scalar": ("one number there and back", scalar),
    "same": ("on the program's own device, against one jax.jit", same_device),
    "in": ("a large array in", transfer_in),
    "out": ("a large array out", transfer_out),
    "matmul": ("matrix product", matmul),
    "fused": (f"chain of {LINKS} fused, against one region", fused_chain),
    "separate": (f"chain of {LINKS} not fused, against one region", separate_chain),
    "overlap": ("circuit and region, against the circuit alone", overlap),
}


def pick_device() -> jax.Device:
    """Return the first GPU, or a second CPU device where there is none."""
    try:
        return jax.devices("gpu")[0]
    except RuntimeError:
        return jax.devices("cpu")[1]


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description="Accelerated regions against JAX by hand.")
    parser.add_argument("--small", action="store_true", help="sizes that any machine can do")
    parser.add_argument("--cases", default=",".join(CASES), help="names, by commas")
    options = parser.parse_args()
    device, sizes = pick_device(), SMALL if options.small else FULL
    print(f"{device.device_kind} ({device.platform}:{device.id}), jax {jax.__version__}, {sizes}")
    for name in options.cases.split(","):
        title, build = CASES[name]
        found = best_rounds(build(device, sizes), sizes.rounds)
        ours, reference = found["region"], found["by hand"]
        print(
            f"{name:9} {ours * 1e6:12.1f} us {reference * 1e6:12.1f} us "
            f"{ours / reference:6.2f}x  {title}",
            flush=True,
        )


if __name__ == "__main__":
    main()
