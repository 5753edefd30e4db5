"""The devices that the tests of accelerate run on."""

import pytest

import bellhop

# The program's own device, and a second CPU device that stands in for an accelerator.
DEVICES = ["cpu:0", "cpu:1"]


@pytest.fixture(
    params=[*DEVICES, pytest.param("gpu:0", marks=pytest.mark.gpu)],
)
def dev(request: pytest.FixtureRequest) -> str:
    """Name a device; a test that takes this runs once on each."""
    return request.param


@pytest.fixture(params=["cpu:1", pytest.param("gpu:0", marks=pytest.mark.gpu)])
def other(request: pytest.FixtureRequest) -> str:
    """Name a device that is not the program's own."""
    return request.param


@pytest.fixture
def on(dev: str):
    """Accelerate a function on the device of the test."""
    return lambda function, **options: bellhop.accelerate(function, dev=dev, **options)
