"""Step (d): what a region costs, against the same work by hand in JAX.

::

    python -m benchmarks.gpu_report.region_costs crossing

Times are the best of several rounds, in which the compared programs take turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

import bellhop
from benchmarks.gpu_regions import (
    LINKS,
    SMALL,
    Run,
    best_rounds,
    fused_chain,
    make_manual_run,
    make_region_run,
    separate_chain,
)
from benchmarks.gpu_report.region_device import find_region_device
from benchmarks.gpu_report.step_records import try_case

ROUNDS = 9
#: Bytes of the arrays that cross.
SIZES = {"4 KB": 4 << 10, "1 MB": 1 << 20, "16 MB": 16 << 20, "256 MB": 256 << 20}
#: Seconds of each part of the programs that overlap.
PART = 0.05
#: Sides of the matrices that the work multiplies; the first one that takes long enough counts.
_SIDES = (256, 2048)
_DEVICE = find_region_device()
_HOST = jax.devices("cpu")[0]


def measure_crossing() -> None:
    """Measure a scalar there and back, and ten regions in a row."""
    try_case("one number there and back", _cross)
    try_case(f"{LINKS} regions in a row, against one", _against_one, fused_chain)
    name = f"{LINKS} regions that are not fused, against one"
    try_case(name, _against_one, separate_chain)


def _cross() -> dict[str, float]:
    region, reference = (make(jnp.sin, _DEVICE, 1.0) for make in (make_region_run, make_manual_run))
    return _microseconds({"region": region, "by hand": reference})


def _against_one(chain: Callable[..., dict[str, Run]]) -> dict[str, float]:
    runs = chain(_DEVICE, SMALL)
    return _microseconds({"chain": runs["region"], "one region": runs["by hand"]})


def measure_transfers() -> None:
    """Measure arrays of several sizes to the device and back."""
    for size, n_bytes in SIZES.items():
        x = np.random.default_rng(0).normal(size=n_bytes // 8)
        try_case(f"{size} to the device", _move_to_device, x)
        try_case(f"{size} to the host", _move_to_host, x)


def _move_to_device(x: np.ndarray) -> dict[str, float]:
    runs = {
        "region": make_region_run(lambda x: x[0], _DEVICE, x),
        "device_put": lambda: jax.device_put(x, _DEVICE).block_until_ready(),
    }
    return _rates(best_rounds(runs, ROUNDS), x.nbytes)


def _move_to_host(x: np.ndarray) -> dict[str, float]:
    on_device = jax.device_put(x, _DEVICE)
    region = bellhop.accelerate(lambda x, y: x + y, dev=_DEVICE)
    program = bellhop.qjit(lambda x, y: region(x, y))
    add_one = jax.jit(lambda x: x + 1)
    runs = {
        "region": lambda: jax.block_until_ready(program(on_device, 1.0)),
        # JAX keeps the host's copy of an array, so each fetch is of a new one.
        "by hand": lambda: np.asarray(add_one(on_device)),
    }
    return _rates(best_rounds(runs, ROUNDS), x.nbytes)


def measure_callbacks() -> None:
    """Measure a callback from a region against JAX's own."""
    try_case("callback with a number", _call_back, np.ones(()))
    try_case("callback with 1 MB", _call_back, np.ones(1 << 17))


def _call_back(x: np.ndarray) -> dict[str, float]:
    struct = jax.ShapeDtypeStruct(x.shape, x.dtype)
    ours = bellhop.pure_callback(lambda x: x, struct)
    plain = jax.jit(lambda x: jax.pure_callback(lambda x: np.asarray(x), struct, x) + 1)
    on_device = jax.device_put(x, _DEVICE)
    return _microseconds(
        {
            "callback from a region": make_region_run(lambda x: ours(x) + 1, _DEVICE, x),
            "the region without it": make_region_run(lambda x: x + 1, _DEVICE, x),
            "jax.pure_callback": lambda: np.asarray(plain(on_device)),
        }
    )


