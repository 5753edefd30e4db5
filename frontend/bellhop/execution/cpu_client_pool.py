"""Additional CPU clients, for more concurrent programs than JAX's client runs.

JAX's CPU client runs 32 programs concurrently; further programs wait. A program whose callback
calls programs waits for them. So a chain of 33 programs, or 32 threads whose callbacks use JAX,
would deadlock. If `RUNS_PER_CLIENT` programs are running, further programs run on additional
clients.
"""

import contextlib
import threading
from collections.abc import Iterator

import jax

from bellhop._jax.private import make_cpu_client

# The rest of the 32 is reserved for JAX code in callbacks.
RUNS_PER_CLIENT = 24


class _Client:
    """An additional CPU client of JAX, which lives until the process ends.

    `borrow_spare_device` makes it if all earlier additional clients are busy.

    Attributes:
        device: the client's only device.
        runs: number of programs that run on it.
    """

    def __init__(self) -> None:
        self.device = make_cpu_client().local_devices()[0]
        self.runs = 0


_clients: list[_Client] = []
_clients_lock = threading.Lock()


@contextlib.contextmanager
def borrow_spare_device() -> Iterator[jax.Device]:
    """Yield an additional CPU device that has capacity for an execution in the block.

    Up to `RUNS_PER_CLIENT` blocks share a device. A new CPU client is created if no additional
    client has capacity, and kept until the process ends.
    """
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
