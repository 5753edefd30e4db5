"""What tests of callbacks share."""

from collections.abc import Callable
from typing import Any

import pytest

import bellhop


@pytest.fixture
def raising() -> Callable[..., Callable[..., Any]]:
    """Make a function that raises in a callback where its argument is above 0."""

    def make(exception: BaseException, flavour: str) -> Callable[..., Any]:
        def callback(x):
            if x > 0:
                raise exception
            return float(x)

        if flavour == "pure":
            pure = bellhop.pure_callback(callback, float)
            return lambda x: pure(x)

        def effect(x):
            bellhop.debug.callback(callback)(x)
            return x

        return effect

    return make


@pytest.fixture
def log():
    """A function that taps a value by name; ``log()`` waits and returns what it saw."""
    seen = []

    def tap(*args):
        if not args:
            bellhop.barrier_wait()
            return seen
        name, x = args
        bellhop.tap(lambda v: seen.append((name, v.tolist())), x)
        return x

    return tap
