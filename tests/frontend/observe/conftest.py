"""What tests of bars and of profiles share."""

import threading

import pytest
from tests.frontend.observe.bars import lines
from tests.patience import wait_until

from bellhop.compiler.instruments import observers
from bellhop_runtime import look_at_bars, wait_for_taps


@pytest.fixture
def shown(capfd):
    """Return what was shown so far, when nothing is being shown any more."""

    def read(wait=False):
        if wait:
            # Outside qjit nobody waits for the thread that shows bars.
            wait_until(lambda: not _watchers())
        return lines(capfd.readouterr().err)

    yield read
    assert look_at_bars() == []


def _watchers():
    wait_for_taps()
    return [thread for thread in threading.enumerate() if thread.name == "bellhop_progress"]


@pytest.fixture(autouse=True)
def _nobody_is_left():
    yield
    assert observers == []
