"""What crosses to a device and back where values stay there: the least possible, counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.compiler import regions
from bellhop_runtime import pending_regions

WEIGHTS = np.arange(4.0).reshape(2, 2) / 3
STEPS = 5


@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(x, 0)
    return qml.expval(qml.Z(0))


def layer(w, x):
    return jnp.tanh(w @ jnp.stack([x, x])).sum()


def update(w, y):
    return w - 0.1 * y * jnp.cos(w)


def loop(on, circuit, w):
    f = on(layer)
    return jax.lax.fori_loop(0, STEPS, lambda i, x: circuit(f(w, x)), 0.5)


def descent(on, circuit, w):
    f, g = on(layer), on(update)
    return jax.lax.fori_loop(0, STEPS, lambda i, w: g(w, circuit(f(w, 0.5))), w)


def nested(on, circuit, w):
    f, g = on(layer), on(update)

    def epoch(i, w):
        x = jax.lax.fori_loop(0, 2, lambda j, x: circuit(f(w, x)), 0.5)
        return g(w, x)

    return jax.lax.fori_loop(0, STEPS, epoch, w)


def conditional(on, circuit, w):
    f = on(layer)

    def step(i, x):
        return jax.lax.cond(x > 0.3, lambda: circuit(f(w, x)), lambda: circuit(x))

    return jax.lax.fori_loop(0, STEPS, step, 0.5)


def later(on, circuit, w):
    f, g = on(lambda w: (jnp.sin(w), jnp.sum(w))), on(lambda s, y: jnp.sum(s * y))
    s, total = f(w)
    return g(s, circuit(total)) + jnp.sum(s)


def known(on, circuit, w):
    """The region says nothing of the loop's results, which XLA knows before."""
    f = on(layer)

    def step(i, count):
        bellhop.pure_callback(lambda y: y, float)(f(w, 0.1 * i))
        bellhop.debug.callback(lambda y: None, f(w, 0.1 * i) * circuit(0.3))
        return count + 1

    return jax.lax.fori_loop(0, STEPS, step, 0)


def loops(on, circuit, w):
    """Two loops, which use what a region kept and carry on what one another leave."""
    f, g = on(layer), on(lambda w, x, s: (update(w, x), jnp.sin(s) + w))
    s = on(jnp.cos)(w)

    def step(i, state):
        w, x = state
        w, _ = g(w, x, s)
        return w, circuit(f(w, x))

    w, x = jax.lax.fori_loop(0, STEPS, step, (w, 0.5))
    w, x = jax.lax.fori_loop(0, STEPS, step, (w, x))
    return f(w, x)


def called_twice(on, circuit, w):
    f = jax.jit(lambda w, x: on(layer)(w, x))
    return f(w, circuit(f(w, 0.5)))


# What goes there, what comes back, and what runs there.
PROGRAMS = {
    "around a circuit": (lambda on, c, w: on(layer)(w, c(on(layer)(w, 0.5))), (2, 2, 2)),
    "result for later": (later, (2, 3, 2)),
    "gradient": (
        lambda on, c, w: jax.grad(lambda w: c(on(layer)(w, 0.5)))(w),
        (2, 2, 2),
    ),
    "loop": (loop, (1 + STEPS, STEPS, STEPS)),
    "descent": (descent, (1 + STEPS, STEPS + 1, 2 * STEPS)),
    "nested loops": (nested, (1 + 3 * STEPS, 2 * STEPS + 1, 3 * STEPS)),
    "two loops": (loops, (2 + 2 * STEPS, 1 + 2 * STEPS, 2 + 2 * STEPS)),
    "function of JAX's": (called_twice, (2, 2, 2)),
    "known loop": (known, (1 + STEPS, STEPS, STEPS)),
}


def plain(x):
    return jnp.cos(x)


