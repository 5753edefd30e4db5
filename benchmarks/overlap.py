"""What does not depend on one another, at once: on the stand-in for a GPU, which has no speed.

    python -m tests.standin --platforms cuda,cpu python -m benchmarks.overlap

Parts of programs wait for so many milliseconds, on the devices, on the host and while a copy
crosses.  Each line gives the time of a program of such parts, that of the longest part alone, and
their ratio: 1 where all else is done meanwhile.  What the host does itself (its own code, circuits,
callbacks) it does one after another, so each program has one such part.  The last lines compare
calls with ``jax.jit``'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from jax_plugins import standin

import bellhop

PART = 300  # milliseconds
ROUNDS = 5
SHAPE = (4,)
WIRES = 20


def make_busy_region(device: jax.Device) -> Callable[[Any], Any]:
    """Return a region that keeps a device busy."""
    return bellhop.accelerate(lambda x: standin.busy(x, PART), dev=device)


def sleep(x: Any) -> Any:
    """Keep the host busy, in Python."""
    time.sleep(PART / 1000)
    return np.asarray(x)


@qml.qnode(qml.device("lightning.qubit", wires=WIRES))
def circuit(x: Any) -> Any:
    """Keep the host busy, in a quantum device."""
    for wire in range(WIRES):
        qml.RX(x[0] + wire, wire)
        qml.CNOT([wire, (wire + 1) % WIRES])
    return qml.expval(qml.Z(0))


def programs() -> dict[str, tuple[Callable[[Any], Any], dict[str, float]]]:
    """Return programs whose parts could all be done at once, and the delays of copies."""
    first, second = map(make_busy_region, jax.devices("gpu")[:2])
    callback = bellhop.pure_callback(sleep, jax.ShapeDtypeStruct(SHAPE, float))
    light = bellhop.accelerate(lambda x: 2 * x, dev=jax.devices("gpu")[1])
    none: dict[str, float] = {}
    return {
        "two regions on two devices": (lambda x: first(x) + second(2 * x), none),
        "a region, a callback": (lambda x: first(x) + callback(2 * x), none),
        "a region, code of the host": (lambda x: first(x) + standin.busy(2 * x, PART), none),
        "a region, a circuit": (lambda x: first(x) + circuit(2 * x), none),
        "two regions on two devices, a callback": (
            lambda x: first(x) + second(3 * x) + callback(2 * x),
            none,
        ),
        "a region, results of another on their way": (
            lambda x: first(x) + light(x),
            {"to_host": PART},
        ),
        "a region, arguments of another on their way": (
            lambda x: first(x) + light(2 * x),
            {"to_device": PART},
        ),
    }


def best(run: Callable[[], Any], repeats: int = 1) -> float:
    """Return the seconds that a call takes in the best round."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(repeats):
            run()
        times.append((time.perf_counter() - begin) / repeats)
    return min(times)


def main() -> None:
    """Print a line for each program."""
    x = np.arange(4.0)
    print(f"{'':44}{'ms':>8}{'longest':>9}{'ratio':>7}")
    for name, (function, delays) in programs().items():
        compiled = bellhop.qjit(function)
        jax.block_until_ready(compiled(x))
        standin.delay(**delays)
        milliseconds = 1000 * best(lambda f=compiled: jax.block_until_ready(f(x)))
        standin.delay(to_device=0, to_host=0)
        # What is moved is moved before the longest part, or once it is over.
        longest = PART + sum(delays.values())
        print(f"{name:44}{milliseconds:8.1f}{longest:9.0f}{milliseconds / longest:7.2f}")
    print(f"{'':44}{'us':>8}{'jax.jit':>9}{'ratio':>7}")
    host, gpu = jax.devices("cpu")[0], jax.devices("gpu")[0]
    small = lambda x: jnp.sin(x) + 1
    by_hand = jax.jit(small)

    def on_host() -> Any:
        with jax.default_device(host):
            return jax.block_until_ready(by_hand(x))

    calls = {
        "a call with an array of NumPy's": (bellhop.qjit(small), on_host),
        "a call of a small region": (
            bellhop.qjit(bellhop.accelerate(small, dev=gpu)),
            lambda: np.asarray(by_hand(jax.device_put(x, gpu))),
        ),
    }
    for name, (ours, reference) in calls.items():
        jax.block_until_ready(ours(x)), reference()
        mine = 1e6 * best(lambda f=ours: jax.block_until_ready(f(x)), 300)
        theirs = 1e6 * best(reference, 300)
        print(f"{name:44}{mine:8.1f}{theirs:9.1f}{mine / theirs:7.2f}")


if __name__ == "__main__":
    main()
