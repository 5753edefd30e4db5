"""What tests on a GPU take: the device, what crossed to it, and delays.

::

    @pytest.mark.gpu
    def test_one_crossing_each_way(counts):
        f = bellhop.qjit(bellhop.accelerate(jnp.sin, dev="gpu"))
        f(X)
        with counts() as counted:
            f(X)
        assert counted == Counts(executions=1, to_device=1, to_host=1)
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields

import jax
import pytest
from tests.needs import STANDIN


@dataclass
class Counts:
    """What happened on all devices of the stand-in; bytes are compared by those who want to.

    Attributes:
        executions: programs that ran.
        to_device: copies from the host.
        to_host: copies to the host.
        between_devices: copies from one device to another.
        compilations: programs that were compiled.
        to_device_bytes: the size of the copies from the host.
        to_host_bytes: the size of the copies to the host.
    """

    executions: int = 0
    to_device: int = 0
    to_host: int = 0
    between_devices: int = 0
    compilations: int = 0
    to_device_bytes: int = field(default=0, compare=False)
    to_host_bytes: int = field(default=0, compare=False)


def _plugin():
    # Not importable where JAX has another GPU.
    try:
        from jax_plugins import standin
    except ImportError:
        STANDIN.skip()
    return standin


@pytest.fixture
def gpu() -> jax.Device:
    """Return the first GPU, whether it is JAX's default device or not."""
    return jax.devices("gpu")[0]


@pytest.fixture
def counts() -> Callable[[], contextlib.AbstractContextManager[Counts]]:
    """Count what happens in a ``with`` block; its ``Counts`` are whole once it is over."""
    plugin = _plugin()

    @contextlib.contextmanager
    def counting() -> Iterator[Counts]:
        counted, before = Counts(), plugin.counts()
        yield counted
        after = plugin.counts()
        for each in fields(Counts):
            setattr(counted, each.name, after[each.name] - before[each.name])

    return counting


@pytest.fixture
def delay():
    """Delay copies, ``delay(to_host=20, to_device=5)`` by so many milliseconds each."""
    plugin = _plugin()
    yield plugin.delay
    plugin.delay(to_device=0, to_host=0)


@pytest.fixture
def busy() -> Callable[[jax.Array, float], jax.Array]:
    """Keep the device of a program busy: ``busy(x, milliseconds)`` is ``x``, but later.

    It works in programs for the stand-in and the CPU, on arrays of floating-point numbers.
    """
    return _plugin().busy
