"""Further CPU clients, for programs beyond the number that JAX's client runs at once.

JAX's CPU client runs 32 programs at once, and the next one waits.  A program whose callback calls
other programs runs until these are done.  So a chain of 33 of them, or 32 threads whose callbacks
use JAX, would wait for ever.  When a part of that number is running, further programs run on
clients of their own, as many as are needed.
"""

import contextlib
import threading
from collections.abc import Iterator

import jax

from bellhop._jax.private import make_cpu_client

# The rest of the 32 is for what callbacks compute with JAX themselves.
RUNS_PER_CLIENT = 24


class _Client:
    def __init__(self) -> None:
        self.device = make_cpu_client().local_devices()[0]
        self.runs = 0


_clients: list[_Client] = []
_clients_lock = threading.Lock()


@contextlib.contextmanager
def borrow_spare_device() -> Iterator[jax.Device]:
    """Lend a CPU device with room for one more run."""
    with _clients_lock:
        client = next((each for each in _clients if each.runs < RUNS_PER_CLIENT), None)
        if client is None:
            client = _Client()
            _clients.append(client)
        client.runs += 1
    try:
        yield client.device
    finally:
        with _clients_lock:
            client.runs -= 1
