"""A GPU as JAX's default device: what its programs, and bellhop's beside them, run on."""

import jax
import pytest


@pytest.fixture(autouse=True)
def _gpu_by_default(gpu):
    with jax.default_device(gpu):
        yield


@pytest.fixture
def is_on_host():
    """Tell whether all arrays of a pytree are on the host, and committed to no device."""

    def are_there(tree):
        return all(
            device.platform == "cpu" and not leaf.committed
            for leaf in jax.tree.leaves(tree)
            for device in leaf.devices()
        )

    return are_there
