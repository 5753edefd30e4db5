"""Step (b): a first call of each kind of program, each in a process of its own.

::

    python -m benchmarks.gpu_report.first_calls "vmap of gradient"

A case returns values and the values that they should have.  The second call of the same program
follows where that says more: state that a first call leaves behind is then found too.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

import bellhop
from benchmarks.gpu_report.region_device import find_region_device
from benchmarks.gpu_report.step_records import try_case

Case = Callable[[], tuple[Any, Any]]
CASES: dict[str, Case] = {}
X = np.linspace(0.1, 0.8, 8)
SCALAR = jax.ShapeDtypeStruct((), np.float64)


def case(name: str) -> Callable[[Case], Case]:
    """Register a case under its name."""

    def register(function: Case) -> Case:
        CASES[name] = function
        return function

    return register


def on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a region on the GPU."""
    return bellhop.accelerate(function, dev=find_region_device())


def layer(x: Any) -> Any:
    """Compute the region that most cases have."""
    return jnp.sum(jnp.tanh(x) ** 2)


def loss(x: Any) -> Any:
    """Compute with a region between code of the host."""
    return 2 * on_device(layer)(jnp.sin(x)) + 1


VALUE = float(2 * np.sum(np.tanh(np.sin(X)) ** 2) + 1)
_T = np.tanh(np.sin(X))
GRADIENT = 4 * _T * (1 - _T**2) * np.cos(X)


@case("region")
def _() -> tuple[Any, Any]:
    f = bellhop.qjit(loss)
    return [f(X), f(X)], [VALUE, VALUE]


@case("region on the default device")
def _() -> tuple[Any, Any]:
    f = bellhop.qjit(lambda x: bellhop.accelerate(layer)(jnp.sin(x)) * 2 + 1)
    return [f(X), f(jax.device_put(X))], [VALUE, VALUE]


@case("gradient")
def _() -> tuple[Any, Any]:
    f = bellhop.qjit(loss)
    return [f(X), jax.grad(f)(X), jax.value_and_grad(f)(X)], [VALUE, GRADIENT, (VALUE, GRADIENT)]


@case("gradient in the program")
def _() -> tuple[Any, Any]:
    return bellhop.qjit(bellhop.value_and_grad(loss))(X), (VALUE, GRADIENT)


@case("jit")
def _() -> tuple[Any, Any]:
    f = jax.jit(bellhop.qjit(loss))
    return [f(X), f(jax.device_put(X))], [VALUE, VALUE]


@case("gradient of jit")
def _() -> tuple[Any, Any]:
    f = bellhop.qjit(loss)
    return [jax.jit(jax.grad(f))(X), jax.grad(jax.jit(f))(X)], [GRADIENT, GRADIENT]


@case("vmap")
def _() -> tuple[Any, Any]:
    rows = np.stack([X, X])
    f = bellhop.qjit(loss)
    return [jax.vmap(f)(rows), bellhop.qjit(jax.vmap(loss))(rows)], [[VALUE] * 2] * 2


@case("vmap of gradient")
def _() -> tuple[Any, Any]:
    rows = np.stack([X, X])
    f = bellhop.qjit(loss)
    return [jax.vmap(jax.grad(f))(rows), jax.jit(jax.vmap(jax.grad(f)))(rows)], [[GRADIENT] * 2] * 2


@case("region in a scan")
def _() -> tuple[Any, Any]:
    def f(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (on_device(jnp.sin)(c) + 0.1, c), x, None, length=5)

    expected, stacked = X, []
    for _ in range(5):
        stacked.append(expected)
        expected = np.sin(expected) + 0.1
    return bellhop.qjit(f)(X), (expected, np.stack(stacked))


@case("regions in a conditional")
def _() -> tuple[Any, Any]:
    f = bellhop.qjit(lambda x: jax.lax.cond(x[0] > 0, on_device(jnp.sin), on_device(jnp.cos), x))
    return [f(X), f(-X)], [np.sin(X), np.cos(X)]


def _printed(run: Callable[[], Any]) -> list[str]:
    """Return the lines that a run prints, from callbacks too."""
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen):
        jax.block_until_ready(run())
        bellhop.barrier_wait()
        jax.effects_barrier()
    return screen.getvalue().split()


def _print_in_order(print_: Callable[..., Any]) -> tuple[Any, Any]:
    def region(x: Any) -> Any:
        print_("{}", x, ordered=True)
        print_("{}", x + 1, ordered=True)
        return x + 2

    f = bellhop.qjit(lambda x: on_device(region)(on_device(region)(x) + 0.0))
    lines = _printed(lambda: f(1.0)) + _printed(lambda: f(2.0))
    return [float(line) for line in lines], [1, 2, 3, 4, 2, 3, 4, 5]