@pytest.mark.parametrize(("function", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_values_are_those_of_jax(function, expected):
    program = bellhop.qjit(
        lambda w: function(lambda f: bellhop.accelerate(f, dev="cpu:1"), circuit, w)
    )
    for _ in range(2):
        np.testing.assert_allclose(
            program(WEIGHTS), function(lambda f: f, plain, WEIGHTS), rtol=1e-7
        )
        assert pending_regions() == 0


@pytest.mark.gpu
@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize(("function", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_nothing_crosses_that_need_not(function, expected, platform, gpu, counts):
    program = bellhop.qjit(lambda w: function(lambda f: bellhop.accelerate(f, dev=gpu), circuit, w))
    w = jax.device_put(WEIGHTS, jax.devices(platform)[0])
    value = jax.block_until_ready(program(w))
    with counts() as counted:
        jax.block_until_ready(program(w))
    # The weights are there already, or go there once.
    to_device, *others = expected
    least = to_device - (platform == "gpu"), *others
    assert (counted.to_device, counted.to_host, counted.executions) == least
    with jax.default_device(jax.devices("cpu")[0]):
        np.testing.assert_allclose(value, function(lambda f: f, plain, WEIGHTS), rtol=1e-7)
    assert pending_regions() == 0


def test_conditional_in_a_loop():
    def on(f):
        return bellhop.accelerate(f, dev="cpu:1")

    program = bellhop.qjit(lambda w: conditional(on, circuit, w))
    np.testing.assert_allclose(program(WEIGHTS), conditional(lambda f: f, plain, WEIGHTS))
    assert pending_regions() == 0


def test_loop_without_an_iteration():
    f = bellhop.accelerate(layer, dev="cpu:1")
    program = bellhop.qjit(lambda w, n: jax.lax.fori_loop(0, n, lambda i, x: circuit(f(w, x)), 0.5))
    assert program(WEIGHTS, 0) == 0.5
    assert pending_regions() == 0


def test_keys_are_no_handles():
    """A key is as large as a handle, and of its type."""
    f = bellhop.accelerate(lambda k, x: x + jax.random.uniform(k), dev="cpu:1")

    def loop(f, circuit, k):
        return jax.lax.fori_loop(0, 3, lambda i, x: circuit(f(k, x)), 0.5)

    key = jax.random.key(3)
    value = bellhop.qjit(lambda k: loop(f, circuit, k))(key)
    np.testing.assert_allclose(value, loop(lambda k, x: x + jax.random.uniform(k), plain, key))


def test_exception_lets_go_of_what_is_on_devices():
    raises = [True]

    @bellhop.pure_callback
    def sometimes(x) -> float:
        if raises[0]:
            raise LookupError("beside")
        return float(x)

    f = bellhop.accelerate(layer, dev="cpu:1")
    program = bellhop.qjit(
        lambda w: jax.lax.fori_loop(0, 3, lambda i, x: sometimes(circuit(f(w, x))), 0.5)
    )
    for _ in range(2):
        with pytest.raises(LookupError, match="beside"):
            program(WEIGHTS)
        assert pending_regions() == 0
    raises[0] = False
    np.testing.assert_allclose(program(WEIGHTS), program(WEIGHTS))


def test_transfers_compute_nothing():
    """A loop's weights cross by themselves: only the region is compiled."""
    compiled = []
    original = regions._compile

    def counted(region, arguments):
        compiled.append(len(arguments))
        return original(region, arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regions, "_compile", counted)
        on = lambda f: bellhop.accelerate(f, dev="cpu:1")  # noqa: E731
        bellhop.qjit(lambda w: loop(on, circuit, w))(WEIGHTS)
    assert len(compiled) == 1


def test_values_that_a_loop_takes_from_outside_are_there_until_it_is_over():
    @bellhop.qjit
    def f(x):
        @qml.qnode(qml.device("default.qubit", wires=2), shots=2000)
        def shots(y):
            z = bellhop.accelerate(lambda _: y, dev="cpu:1")(x)
            qml.RX(y, 0)
            qml.RY(0.83, 0)
            outcome = bellhop.measure(0)
            bellhop.cond(outcome, lambda: qml.ctrl(qml.RY, control=1)(z, wires=0))()
            bellhop.measure(0, postselect=0)
            return qml.probs(wires=1)

        return shots(jnp.cos(x))

    # Both x and y go to the device before the loop over shots.
    np.testing.assert_array_equal(f(0.5), [1, 0])
