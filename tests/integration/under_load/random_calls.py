"""Random trees of calls: compiled functions whose callbacks call them, in all ways there are.

    1  a float, in turn                     q(1.0): its callback calls
    ├── 2  a NumPy scalar, meeting              q(np.float64(2)) and q(jnp.asarray(3.0)) one after
    │   ├── 4                                   the other; that of 2 starts two threads, and waits
    │   └── 5  fails                            for both, whose callbacks wait for one another
    └── 3  one of JAX's arrays

A tree runs with a new function, where each call may be the first of its signature, and then from
several threads at once.
"""

import math
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from tests.patience import PATIENCE, run_at_once

import bellhop


class Failure(Exception):
    """Raised by callbacks that shall fail."""


# What JAX tells calls apart by: types and places of values, names, shapes.
FORMS: dict[str, Callable[[Callable[..., jax.Array], int], jax.Array]] = {
    "float": lambda q, n: q(float(n)),
    "integer": lambda q, n: q(n),
    "NumPy scalar": lambda q, n: q(np.float64(n)),
    "NumPy array": lambda q, n: q(np.array(float(n))),
    "array": lambda q, n: q(jnp.asarray(float(n))),
    "computed array": lambda q, n: q(jnp.full(300, n - 1.0) + 1),
    # XLA copies it later.
    "large array": lambda q, n: q(np.full(10_000, float(n))),
    "with a name": lambda q, n: q(x=float(n)),
    "new shape": lambda q, n: q(np.full((n, 1), float(n))),
}


def in_turn(calls: Sequence[Callable[[], float]]) -> float:
    return sum(call() for call in calls)


def in_threads(calls: Sequence[Callable[[], float]]) -> float:
    values: list[float] = []
    run_at_once(*(lambda call=call: values.append(call()) for call in calls))
    return sum(values)


def beside_one_another(calls: Sequence[Callable[[], float]]) -> float:
    @bellhop.qjit(concurrent_callbacks=2)
    def program():
        return sum(bellhop.pure_callback(call, float)() for call in calls)

    return float(program())


def in_a_threadpool(calls: Sequence[Callable[[], float]]) -> float:
    @bellhop.qjit
    def program(numbers):
        call = bellhop.pure_callback(
            lambda number: calls[int(number)](), float, vmap_method="sequential_threadpool"
        )
        return jnp.sum(jax.vmap(call)(numbers))

    return float(program(np.arange(len(calls))))


WAYS = {
    "in turn": in_turn,
    "in threads": in_threads,
    "meeting": in_threads,
    "concurrent_callbacks": beside_one_another,
    "sequential_threadpool": in_a_threadpool,
}


@dataclass
class Call:
    """One call, which calls what is inside it."""

    number: int
    form: str
    way: str
    inside: list["Call"] = field(default_factory=list)
    fails: bool = False
    meeting: threading.Barrier | None = None

    def __iter__(self) -> Iterator["Call"]:
        yield self
        for call in self.inside:
            yield from call

    def value(self) -> float:
        """Return what it must return."""
        return -1.0 if self.fails else self.number + sum(call.value() for call in self.inside)

    def make(self, q: Callable[..., jax.Array]) -> float:
        """Make it."""
        try:
            return float(FORMS[self.form](q, self.number))
        except Failure as failure:
            # Its own, or its value is not what it must be.
            return -1.0 if failure.args == (self.number,) else math.nan

    def answer(self, q: Callable[..., jax.Array]) -> float:
        """Return what its callback does."""
        if self.meeting is not None:
            self.meeting.wait(PATIENCE)
        calls = [partial(call.make, q) for call in self.inside]
        inside = WAYS[self.way](calls) if calls else 0.0
        if self.fails:
            raise Failure(self.number)
        return self.number + inside


def random_call(draw: random.Random, size: int) -> Call:
    """Draw a tree of so many calls."""
    root = Call(1, draw.choice([*FORMS]), draw.choice([*WAYS]))
    calls = [root]
    for number in range(2, size + 1):
        # The later ones more often, for depth.
        parent = max(draw.choice(calls), draw.choice(calls), key=lambda call: call.number)
        call = Call(number, draw.choice([*FORMS]), draw.choice([*WAYS]), fails=draw.random() < 0.1)
        parent.inside.append(call)
        calls.append(call)
    for call in calls:
        if call.way == "meeting" and call.inside:
            barrier = threading.Barrier(len(call.inside))
            for inner in call.inside:
                inner.meeting = barrier
    return root


def run_random_calls(seed: int, size: int, threads: int) -> None:
    """Run a tree of calls once, then from threads at once, and compare what each returns."""
    root = random_call(random.Random(seed), size)
    calls = {call.number: call for call in root}
    seen: list[int] = []

    @bellhop.pure_callback
    def answer(number) -> float:
        seen.append(int(number))
        return calls[int(number)].answer(q)

    @bellhop.qjit
    def q(x):
        return answer(jnp.ravel(x)[0].astype(float))

    def run() -> None:
        assert root.make(q) == root.value(), root

    run_at_once(run)
    # A pure call may be made more than once.
    assert set(seen) == set(calls)
    run_at_once(*[run] * threads)
