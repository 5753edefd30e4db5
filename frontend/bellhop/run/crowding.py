"""Further CPU clients, for programs beyond the number that JAX's client runs at once.

JAX's CPU client runs 32 programs at once, and the next one waits.  A program whose callback calls
other programs runs until these are done.  So a chain of 33 of them, or 32 threads whose callbacks
use JAX, would wait for ever.  When a part of that number is running, further programs run on
clients of their own, as many as are needed.
"""

import threading

import jax

from bellhop._jax.private import make_cpu_client
from bellhop_runtime import runs_under_way

# The rest of the 32 is for what callbacks compute with JAX themselves.
RUNS_FOR_EACH_CLIENT = 24

_devices: list[jax.Device] = []
_making = threading.Lock()


def spare_device() -> jax.Device:
    """Return a CPU device with room for the run that began last."""
    place = (runs_under_way() - 1) // RUNS_FOR_EACH_CLIENT - 1
    while len(_devices) <= place:
        with _making:
            if len(_devices) <= place:
                _devices.append(make_cpu_client().local_devices()[0])
    return _devices[max(place, 0)]