def measure_overlap() -> None:
    """Measure programs whose parts could run at once, against their longest part."""
    second_host = jax.devices("cpu")[1]
    works = {device: _calibrate(device) for device in {_DEVICE, _HOST, second_host}}
    first = bellhop.accelerate(works[_DEVICE], dev=_DEVICE)
    second = bellhop.accelerate(works[second_host], dev=second_host)
    own_code = works[_HOST]
    sleep = bellhop.pure_callback(_sleep, jax.ShapeDtypeStruct((), np.float64))
    programs: dict[str, tuple[tuple[Callable[[Any], Any], ...], Callable[[Any], Any]]] = {
        "two regions, on the GPU and on a second CPU device": (
            (first, second),
            lambda x: first(x) + second(2 * x),
        ),
        "a region and a callback": ((first, sleep), lambda x: first(x) + sleep(2 * x)),
        "a region and code of the host": ((first, own_code), lambda x: first(x) + own_code(2 * x)),
        "a region and a circuit": ((first, _circuit), lambda x: first(x) + _circuit(2 * x)),
        "two regions on the GPU": ((first, first), lambda x: first(x) + first(2 * x)),
    }
    for name, (parts, whole) in programs.items():
        try_case(name, _overlap, parts, whole)


def _overlap(parts: Any, whole: Any) -> dict[str, float]:
    runs = {f"part {n}": _timed(part) for n, part in enumerate(parts)}
    times = best_rounds({**runs, "together": _timed(whole)}, 3)
    alone = [times[name] for name in runs]
    milliseconds = {f"{name} ms": 1e3 * value for name, value in times.items()}
    return {
        **milliseconds,
        "together over longest": times["together"] / max(alone),
        "together over sum": times["together"] / sum(alone),
    }


def _timed(function: Callable[[Any], Any]) -> Run:
    program = bellhop.qjit(lambda x: function(x))
    x = jax.device_put(np.float64(0.3), _HOST)
    return lambda: jax.block_until_ready(program(x))


def _work(x: Any, n_iterations: int, side: int) -> Any:
    matrix = jnp.full((side, side), x, jnp.float32) / side
    product = jax.lax.fori_loop(0, n_iterations, lambda _, m: jnp.tanh(m @ matrix), matrix)
    return product[0, 0].astype(jnp.float64)


def _calibrate(device: jax.Device) -> Callable[[Any], Any]:
    """Return work that takes about `PART` on a device."""
    for side in _SIDES:
        probe = make_region_run(lambda x: _work(x, 10, side), device, 0.3)  # noqa: B023
        seconds = best_rounds({"probe": probe}, 3)["probe"]
        # Ten small products on a GPU are the launches of its kernels, and little work.
        if seconds > PART / 10:
            break
    n_iterations = max(1, int(10 * PART / seconds))
    return lambda x: _work(x, n_iterations, side)


def _sleep(x: Any) -> Any:
    time.sleep(PART)
    return np.asarray(x)


@qml.qnode(qml.device("lightning.qubit", wires=20))
def _circuit(x: Any) -> Any:
    for wire in range(20):
        qml.RX(x + wire, wire)
        qml.CNOT([wire, (wire + 1) % 20])
    return qml.expval(qml.Z(0))


def _microseconds(runs: dict[str, Run]) -> dict[str, float]:
    return {
        f"{name} us": round(1e6 * value, 2) for name, value in best_rounds(runs, ROUNDS).items()
    }


def _rates(times: dict[str, float], n_bytes: int) -> dict[str, float]:
    """Return microseconds, and gigabytes in a second, for each time."""
    return {
        **{f"{name} us": round(1e6 * value, 2) for name, value in times.items()},
        **{f"{name} GB/s": round(n_bytes / value / 1e9, 3) for name, value in times.items()},
    }


SUBJECTS = {
    "crossing": measure_crossing,
    "transfers": measure_transfers,
    "callbacks": measure_callbacks,
    "overlap": measure_overlap,
}

if __name__ == "__main__":
    SUBJECTS[sys.argv[1]]()
