"""What crosses to a device and back, and how often; counted where regions are launched."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop
from bellhop.compiler.regions import Region

X = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def moved(monkeypatch):
    """Record the shapes that each launch takes to the device and brings back."""
    seen = []
    original = Region.launch

    def launch(self, arguments):
        results = original(self, arguments)
        seen.append(([np.shape(x) for x in arguments], [np.shape(r) for r in results]))
        return results

    monkeypatch.setattr(Region, "launch", launch)
    return seen


def on_device(function, dev="cpu:1"):
    return bellhop.accelerate(function, dev=dev)


def wave(x):
    return jnp.sin(x) * 2 + 1


def test_chain_crosses_once_each_way(moved, other):
    f = on_device(wave, other)

    @bellhop.qjit
    def chain(x):
        for _ in range(10):
            x = f(x) * 0.5 + 0.25
        return x

    expected = X
    for _ in range(10):
        expected = (np.sin(expected) * 2 + 1) * 0.5 + 0.25
    np.testing.assert_allclose(chain(X), expected)
    assert moved == [([(2, 3)], [(2, 3)])]


def test_gradient_of_a_chain_crosses_once_each_way(moved):
    f = on_device(wave)
    loss = bellhop.qjit(jax.grad(lambda x: jnp.sum(f(f(f(x)) * 2.0))))
    reference = jax.grad(lambda x: jnp.sum(wave(wave(wave(x)) * 2.0)))
    np.testing.assert_allclose(loss(X), reference(X))
    assert moved == [([(2, 3)], [(2, 3)])]


def test_loop_keeps_its_carry_on_the_device(moved):
    f = on_device(wave)
    g = bellhop.qjit(lambda x: jax.lax.fori_loop(0, 100, lambda i, v: f(v) / 3, x))
    np.testing.assert_allclose(g(X), jax.lax.fori_loop(0, 100, lambda i, v: wave(v) / 3, X))
    assert moved == [([(2, 3)], [(2, 3)])]


def test_while_loop_with_a_region_in_its_condition(moved):
    f, total = on_device(wave), on_device(jnp.sum)
    g = bellhop.qjit(
        lambda x: jax.lax.while_loop(lambda v: total(v) < 1e3, lambda v: 2 * f(v) + v, x)
    )
    expected = X
    while expected.sum() < 1e3:
        expected = 2 * (np.sin(expected) * 2 + 1) + expected
    np.testing.assert_allclose(g(X), expected)
    assert moved == [([(2, 3)], [(2, 3)])]


def test_scan_takes_its_inputs_over_at_once(moved):
    f = on_device(lambda carry, x: carry * x + 1)
    g = bellhop.qjit(lambda xs: jax.lax.scan(lambda c, x: (f(c, x), c), 1.0, xs))
    last, all_ = g(np.arange(5.0))
    assert last == 65.0
    np.testing.assert_array_equal(all_, [1, 1, 2, 5, 16])
    assert moved == [([(5,)], [(), (5,)])]


def test_loop_that_also_prints_stays_in_the_program(moved, capsys):
    f = on_device(wave)

    def step(i, v):
        bellhop.debug.print("{}", i)
        return f(v)

    bellhop.qjit(lambda x: jax.lax.fori_loop(0, 3, step, x))(X)
    assert capsys.readouterr().out == "0\n1\n2\n"
    assert len(moved) == 3


CAPTURED = {
    "numpy": lambda: np.ones((300, 3)),
    "jax": lambda: jnp.ones((300, 3)),
    "broadcast": lambda: None,
}


@pytest.mark.parametrize("make", CAPTURED.values(), ids=CAPTURED)
def test_captured_weights_do_not_cross_at_each_call(moved, make):
    weights = make()

    def f(x):
        w = jnp.full((300, 3), 1.0) if weights is None else weights
        return on_device(lambda x, w: x @ w.T)(x, w)

    g = bellhop.qjit(f)
    for _ in range(3):
        np.testing.assert_allclose(g(X), X @ np.ones((3, 300)))
    assert [arguments for arguments, _ in moved] == [[(2, 3)]] * 3


def test_captured_weights_of_a_gradient_do_not_cross(moved):
    weights = jnp.asarray(np.arange(9.0).reshape(3, 3))
    f = on_device(lambda x: jnp.sum(jnp.sin(x @ weights)))
    np.testing.assert_allclose(
        bellhop.qjit(jax.grad(f))(X), jax.grad(lambda x: jnp.sum(jnp.sin(x @ weights)))(X)
    )
    assert moved == [([(2, 3)], [(2, 3)])]


def test_constants_of_every_kind(moved):
    f = on_device(lambda *xs: jnp.stack([jnp.real(x).astype(float) for x in xs]))
    g = bellhop.qjit(
        lambda x: f(x, 1, True, 2.5, 3j, jnp.bfloat16(2), np.uint8(4), jnp.full((), 3))
    )
    np.testing.assert_array_equal(g(7.0), [7, 1, 1, 2.5, 0, 2, 4, 3])
    assert moved == [([()], [(8,)])]


def test_regions_of_two_devices_stay_apart(moved):
    f, g = on_device(wave), bellhop.accelerate(wave, dev=["cpu:0", "cpu:1"])
    h = bellhop.qjit(lambda x: f(g(f(x))))
    np.testing.assert_allclose(h(X), wave(wave(wave(X))))
    assert len(moved) == 3


def test_independent_regions_share_a_call(moved):
    f, g = on_device(wave), on_device(jnp.cos)
    np.testing.assert_allclose(bellhop.qjit(lambda x: f(x) + g(x))(X), wave(X) + np.cos(X))
    assert moved == [([(2, 3)], [(2, 3)])] or moved == [([(2, 3)], [(2, 3), (2, 3)])]


def test_results_are_not_views_of_the_device(moved):
    """A result stays as it is when the region runs again, whatever memory it uses."""
    g = bellhop.qjit(lambda x: on_device(lambda x: x * 2)(x))
    large = np.ones((512, 512))
    first = g(large)
    second = g(2 * large)
    np.testing.assert_array_equal(first, 2 * large)
    np.testing.assert_array_equal(second, 4 * large)
