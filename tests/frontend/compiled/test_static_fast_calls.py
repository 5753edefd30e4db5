"""Calls with static arguments run no Python of Bellhop's after the first one."""

import jax.numpy as jnp
import pytest

import bellhop


def count_slow_calls(function, monkeypatch):
    seen = []
    call = type(function)._call_slow_path

    def count(self, begun, failed, args, kwargs):
        seen.append((args, kwargs))
        return call(self, begun, failed, args, kwargs)

    monkeypatch.setattr(type(function), "_call_slow_path", count)
    return seen


def test_each_form_of_static_arguments_has_fast_calls(monkeypatch):
    function = bellhop.qjit(
        lambda x, n, *, y=1.0, mode="plus": n * x + (y if mode == "plus" else -y),
        static_argnums=1,
        static_argnames="mode",
    )
    x = jnp.asarray(2.0)
    forms = {
        6 + 1: lambda: function(x, 3),
        8 + 1: lambda: function(x, n=4),
        8 - 1: lambda: function(x, 4, mode="minus"),
        4 - 5: lambda: function(x, n=2, mode="minus", y=5.0),
        2 + 1: lambda: function(x, True),
    }
    assert [call() for call in forms.values()] == [*forms]
    for call in forms.values():
        call()
    slow = count_slow_calls(function, monkeypatch)
    assert [call() for call in forms.values()] == [*forms]
    assert not slow
    # Another type of an equal value is another program.
    assert function(x, 3.0) == 7
    assert len(slow) == 1


def test_an_unhashable_static_argument_is_named_in_later_calls():
    function = bellhop.qjit(lambda x, n: x * len(n), static_argnames="n")
    for _ in range(3):
        assert function(2.0, (1, 2)) == 4
    with pytest.raises(ValueError, match="the static argument 1 is of type list, which cannot"):
        function(2.0, [1, 2])


def test_a_mutated_static_argument_is_another_one():
    class Setting:
        def __init__(self, value):
            self.value = value

        def __hash__(self):
            return hash(self.value)

        def __eq__(self, other):
            return self.value == other.value

    function = bellhop.qjit(lambda x, s: x * s.value, static_argnums=1)
    setting = Setting(2)
    for _ in range(3):
        assert function(1.0, setting) == 2
    setting.value = 5
    assert function(1.0, setting) == 5
    function.clear_cache()
    assert function(1.0, setting) == 5