@case("prints")
def _() -> tuple[Any, Any]:
    return _print_in_order(bellhop.debug.print)


@case("jax prints")
def _() -> tuple[Any, Any]:
    return _print_in_order(jax.debug.print)


@case("pure callback")
def _() -> tuple[Any, Any]:
    double = bellhop.pure_callback(lambda x: 2 * x, jax.ShapeDtypeStruct(X.shape, X.dtype))
    f = bellhop.qjit(on_device(lambda x: jnp.sum(double(jnp.sin(x)))))
    return [f(X), f(X)], [2 * np.sum(np.sin(X))] * 2


@case("ordered io callback")
def _() -> tuple[Any, Any]:
    seen: list[float] = []

    def note(x: Any) -> Any:
        seen.append(float(x))
        return x

    tell = bellhop.io_callback(note, SCALAR, ordered=True)

    def region(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, c: tell(c) + 1, x)

    value = bellhop.qjit(on_device(region))(1.0)
    return [value, seen], [4, [1, 2, 3]]


@case("jax callbacks")
def _() -> tuple[Any, Any]:
    seen: list[float] = []

    def region(x: Any) -> Any:
        jax.debug.callback(lambda x: seen.append(float(x)), x)
        return jax.pure_callback(lambda x: np.asarray(x) * 2, SCALAR, x)

    f = bellhop.qjit(on_device(region))
    values = [f(1.5), jax.jit(region)(2.5)]
    jax.effects_barrier()
    return [values, sorted(seen)], [[3, 5], [1.5, 2.5]]


@case("exception")
def _() -> tuple[Any, Any]:
    failing = [True]

    def check(x: Any) -> Any:
        if failing[0]:
            raise LookupError("not today")
        return x

    call = bellhop.pure_callback(check, SCALAR)
    f = bellhop.qjit(on_device(lambda x: call(x) + 1))
    try:
        f(1.0)
    except LookupError as error:
        caught = error.args
    failing[0] = False
    assert caught == ("not today",), caught
    return f(1.0), 2


@qml.qnode(qml.device("lightning.qubit", wires=3))
def _on_lightning(x: Any) -> Any:
    return _circuit(x)


@qml.qnode(qml.device("default.qubit", wires=3))
def _on_default_qubit(x: Any) -> Any:
    return _circuit(x)


def _circuit(x: Any) -> Any:
    for wire in range(3):
        qml.RX(x[wire], wire)
        qml.CNOT([wire, (wire + 1) % 3])
    return qml.expval(qml.Z(0))


def _on_host(x: Any) -> Any:
    """Return the circuit's value and gradient, from a program without regions."""
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.tree.map(np.asarray, bellhop.qjit(bellhop.value_and_grad(_on_lightning))(x))


@case("circuit beside a region")
def _() -> tuple[Any, Any]:
    f = bellhop.qjit(lambda x: _on_lightning(on_device(jnp.sin)(x)))
    value, gradient = _on_host(np.sin(X))
    return [f(X), jax.grad(f)(X)], [value, gradient * np.cos(X)]


@case("circuit in a region")
def _() -> tuple[Any, Any]:
    f = bellhop.qjit(on_device(_on_default_qubit))
    return [f(X), f(X)], [_on_host(X)[0]] * 2


@case("gradient of a circuit in a region")
def _() -> tuple[Any, Any]:
    return bellhop.qjit(jax.value_and_grad(on_device(_on_default_qubit)))(X), _on_host(X)


@case("circuit in jax.jit")
def _() -> tuple[Any, Any]:
    f = jax.jit(jax.value_and_grad(bellhop.qjit(_on_lightning)))
    return f(X), _on_host(X)


@case("results on the device")
def _() -> tuple[Any, Any]:
    device = find_region_device()
    step = bellhop.qjit(lambda x: on_device(lambda x: x - 0.1 * x)(x), out_shardings=device)
    once = step(X)
    assert once.devices() == {device}, once.devices()
    return step(once), 0.81 * X


@case("qml.qjit")
def _() -> tuple[Any, Any]:
    return qml.qjit(loss, compiler="bellhop")(X), VALUE


def run(name: str) -> dict[str, Any]:
    """Run a case and compare its values."""
    begin = time.perf_counter()
    observed, expected = CASES[name]()
    seconds = time.perf_counter() - begin
    observed, expected = (jax.tree.leaves(values) for values in (observed, expected))
    observed = np.concatenate([np.ravel(value) for value in observed])
    expected = np.concatenate([np.ravel(value) for value in expected])
    np.testing.assert_allclose(observed, expected, rtol=1e-7, atol=1e-9)
    return {"seconds": round(seconds, 2), "default": jax.default_backend()}


if __name__ == "__main__":
    try_case(sys.argv[1], run, sys.argv[1])
