"""What tests of bars share."""

import threading

import pytest
from tests.frontend.progress_bars.bars import lines
from tests.patience import wait_until

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
