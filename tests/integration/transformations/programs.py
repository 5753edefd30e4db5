"""The columns of the table: programs around one function, and what they must give.

Each takes ``sine``, a function of a scalar that computes ``sin`` and involves a callback, and
each has its value, and the values that the callback must see, from NumPy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import bellhop

Sine = Callable[[Any], Any]

FORMS: dict[str, Callable[..., Any]] = {
    "eager": lambda function: function,
    "jit": jax.jit,
    "qjit": bellhop.qjit,
}
BOTH = ("jit", "qjit")


@dataclass(frozen=True, eq=False)
class Transformation:
    """A program to be made of a callback.

    Attributes:
        name: the head of the column.
        group: the table that it stands in.
        does: what the documentation says that it does, with ``f`` for the function.
        program: makes the program.
        args: what it is called with.
        value: what it returns.
        seen: what the callback gets, in program order.
        forms: how it is run, of ``FORMS``.
        vmap_methods: whether it is run with each, where the flavour has them.
        in_order: whether program order is defined.
    """

    name: str
    group: str
    does: str
    program: Callable[[Sine], Callable[..., Any]]
    args: tuple[Any, ...]
    value: Any
    seen: tuple[float, ...]
    forms: tuple[str, ...] = BOTH
    vmap_methods: bool = False
    in_order: bool = True


X = 0.4
XS = np.array([0.1, 0.2, 0.3])
TABLE = np.arange(6.0).reshape(2, 3) / 10


def _times(count: int, x: float = X) -> list[float]:
    """Return x, sin x, sin sin x and so on."""
    values = [x]
    for _ in range(count):
        values.append(float(np.sin(values[-1])))
    return values


def _aside(sine: Sine) -> Callable[[Any], Any]:
    """Multiply with the function where no differentiated value flows into it."""
    return lambda x: x * sine(lax.stop_gradient(x))


def _scan(sine: Sine) -> Callable[[Any], Any]:
    return lambda x: lax.scan(lambda c, _: (sine(c), None), x, None, length=3)[0]


def _while_body(sine: Sine) -> Callable[[Any], Any]:
    return lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, sine(c[1])), (0, x))[1]


def _while_condition(sine: Sine) -> Callable[[Any], Any]:
    return lambda x: lax.while_loop(lambda v: sine(v) < 0.9, lambda v: v + 0.4, x)


def _cond(sine: Sine) -> Callable[[Any], Any]:
    branches = sine, lambda v: v
    return lambda x: lax.cond(x > 0, *branches, x) + lax.cond(x < 0, *branches, x)


def _switch(sine: Sine) -> Callable[[Any], Any]:
    branches = [lambda v: v, sine, lambda v: 2 * sine(2 * v)]
    return lambda x: lax.fori_loop(0, 3, lambda i, c: c + lax.switch(i, branches, x), 0.0)


def _vmap_of_cond(sine: Sine) -> Callable[[Any], Any]:
    return jax.vmap(lambda x: lax.cond(x > 0.15, sine, lambda v: v, x))


def _vmap_of_while(sine: Sine) -> Callable[[Any], Any]:
    return jax.vmap(lambda x: lax.while_loop(lambda v: v < 0.25, lambda v: sine(v) + 0.1, x))


def _shard_map(sine: Sine) -> Callable[[Any], Any]:
    mesh = Mesh(np.array(jax.devices("cpu")[:2]), ("i",))
    return jax.shard_map(lambda x: sine(x[0])[None], mesh=mesh, in_specs=P("i"), out_specs=P("i"))


def _circuit(sine: Sine) -> Callable[[Any], Any]:
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        qml.RY(sine(x), wires=0)
        return qml.expval(qml.PauliZ(0))

    return circuit


def _measured_circuit(sine: Sine) -> Callable[[Any], Any]:
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x: Any) -> Any:
        qml.X(wires=0)
        outcome = bellhop.measure(0)
        qml.RY(sine(x * outcome), wires=0)
        return qml.expval(qml.PauliZ(0))

    return circuit


def _plain_while_condition() -> list[float]:
    values = [X]
    while np.sin(values[-1]) < 0.9:
        values.append(values[-1] + 0.4)
    return values


def _plain_vmap_of_while() -> tuple[list[float], list[float]]:
    """Loop on all elements for as long as one of them goes on, as vmap does."""
    values, seen = list(XS), []
    while any(value < 0.25 for value in values):
        seen += values
        values = [np.sin(v) + 0.1 if v < 0.25 else v for v in values]
    return values, seen


_SIN, _COS = float(np.sin(X)), float(np.cos(X))

PROGRAMS: Sequence[Transformation] = (
    Transformation("call", "Calls", "`f(x)`", lambda f: f, (X,), _SIN, (X,), ("eager",)),
    Transformation("jit", "Calls", "`jax.jit(f)(x)`", lambda f: f, (X,), _SIN, (X,), ("jit",)),
    Transformation("qjit", "Calls", "`qjit(f)(x)`", lambda f: f, (X,), _SIN, (X,), ("qjit",)),
    Transformation(
        "shard_map", "Calls", "`f(x)` on each of two devices",
        _shard_map, (XS[:2],), np.sin(XS[:2]), tuple(XS[:2]), in_order=False,
    ),
    Transformation(
        "accelerate", "Calls", '`bellhop.accelerate(f, dev="cpu:1")(x)`',
        lambda f: bellhop.accelerate(f, dev="cpu:1"), (X,), _SIN, (X,),
    ),
    Transformation(
        "vmap", "Batching", "`jax.vmap(f)(xs)` of three elements",
        jax.vmap, (XS,), np.sin(XS), tuple(XS), vmap_methods=True,
    ),
    Transformation(
        "vmap of vmap", "Batching", "`jax.vmap(jax.vmap(f))` of two by three elements",
        lambda f: jax.vmap(jax.vmap(f)), (TABLE,), np.sin(TABLE), tuple(TABLE.ravel()),
        vmap_methods=True,
    ),
    Transformation(
        "vmap of scan", "Batching", "`scan` below, of three elements",
        lambda f: jax.vmap(_scan(f)), (XS,), np.sin(np.sin(np.sin(XS))),
        tuple(np.concatenate([XS, np.sin(XS), np.sin(np.sin(XS))])),
    ),
    Transformation(
        "vmap of while_loop", "Batching",
        "a loop that goes on for all until the last of three elements ends",
        _vmap_of_while, (XS,), np.array(_plain_vmap_of_while()[0]),
        tuple(_plain_vmap_of_while()[1]),
    ),
    Transformation(
        "vmap of cond", "Batching", "JAX runs both branches on each of three elements",
        _vmap_of_cond, (XS,), np.where(XS > 0.15, np.sin(XS), XS), tuple(XS),
    ),
    Transformation(
        "jvp", "Derivatives", "`jax.jvp(f, (x,), (1.0,))`",
        lambda f: lambda x: jax.jvp(f, (x,), (1.0,)), (X,), (_SIN, _COS), (X,),
    ),
    Transformation(
        "grad", "Derivatives", "`jax.value_and_grad(f)(x)`",
        jax.value_and_grad, (X,), (_SIN, _COS), (X,),
    ),
    Transformation(
        "hessian", "Derivatives", "`jax.hessian(f)(x)`", jax.hessian, (X,), -_SIN, (X,),
    ),
    Transformation(
        "grad past it", "Derivatives", "`jax.grad(lambda x: x * f(stop_gradient(x)))`",
        lambda f: jax.grad(_aside(f)), (X,), _SIN, (X,),
    ),
    Transformation(
        "hessian past it", "Derivatives", "the same with `x**2` and `jax.hessian`",
        lambda f: jax.hessian(lambda x: x * _aside(f)(x)), (X,), 2 * _SIN, (X,),
    ),
    Transformation(
        "vmap of grad past it", "Derivatives", "`jax.vmap` of that gradient, three elements",
        lambda f: jax.vmap(jax.grad(_aside(f))), (XS,), np.sin(XS), tuple(XS),
    ),
    Transformation(
        "checkpoint", "Derivatives", "that gradient, of `jax.checkpoint` of the function",
        lambda f: jax.grad(jax.checkpoint(_aside(f))), (X,), _SIN, (X,),
    ),
    Transformation(
        "grad of scan past it", "Derivatives",
        "gradient of a loop of three iterations, `c = c * x * f(v)`",
        lambda f: jax.grad(
            lambda x: lax.scan(lambda c, v: (c * x * f(v), None), 1.0, jnp.array(XS))[0]
        ),
        (X,), 3 * X**2 * np.prod(np.sin(XS)), tuple(XS),
    ),
    Transformation(
        "scan", "Control flow", "`c = f(c)`, three times",
        _scan, (X,), _times(3)[3], tuple(_times(2)),
    ),
    Transformation(
        "while_loop, body", "Control flow", "the same",
        _while_body, (X,), _times(3)[3], tuple(_times(2)),
    ),
    Transformation(
        "while_loop, condition", "Control flow", "`while f(x) < 0.9: x += 0.4`",
        _while_condition, (X,), _plain_while_condition()[-1], tuple(_plain_while_condition()),
    ),
    Transformation(
        "cond", "Control flow", "one conditional that takes `f`, and one that does not",
        _cond, (X,), _SIN + X, (X,),
    ),
    Transformation(
        "switch", "Control flow", "each of three branches, two of which call `f`",
        _switch, (X,), X + _SIN + 2 * np.sin(2 * X), (X, 2 * X),
    ),
    Transformation(
        "circuit", "Circuits", "`RX(x); RY(f(x)); expval(Z)`",
        _circuit, (X,), np.cos(X) * np.cos(_SIN), (X,), ("qjit",),
    ),
    Transformation(
        "after a measurement", "Circuits", "`X; m = measure(); RY(f(m * x)); expval(Z)`",
        _measured_circuit, (X,), -np.cos(_SIN), (X,), ("qjit",),
    ),
    Transformation(
        "vmap of circuit", "Circuits", "`jax.vmap` of that, three elements",
        lambda f: jax.vmap(_circuit(f)), (XS,), np.cos(XS) * np.cos(np.sin(XS)), tuple(XS),
        ("qjit",),
    ),
    Transformation(
        "grad of circuit", "Circuits", "`jax.grad` of that",
        lambda f: jax.grad(_circuit(f)), (X,),
        -np.sin(X) * np.cos(_SIN) - np.cos(X) * np.sin(_SIN) * _COS, (X,), ("qjit",),
    ),
    Transformation(
        "grad of circuit past it", "Circuits", "`RX(x); RY(f(stop_gradient(x))); expval(Z)`",
        lambda f: jax.grad(_circuit(lambda x: f(lax.stop_gradient(x)))), (X,),
        -np.sin(X) * np.cos(_SIN), (X,), ("qjit",),
    ),
)  # fmt: skip
