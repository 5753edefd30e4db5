"""The cost of entering and leaving a compiled program: x + 1, and other forms of calls.

Limit: `jax.jit`, whose C++ dispatch every program on XLA passes through.  For a circuit in a plain
`jax.jit`: the same circuit in `qjit`.  JAX's C++ cannot raise the exception of a circuit, so such
calls pass through JAX's Python code; `jax` is `default.qubit` there.
"""

import math
from collections.abc import Callable
from typing import Any

from benchmarks.case import LIMIT, Case, Program, Target, qjit_builders


# Each is wrapped in a new function for each program: JAX keeps what it compiled by function object.
def _increment(x: Any) -> Any:
    return x + 1


def _total(**tree: Any) -> Any:
    return sum(tree.values())


def _array() -> tuple[tuple[Any, ...], dict[str, Any]]:
    import jax.numpy as jnp

    return (jnp.asarray(0.5),), {}


def _pytree() -> tuple[tuple[Any, ...], dict[str, Any]]:
    import jax.numpy as jnp

    return ({f"x{i}": jnp.asarray(0.5 * i) for i in range(20)},), {}


def _case(
    name: str,
    form: str,
    function: Callable[..., Any],
    arguments: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]],
    expected: float,
) -> Case:
    def program(compile_: Callable[..., Any]) -> Program:
        args, kwargs = arguments()
        compiled = compile_(lambda *args, **kwargs: function(*args, **kwargs))
        return Program(lambda: compiled(*args, **kwargs).block_until_ready())

    def jax() -> Program:
        import jax

        return program(jax.jit)

    return Case(
        name=name,
        title=f"empty call ({form})",
        limit="jax.jit of the same function",
        builders={"jax": jax, **qjit_builders(lambda api: program(api.qjit)), LIMIT: jax},
        expected=lambda: expected,
        targets=(Target(LIMIT, 1 / 1.2),),
    )


def _multiply(x: Any, factor: int) -> Any:
    return x * factor


def _static(compile_: Callable[..., Any]) -> Program:
    (x,), _ = _array()
    call = compile_(lambda x, factor: _multiply(x, factor), static_argnums=1)
    return Program(lambda: call(x, 3).block_until_ready())


def _static_jax() -> Program:
    import jax

    return _static(jax.jit)


def _call(compiled: Callable[..., Any]) -> Program:
    (x,), _ = _array()
    return Program(lambda: compiled(x).block_until_ready())


def _increment_jax() -> Program:
    import jax

    return _call(jax.jit(lambda x: _increment(x)))


def _accelerated() -> Program:
    import bellhop

    return _call(bellhop.accelerate(lambda x: _increment(x)))


def _circuit(device: str, diff_method: str) -> Any:
    """Return a QNode of two gates."""
    import pennylane as qml

    @qml.qnode(qml.device(device, wires=2), diff_method=diff_method)
    def circuit(x: Any) -> Any:
        qml.RX(x, 0)
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(1))

    return circuit


def _circuit_in_qjit() -> Program:
    import bellhop

    return _call(bellhop.qjit(_circuit("lightning.qubit", "adjoint")))


def _circuit_in_jit() -> Program:
    """Return a call of a qjit circuit in a plain ``jax.jit``."""
    import jax

    import bellhop

    return _call(jax.jit(bellhop.qjit(_circuit("lightning.qubit", "adjoint"))))


def _circuit_in_jax() -> Program:
    import jax

    return _call(jax.jit(_circuit("default.qubit", "backprop")))


CASES = [
    _case("empty-call", "x + 1", _increment, _array, 1.5),
    _case("empty-call-float", "x + 1 of a float", _increment, lambda: ((0.5,), {}), 1.5),
    _case("empty-call-keyword", "x=0.5, y=1.0", _total, lambda: ((), {"x": 0.5, "y": 1.0}), 1.5),
    _case("empty-call-pytree", "20 arrays", lambda tree: _total(**tree), _pytree, 95.0),
    Case(
        name="empty-call-static",
        title="empty call (a static argument)",
        limit="jax.jit of the same function",
        builders={
            "jax": _static_jax,
            **qjit_builders(lambda api: _static(api.qjit)),
            LIMIT: _static_jax,
        },
        expected=lambda: 1.5,
        targets=(Target(LIMIT, 1 / 1.3),),
    ),
    Case(
        name="empty-call-accelerate",
        title="empty call (accelerate outside of qjit)",
        limit="jax.jit of the same function",
        builders={"bellhop": _accelerated, "jax": _increment_jax, LIMIT: _increment_jax},
        unavailable={"catalyst": "accelerate works inside of qjit only"},
        expected=lambda: 1.5,
        targets=(Target(LIMIT, 1 / 1.3),),
    ),
    Case(
        name="circuit-in-jax-jit",
        title="jax.jit of a qjit circuit, 2 qubits",
        limit="the same circuit in qjit",
        builders={"bellhop": _circuit_in_jit, "jax": _circuit_in_jax, LIMIT: _circuit_in_qjit},
        unavailable={"catalyst": "calls in a plain jax.jit are callbacks of JAX"},
        expected=lambda: math.cos(0.5),
        targets=(Target(LIMIT, 1 / 3),),
    ),
]
