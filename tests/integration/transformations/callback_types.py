"""The rows of the table: flavours of callbacks, and what each refuses or does otherwise.

A new flavour is one more entry of ``FLAVOURS``.
"""

import ctypes
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tests.needs import PYTORCH, Need

import bellhop
from bellhop import host_callback

from .outcomes import Log, Outcome, Refused, Works
from .programs import Sine, X

QUARTER = np.pi / 2


class _PrintHandler(logging.Handler):
    """Prints messages, as standard output is redirected where a cell runs."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        print(record.getMessage())


LOGGER = logging.getLogger("tests.transformations")
LOGGER.setLevel("INFO")
LOGGER.propagate = False
LOGGER.addHandler(_PrintHandler())

Outcomes = dict[str, Outcome]


@dataclass(frozen=True, eq=False)
class CallbackRow:
    """A way to call Python.

    Attributes:
        name: the head of the row.
        make: makes a function that computes ``sin`` and whose callback keeps its argument;
            it takes a ``vmap_method`` too where the flavour has them.
        differs: the columns where the outcome is another than the program's own; "name (form)"
            is for one form alone.
        keeps_order: whether calls keep program order in a plain `jax.jit` too.
        vmap_methods: the methods that call once for a batch, where it has them.
        needs: what it needs, where that is not always there.
    """

    name: str
    make: Callable[..., Sine]
    differs: Outcomes = field(default_factory=dict)
    keeps_order: bool = True
    vmap_methods: tuple[str, ...] = ()
    needs: Need | None = None

    @property
    def runs_here(self) -> bool:
        """Whether what it needs is there."""
        return self.needs is None or self.needs.is_here


def _pure(log: Log, vmap_method: str = "sequential") -> Any:
    def sine(x: Any) -> Any:
        log(x)
        return np.sin(x)

    return bellhop.pure_callback(sine, float, vmap_method=vmap_method)


def _pure_with_vjp(log: Log, vmap_method: str = "sequential") -> Any:
    sine = _pure(log, vmap_method)
    sine.fwd(lambda x: (sine(x), x))
    # The derivative is the callback itself, so it has one too.
    sine.bwd(lambda x, cotangent: sine(x + QUARTER) * cotangent)
    return sine


def _pure_with_jvp(log: Log, vmap_method: str = "sequential") -> Any:
    sine = _pure(log, vmap_method)

    @sine.jvp
    def sine_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (dx,) = primals, tangents
        return sine(x), sine(x + QUARTER) * dx

    return sine


def _native(log: Log) -> Any:
    def sine(x: float) -> float:
        log(np.float64(x))
        return float(np.sin(x))

    # A closure of ctypes is a C function, which calls Python by itself.
    native = bellhop.native_callback(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(sine))

    @native.jvp
    def sine_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (dx,) = primals, tangents
        return native(x), native(x + QUARTER) * dx

    return native


def _buffer(log: Log, vmap_method: str = "sequential") -> Any:
    def sine(context: Any, out: Any, x: Any) -> None:
        log(x)
        np.sin(x, out=out)

    return bellhop.buffer_callback(sine, float, vmap_method=vmap_method)


def _io(ordered: bool) -> Callable[[Log], Sine]:
    def make(log: Log) -> Sine:
        def sine(x: Any) -> Any:
            log(x)
            return np.sin(x)

        return bellhop.io_callback(sine, float, ordered=ordered)

    return make


def _host_call(log: Log) -> Sine:
    def sine(x: Any) -> Any:
        log(x)
        return np.sin(x)

    scalar = jax.ShapeDtypeStruct((), np.float64)
    return lambda x: host_callback.call(sine, x, result_shape=scalar)


def _id_tap(log: Log) -> Sine:
    def keep(x: Any, transforms: Any) -> None:
        log(x)

    return lambda x: jnp.sin(host_callback.id_tap(keep, x))


def _torch(log: Log, vmap_method: str = "sequential") -> Any:
    import torch

    def sine(x: Any) -> Any:
        log(x.detach().numpy())
        return torch.sin(x)

    # With its type, it is not run to find that.
    return bellhop.call_torch(sine, float, vmap_method=vmap_method)


def _make_effect_row(call: Callable[[Log, Any], None]) -> Callable[[Log], Sine]:
    """Make the function of what is called for its effect beside the computation."""

    def make(log: Log) -> Sine:
        def sine(x: Any) -> Any:
            call(log, x)
            return jnp.sin(x)

        return sine

    return make


NO_RULE = Refused(
    bellhop.DifferentiableCompileError,
    r"pure_callback 'sine' \(called from .* has no derivative rule",
    "It has no derivative: register `fwd` and `bwd`, or `jvp`.",
)
NO_DERIVATIVE = Refused(
    bellhop.DifferentiableCompileError,
    r"buffer_callback 'sine' \(called from .* has no derivative\. Define a",
    "It has no derivative: give it one with `jax.custom_jvp` or `jax.custom_vjp`.",
)
NO_FORWARD_MODE = Refused(
    bellhop.DifferentiableCompileError,
    r"pure_callback 'sine' \(called from .* is differentiated in forward mode",
    "`fwd` and `bwd` give reverse mode only, as `jax.custom_vjp` does; `jvp` gives both.",
)
SIDE_EFFECT = Refused(
    bellhop.DifferentiableCompileError,
    r"io_callback 'sine' \(called from .* has a differentiated argument",
    "No differentiated value may flow into what has side effects and results.",
)
ORDERED_VMAP = Refused(
    ValueError,
    r"io_callback 'sine' \(called from .* is ordered, and the order of calls under vmap",
    "Mapped calls have no order that the program defines.",
)
VMAP_OF_COND = Refused(
    NotImplementedError,
    "IO effect not supported in vmap-of-cond",
    "JAX refuses: under `vmap` it would run both branches.",
)
VMAP_OF_WHILE = Refused(
    Exception,
    "IO effects not supported in while_loop with batched predicate",
    "JAX refuses: elements that have ended would be called for until the last one ends.",
)
NO_TABLE = Refused(
    bellhop.CompileError,
    r"a qjit program runs on one host device, and this program has a jax\.shard_map",
    "A `qjit` program runs on one device; under `jax.jit` it works.",
)

DERIVATIVES = ("jvp", "grad", "hessian", "grad of circuit")
EVERYWHERE: Outcomes = {"shard_map (qjit)": NO_TABLE}
WITHOUT_RULE: Outcomes = EVERYWHERE | dict.fromkeys(DERIVATIVES, NO_RULE)
ONE_CALL_EACH = Works(seen=(X, X + QUARTER))
WITH_VJP: Outcomes = EVERYWHERE | {
    "jvp": NO_FORWARD_MODE,
    "grad": ONE_CALL_EACH,
    "hessian": NO_FORWARD_MODE,
    "grad of circuit": ONE_CALL_EACH,
}
WITH_JVP: Outcomes = EVERYWHERE | {
    "jvp": ONE_CALL_EACH,
    "grad": ONE_CALL_EACH,
    "grad of circuit": ONE_CALL_EACH,
    # Nobody uses the value and the slope, so their calls are dropped.
    "hessian": Works(seen=(X + 2 * QUARTER,)),
}
WITH_RESULTS_AND_EFFECTS: Outcomes = (
    EVERYWHERE
    | dict.fromkeys(DERIVATIVES, SIDE_EFFECT)
    | {"vmap of cond": VMAP_OF_COND, "vmap of while_loop": VMAP_OF_WHILE}
)
NO_HOST_CALL_DERIVATIVE = Refused(
    NotImplementedError,
    r"host_callback\.call of 'sine' \(called from .* has no rule for differentiation",
    "It has no derivative, as JAX's had none; `pure_callback` takes one.",
)
NO_HOST_CALL_VMAP = Refused(
    NotImplementedError,
    r"host_callback\.call of 'sine' \(called from .* has no rule for vmap",
    "It has no `vmap`, as JAX's had none; `pure_callback` has.",
)
# A derivative runs the function again.
WITH_DERIVATIVES: Outcomes = EVERYWHERE | dict.fromkeys(
    ("jvp", "grad", "grad of circuit"), Works(seen=(X, X))
)
# Once with the batch, in each iteration of a loop.
TAPPED: Outcomes = EVERYWHERE | {
    "vmap": Works(calls=1),
    "vmap of vmap": Works(calls=1),
    "vmap of scan": Works(calls=3),
    "vmap of while_loop": Works(calls=2),
    "vmap of cond": Works(calls=1),
    "vmap of grad past it": Works(calls=1),
    # Where values are computed again, they are tapped again.
    "checkpoint": Works(seen=(X, X)),
}
MAPPED = ("vmap", "vmap of vmap", "vmap of scan", "vmap of while_loop", "vmap of grad past it")
METHODS = ("expand_dims", "broadcast_all", "legacy_vectorized")

FLAVOURS = (
    CallbackRow("pure_callback", _pure, WITHOUT_RULE, vmap_methods=METHODS),
    CallbackRow("pure_callback, fwd and bwd", _pure_with_vjp, WITH_VJP, vmap_methods=METHODS),
    CallbackRow("pure_callback, jvp", _pure_with_jvp, WITH_JVP, vmap_methods=METHODS),
    CallbackRow("native_callback, jvp", _native, WITH_JVP),
    CallbackRow(
        "buffer_callback",
        _buffer,
        EVERYWHERE | dict.fromkeys(DERIVATIVES, NO_DERIVATIVE),
        vmap_methods=METHODS,
    ),
    CallbackRow("io_callback", _io(ordered=False), WITH_RESULTS_AND_EFFECTS, keeps_order=False),
    CallbackRow(
        "io_callback, ordered",
        _io(ordered=True),
        WITH_RESULTS_AND_EFFECTS | dict.fromkeys(MAPPED, ORDERED_VMAP),
    ),
    CallbackRow("callback", _make_effect_row(lambda log, x: bellhop.callback(log)(x)), EVERYWHERE),
    CallbackRow(
        "debug.callback, ordered",
        _make_effect_row(lambda log, x: bellhop.debug.callback(log, ordered=True)(x)),
        EVERYWHERE,
    ),
    CallbackRow(
        "debug.print", _make_effect_row(lambda log, x: bellhop.debug.print("{}", x)), EVERYWHERE
    ),
    CallbackRow(
        "debug.log",
        _make_effect_row(lambda log, x: bellhop.debug.log("INFO", "{}", x, logger=LOGGER)),
        EVERYWHERE,
    ),
    CallbackRow("tap", _make_effect_row(lambda log, x: bellhop.tap(log, x)), TAPPED),
    CallbackRow("host_callback.id_tap", _id_tap, TAPPED),
    CallbackRow(
        "host_callback.call",
        _host_call,
        EVERYWHERE
        | dict.fromkeys(DERIVATIVES, NO_HOST_CALL_DERIVATIVE)
        | dict.fromkeys((*MAPPED, "vmap of cond"), NO_HOST_CALL_VMAP),
    ),
    CallbackRow("call_torch", _torch, WITH_DERIVATIVES, vmap_methods=METHODS, needs=PYTORCH),
)
