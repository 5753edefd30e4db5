"""The options that accelerate shares with jax.jit, and what runs leave behind."""

import dataclasses
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.memory import needs_private_bytes, private_bytes

import bellhop


def test_static_arguments_by_number(on):
    f = on(lambda x, power, mode: x**power if mode == "power" else -x, static_argnums=(1, 2))
    assert bellhop.qjit(lambda x: f(x, 3, "power") + f(x, 3, "other"))(2.0) == 6.0
    assert f(2.0, 3, "power") == 8.0


def test_static_arguments_by_name(on):
    def f(x, *, repeat):
        return sum(x * i for i in range(repeat))

    g = on(f, static_argnames="repeat")
    assert bellhop.qjit(lambda x: g(x, repeat=4))(1.0) == 6.0
    assert bellhop.qjit(jax.grad(lambda x: g(x, repeat=4)))(1.0) == 6.0


def test_decorator_with_options(dev):
    @bellhop.accelerate(dev=dev, static_argnames=("negate",))
    def f(x, negate=False):
        return -x if negate else x

    assert bellhop.qjit(lambda x: f(x, negate=True) * f(x))(3.0) == -9.0


def test_method(dev):
    traces = []

    class Model:
        def __init__(self, scale):
            self.scale = scale

        @bellhop.accelerate(dev=dev, static_argnames="shift")
        def apply(self, x, shift=0):
            traces.append(self.scale)
            return self.scale * x + shift

    models = [Model(2.0), Model(3.0)]
    f = bellhop.qjit(lambda x: models[0].apply(x) + models[1].apply(x, shift=1))
    assert f(1.0) == 6.0
    assert bellhop.qjit(jax.grad(lambda x: models[1].apply(x)))(1.0) == 3.0
    for first in (True, False):
        traces.clear()
        calls = [models[0].apply(2.0), models[0].apply(3.0), models[1].apply(2.0)]
        assert calls == [4.0, 6.0, 6.0]
        # Where JAX's default device is a GPU, it is another one than in a program of ours.
        is_other = first and jax.default_backend() != "cpu"
        assert len(traces) == len(models) * is_other, "traced once for each instance"
    references = [weakref.ref(model) for model in models]
    models.clear()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_method_of_an_instance_that_nobody_else_keeps(dev):
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @bellhop.accelerate(dev=dev)
        def apply(self, x):
            """Scale."""
            return self.scale * x

    assert Model(2.0).apply(3.0) == 6.0
    assert bellhop.qjit(lambda x: Model(2.0).apply(x))(3.0) == 6.0
    apply = Model(4.0).apply
    gc.collect()
    assert jax.grad(apply)(3.0) == 4.0
    assert (apply.__name__, apply.__doc__) == ("apply", "Scale.")


def test_method_of_a_pytree_takes_the_instance_as_an_argument(dev):
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Model:
        scale: jax.Array

        @bellhop.accelerate(dev=dev)
        def apply(self, x):
            return self.scale * x

    f = bellhop.qjit(jax.grad(lambda scale: Model(scale).apply(3.0)))
    assert f(2.0) == 3.0


def test_unknown_option_is_an_error():
    with pytest.raises(TypeError, match=r"no options device, static, .*donate_argnums"):
        bellhop.accelerate(jnp.sin, static=1, device="cpu")


def test_donated_argument_of_a_call_on_its_own(dev):
    f = bellhop.accelerate(lambda x, y: x + y, dev=dev, donate_argnums=0)
    device = jax.devices(dev.split(":")[0])[int(dev[-1])]
    x, y = (jax.device_put(jnp.ones(1000), device) for _ in range(2))
    np.testing.assert_array_equal(f(x, y), 2 * np.ones(1000))
    assert x.is_deleted()
    assert not y.is_deleted()


def test_donated_argument_in_a_program_leaves_the_callers_array(on):
    f = on(lambda x: 2 * x, donate_argnums=0)
    g = bellhop.qjit(lambda x: f(x) + x)
    x = jnp.ones(100_000)
    for _ in range(2):
        np.testing.assert_array_equal(g(x), 3 * np.ones(100_000))
    assert not x.is_deleted()


@needs_private_bytes
def test_memory_is_flat_over_ten_thousand_runs(other):
    small = bellhop.qjit(lambda x: bellhop.accelerate(jnp.sin, dev=other)(x))
    large = bellhop.qjit(lambda x: bellhop.accelerate(lambda v: v * 2, dev=other)(x))
    x = np.ones(100_000)

    def run(times):
        for _ in range(10 * times):
            small(1.0)
        for _ in range(times):
            large(x)
        gc.collect()

    run(100)
    arrays, memory = len(jax.live_arrays()), private_bytes()
    run(1000)
    assert len(jax.live_arrays()) == arrays
    # One kept array of each large run would be 800 MB.
    assert private_bytes() - memory < 40_000_000
