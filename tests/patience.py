"""Waiting in tests for what must come, however slow or busy the machine is."""

import faulthandler
import tempfile
import threading
import time
from collections.abc import Callable, Iterable

# Seconds. Only a test that fails waits so long.
PATIENCE = 300.0


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until a condition holds, and fail where it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def join(threads: Iterable[threading.Thread], seconds: float = PATIENCE) -> None:
    """Wait until threads have ended; fail where one hangs, with where each of the process is."""
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        assert not thread.is_alive(), f"{thread.name} hangs\n{_stacks()}"


def _stacks() -> str:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read()


def run_at_once(*works: Callable[[], object]) -> None:
    """Run functions, each in a thread of its own, and raise what the first of them raised."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    # Those that hang do not keep the process.
    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    join(threads)
    if errors:
        raise errors[0]
