"""Decorators in a class: what they make is a method."""

import jax
import numpy as np
import pytest
from tests.needs import PYTORCH, params

import bellhop


class Oscillator:
    def __init__(self, frequency):
        self.frequency = frequency
        self.seen = []

    @bellhop.pure_callback
    def by_rules(self, x) -> float:
        """Return the sine."""
        return np.sin(self.frequency * x)

    @by_rules.fwd
    def by_rules_fwd(self, x):
        return self.by_rules(x), x

    @by_rules.bwd
    def by_rules_bwd(self, x, cotangent):
        return self.frequency * jax.numpy.cos(self.frequency * x) * cotangent

    @bellhop.pure_callback
    def by_jvp(self, x) -> float:
        return np.sin(self.frequency * x)

    @by_jvp.jvp
    def by_jvp_jvp(self, primals, tangents):
        (x,), (dx,) = primals, tangents
        return self.by_jvp(x), self.frequency * jax.numpy.cos(self.frequency * x) * dx

    @bellhop.pure_callback
    @staticmethod
    def static(x) -> float:
        return np.sin(x)

    @bellhop.io_callback
    def io(self, x) -> float:
        self.seen.append(x)
        return np.sin(self.frequency * x)

    @bellhop.io_callback(result_type=float, ordered=True)
    def ordered(self, x):
        self.seen.append(x)
        return np.sin(self.frequency * x)

    @bellhop.debug.callback
    def note(self, x):
        self.seen.append(x)


def class_with(name):
    """Return the class whose method has this name: only one needs PyTorch."""
    if name != "torch":
        return Oscillator

    class TorchOscillator(Oscillator):
        @bellhop.call_torch
        def torch(self, x):
            return (self.frequency * x).sin()

    return TorchOscillator


@pytest.mark.parametrize("where", [bellhop.qjit, jax.jit, lambda f: f])
@pytest.mark.parametrize(
    "name", params(["by_rules", "by_jvp", "io", "ordered", "torch"], {"torch": PYTORCH})
)
def test_each_instance_has_its_own(name, where):
    made_by = class_with(name)

    def f(x):
        return getattr(made_by(2.0), name)(x) + getattr(made_by(3.0), name)(x)

    np.testing.assert_allclose(where(f)(0.3), np.sin(0.6) + np.sin(0.9))


@pytest.mark.parametrize("name", params(["by_rules", "by_jvp", "torch"], {"torch": PYTORCH}))
def test_derivative_of_a_method(name):
    f = bellhop.qjit(bellhop.grad(getattr(class_with(name)(2.0), name)))
    np.testing.assert_allclose(f(0.3), 2 * np.cos(0.6))


@pytest.mark.parametrize("name", ["io", "ordered", "note"])
def test_effects_reach_the_instance(name):
    oscillator = Oscillator(2.0)
    f = bellhop.qjit(lambda x: (getattr(oscillator, name)(x), x)[1])
    f(0.5)
    f(1.5)
    assert oscillator.seen == [0.5, 1.5]


def test_static_methods_and_names_are_kept():
    assert Oscillator.static(0.5) == Oscillator(2.0).static(0.5) == np.sin(0.5)
    assert Oscillator(2.0).by_rules.__name__ == "by_rules"
    assert Oscillator(2.0).by_rules.__doc__ == "Return the sine."
    assert Oscillator(2.0).io.__name__ == "io"


def test_equal_calls_of_one_instance_are_one():
    calls = []

    class Counter:
        @bellhop.pure_callback
        def count(self, x) -> float:
            calls.append(x)
            return x

    counter = Counter()
    bellhop.qjit(lambda x: counter.count(x) + counter.count(x))(1.0)
    assert len(calls) == 1
