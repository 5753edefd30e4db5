"""Circuits have numbers of 64 bits, and none is left open."""

import jax
import pytest

import bellhop_runtime


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def nothing_left_open():
    yield
    assert bellhop_runtime.live_sessions() == 0
