"""Loops and conditionals as Python has them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml


def for_loop(start: Any, stop: Any, step: Any = 1, **_: Any) -> Callable[..., Any]:
    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        def loop(*carried: Any) -> Any:
            for i in range(int(start), int(stop), int(step)):
                carried = _packed(body(jnp.asarray(i), *carried), len(carried))
            return _unpacked(carried)

        return loop

    return decorate


def while_loop(test: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        def loop(*carried: Any) -> Any:
            while test(*carried):
                carried = _packed(body(*carried), len(carried))
            return _unpacked(carried)

        return loop

    return decorate


def _packed(returned: Any, count: int) -> tuple[Any, ...]:
    if count == 0:
        return ()
    return returned if count > 1 else (returned,)


def _unpacked(carried: tuple[Any, ...]) -> Any:
    if not carried:
        return None
    return carried if len(carried) > 1 else carried[0]


def cond(
    pred: Any, first: Any, second: Any = lambda *_: None, elifs: Any = ()
) -> Callable[..., Any]:
    if isinstance(pred, qml.ops.MeasurementValue):
        return qml.cond(pred, first)
    taken = (branch for test, branch in [(pred, first), *elifs] if test)
    return next(taken, second)


class Switch:
    """The cases of a switch, and what runs where there is no such case."""

    def __init__(self, index: Any, default: Callable[..., Any]) -> None:
        self.index, self.default = int(index), default
        self.cases: dict[int, Callable[..., Any]] = {}

    def branch(self, case: int) -> Callable[..., Any]:
        return lambda function: self.cases.setdefault(case, function)

    def __call__(self, *args: Any) -> Any:
        return self.cases.get(self.index, self.default)(*args)


def switch(index: Any) -> Callable[..., Switch]:
    return lambda default: Switch(index, default)


class Lax:
    """What programs use of ``jax.lax``."""

    stop_gradient = staticmethod(jax.lax.stop_gradient)

    @staticmethod
    def fori_loop(start: Any, stop: Any, body: Callable[..., Any], init: Any) -> Any:
        for i in range(int(start), int(stop)):
            init = body(jnp.asarray(i), init)
        return init

    @staticmethod
    def scan(body: Callable[..., Any], init: Any, over: Any) -> Any:
        elements = []
        for element in over:
            init, out = body(init, element)
            elements.append(out)
        return init, jnp.stack(elements) if elements else jnp.zeros(0)

    @staticmethod
    def cond(pred: Any, first: Callable[..., Any], second: Callable[..., Any], *args: Any) -> Any:
        return (first if pred else second)(*args)

    @staticmethod
    def switch(index: Any, branches: Any, *args: Any) -> Any:
        return branches[max(0, min(int(index), len(branches) - 1))](*args)
