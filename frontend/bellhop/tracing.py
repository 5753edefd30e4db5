"""Whether, and how, a function of the user's is being traced for a program of ours."""

import contextlib
import contextvars
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax

from bellhop._jax.patches.loop_hoisting import keep_effects_in_loops

if TYPE_CHECKING:
    from bellhop.options import CompileOptions

# What JAX raises where Python needs the value of a tracer.
NOT_TRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.UnexpectedTracerError,
)

_active: contextvars.ContextVar[bool] = contextvars.ContextVar("bellhop_tracing", default=False)


def is_tracing() -> bool:
    """Tell whether a qjit function is being traced."""
    return _active.get()


_options: contextvars.ContextVar["CompileOptions | None"] = contextvars.ContextVar(
    "bellhop_options", default=None
)


def current_options() -> "CompileOptions | None":
    """Return the options of the qjit function that is being traced, the outermost, or None."""
    return _options.get()


_converts: contextvars.ContextVar[bool] = contextvars.ContextVar("bellhop_converts", default=False)


def is_converting() -> bool:
    """Tell whether autograph converts the functions that are traced."""
    options = _options.get()
    return _converts.get() or (options is not None and options.autograph)


@contextlib.contextmanager
def converting() -> Iterator[None]:
    """Let autograph convert the functions that are traced inside."""
    token = _converts.set(True)
    try:
        yield
    finally:
        _converts.reset(token)


_seeds: contextvars.ContextVar[list[int] | None] = contextvars.ContextVar(
    "bellhop_seeds", default=None
)


def offer_seed(draw: Callable[[], int]) -> None:
    """Offer a seed for the program that is traced, which takes one where it has none."""
    options, seeds = _options.get(), _seeds.get()
    if options is not None and options.seed is None and seeds is not None:
        seeds.append(draw())


@contextlib.contextmanager
def compiling(options: "CompileOptions") -> Iterator[list[int]]:
    """Trace what runs inside with these options; yield the seeds that it offers."""
    seeds: list[int] = []
    tokens = _options.set(options), _seeds.set(seeds)
    try:
        yield seeds
    finally:
        _options.reset(tokens[0])
        _seeds.reset(tokens[1])


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """Trace what runs inside for a program of ours: QNodes become circuits of it."""
    keep_effects_in_loops()
    if "pennylane" in sys.modules:
        from bellhop.circuits.interception import intercept_qnodes
        from bellhop.circuits.thread_queues import separate_threads

        intercept_qnodes()
        separate_threads()
    token = _active.set(True)
    try:
        yield
    finally:
        _active.reset(token)


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function``, run under ``tracing()``."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with tracing():
            if not is_converting():
                return function(*args, **kwargs)
            from bellhop.autograph.calls import call_converted

            return call_converted(function, args, kwargs)

    return run


_circuit: contextvars.ContextVar[Any] = contextvars.ContextVar("bellhop_circuit", default=None)


def current_circuit() -> Any:
    """Return the circuit whose quantum function is being traced, or None."""
    return _circuit.get()


def taker_of_gates() -> Any:
    """Return what control flow with gates belongs to, or None outside of circuits."""
    circuit = _circuit.get()
    return None if circuit is None else circuit.for_control_flow()


@contextlib.contextmanager
def circuit_scope(circuit: Any) -> Iterator[None]:
    """Make ``circuit`` the one that gates belong to."""
    token = _circuit.set(circuit)
    try:
        yield
    finally:
        _circuit.reset(token)
