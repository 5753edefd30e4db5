"""Generated programs of loops, branches and effects: events come as in plain Python.

PennyLaneAI/catalyst#407: prints and callbacks that came in another order than the program's.
"""

import contextlib
import io
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bellhop
from bellhop import host_callback


@dataclass(frozen=True)
class Effect:
    """One event: a number, and the value that the program has then."""

    flavour: str
    number: int


@dataclass(frozen=True)
class Loop:
    """Runs its body some times; `while_loop`, `fori_loop`, `scan` or `map`."""

    kind: str
    length: int
    body: tuple[Any, ...]


@dataclass(frozen=True)
class Branch:
    """Takes one of its bodies by the value that the program has then."""

    bodies: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Function:
    """A body in a function of its own: a nested jit, or one under checkpoint."""

    kind: str
    body: tuple[Any, ...]


def _effects(*more: str) -> Any:
    flavours = st.sampled_from(["callback", "print", "ordered_io", "debug", *more])
    return st.builds(Effect, flavours, st.integers(0, 99))


def _compound(bodies: Any) -> Any:
    some = st.lists(bodies, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(
            Loop, st.sampled_from(["while", "fori", "scan", "bounded"]), st.integers(0, 3), some
        ),
        st.builds(Branch, st.lists(some, min_size=2, max_size=3).map(tuple)),
        st.builds(Function, st.sampled_from(["jit", "checkpoint"]), some),
    )


def _programs(effects: Any) -> Any:
    parts = st.recursive(effects, _compound, max_leaves=8)
    return st.lists(parts, min_size=1, max_size=4).map(tuple)


# In a plain `jax.jit` the others have no order, or one of their own.
OF_JIT = _programs(_effects())
OF_QJIT = _programs(_effects("io", "buffer", "host", "jax_io", "jax_debug"))


def python(body: tuple[Any, ...], value: int, events: list[tuple[int, int]]) -> int:
    """Interpret a program: what each effect sees, and the value at the end."""
    for part in body:
        if isinstance(part, Effect):
            events.append((part.number, value))
            value = (3 * value + part.number) % 101
        elif isinstance(part, Loop):
            for i in range(part.length):
                value = python(part.body, (value + i) % 101, events)
        elif isinstance(part, Branch):
            value = python(part.bodies[value % len(part.bodies)], value, events)
        else:
            value = python(part.body, value, events)
    return value


class Traced:
    """The same program as JAX traces it; each effect appends to `events`."""

    def __init__(self) -> None:
        self.events: list[tuple[int, int]] = []

    def body(self, body: tuple[Any, ...], value: Any) -> Any:
        for part in body:
            value = getattr(self, type(part).__name__.lower())(part, value)
        return value

    def effect(self, effect: Effect, value: Any) -> Any:
        number, record = effect.number, self.record
        if effect.flavour == "callback":
            bellhop.callback(lambda v: record(number, v))(value)
        elif effect.flavour == "debug":
            bellhop.debug.callback(record, ordered=True)(number, value)
        elif effect.flavour == "print":
            bellhop.debug.print("{} {}", number, value)
        elif effect.flavour == "jax_debug":
            jax.debug.callback(record, number, value, ordered=True)
        else:
            result = self.with_result(effect, value)
            # Else nothing but the order of the program places the call.
            if number % 2:
                return result
        return (3 * value + number) % 101

    def with_result(self, effect: Effect, value: Any) -> Any:
        """Call what returns the next value of the program."""
        number, record = effect.number, self.record

        def write(v: Any) -> Any:
            record(number, v)
            return np.int64((3 * v + number) % 101)

        def write_into(context: Any, out: Any, v: Any) -> None:
            out[...] = write(v)

        if effect.flavour == "host":
            return host_callback.call(write, value, result_shape=value)
        if effect.flavour == "jax_io":
            return jax.experimental.io_callback(write, value, value, ordered=True)
        if effect.flavour == "buffer":
            return bellhop.buffer_callback(write_into, jnp.int64, has_side_effect=True)(value)
        return bellhop.io_callback(write, jnp.int64, ordered=effect.flavour == "ordered_io")(value)

    def record(self, number: Any, value: Any) -> None:
        self.events.append((int(number), int(value)))

    def write(self, text: str) -> None:
        if text.strip():
            self.record(*text.split())

    def loop(self, loop: Loop, value: Any) -> Any:
        def body(i: Any, v: Any) -> Any:
            return self.body(loop.body, (v + i) % 101)

        if loop.kind == "scan":
            return jax.lax.scan(lambda v, i: (body(i, v), None), value, jnp.arange(loop.length))[0]
        if loop.kind == "bounded":
            return jax.lax.fori_loop(0, loop.length, body, value)
        if loop.kind == "fori":
            # A bound that the program computes.
            return jax.lax.fori_loop(0, loop.length + 0 * value, body, value)
        return jax.lax.while_loop(
            lambda state: state[0] < loop.length,
            lambda state: (state[0] + 1, body(*state)),
            (jnp.int64(0), value),
        )[1]

    def branch(self, branch: Branch, value: Any) -> Any:
        def taking(body: tuple[Any, ...]) -> Any:
            return lambda v: self.body(body, v)

        branches = [taking(body) for body in branch.bodies]
        if len(branches) == 2:
            return jax.lax.cond(value % 2 == 0, *branches, value)
        return jax.lax.switch(value % len(branches), branches, value)

    def function(self, function: Function, value: Any) -> Any:
        wrap = {"jit": jax.jit, "checkpoint": jax.checkpoint}[function.kind]
        return wrap(lambda v: self.body(function.body, v))(value)


def assert_events_come_as_in_plain_python(program: Any, start: int, form: Any) -> None:
    traced = Traced()
    run = form(lambda value: traced.body(program, value))
    for value in (start, start + 1):
        expected: list[tuple[int, int]] = []
        result = python(program, value, expected)
        traced.events.clear()
        with contextlib.redirect_stdout(io.TextIOBase()) as stream:
            stream.write = traced.write
            assert int(run(jnp.int64(value))) == result
        assert traced.events == expected


@pytest.mark.large
@settings(max_examples=40)
@given(OF_JIT, st.integers(0, 100), st.sampled_from([bellhop.qjit, jax.jit]))
def test_events_come_as_in_plain_python(program, start, form):
    assert_events_come_as_in_plain_python(program, start, form)


@pytest.mark.large
@settings(max_examples=40)
@given(OF_QJIT, st.integers(0, 100))
def test_events_of_every_kind_come_as_in_plain_python(program, start):
    """In a qjit program, callbacks that have no order elsewhere have that of the program."""
    assert_events_come_as_in_plain_python(program, start, bellhop.qjit)
