"""A state of its own for each call that Lightning is in.

A device of Lightning keeps its state vector between calls, and each circuit starts by resetting
it.  So two threads that call one device compute with one state, and values and gradients are wrong,
silently.  JAX calls PennyLane from a thread of each device where a plain QNode is mapped over
several by ``jax.shard_map``, and any threads will do::

    import sys, threading
    import numpy as np, pennylane as qml

    sys.setswitchinterval(1e-6)  # threads change places often; a batch on several cores needs none
    device = qml.device("lightning.qubit", wires=1)

    def work(angle):
        tape = qml.tape.QuantumScript([qml.RX(angle, 0)], [qml.expval(qml.Z(0))])
        values = [device.execute([tape])[0] for _ in range(1000)]
        print(np.sum(np.abs(values - np.cos(angle)) > 1e-9), "of 1000 are wrong")

    for angle in (0.1, 0.7, 1.9):
        threading.Thread(target=work, args=(angle,)).start()

A call takes the state with it, and puts it back at its end: one that comes meanwhile finds none,
and makes another.

Replaced: the methods of Lightning's devices that run circuits.
Versions: 0.45, of Lightning; others are left alone.
Upstream: the same, or a lock.
Installed: when both are imported, bellhop and Lightning: no program of ours need be there.
Test: ``test_threads_of_lightning.py``.
"""

import copy
import functools
import importlib.metadata
from collections.abc import Callable
from typing import Any

from bellhop._patching import call_when_imported, patch
from bellhop._versions import is_supported

_LIGHTNING = "pennylane_lightning.lightning_base.lightning_base"
# That of the last circuit, and by circuit those that ``device_vjp`` goes back from.
_STATES = ("_statevector", "_intermediate_states")
_METHODS = (
    "execute",
    "compute_derivatives",
    "execute_and_compute_derivatives",
    "compute_vjp",
    "execute_and_compute_vjp",
)


def separate_states() -> None:
    """Let no two calls of a device of Lightning share its state, from when it is imported."""
    call_when_imported(_LIGHTNING, _separate_lightning_states)


def _separate_lightning_states(lightning: Any) -> None:
    package = "pennylane-lightning"
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return
    if is_supported(package, version):
        _replace_methods(lightning.LightningBase)


@patch("methods of Lightning's devices", "calls of several threads have states of their own")
def _replace_methods(base: Any) -> None:
    of_subclass = base.__init_subclass__.__func__

    def with_own_states(cls: type, **kwargs: Any) -> None:
        of_subclass(cls, **kwargs)
        _give_own_states(cls)

    base.__init_subclass__ = classmethod(with_own_states)
    for device in (base, *base.__subclasses__()):
        _give_own_states(device)


def _give_own_states(device: type) -> None:
    for name in vars(device).keys() & _METHODS:
        setattr(device, name, _with_own_state(vars(device)[name]))


def _with_own_state(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Two threads cannot take one state: each finds what it pops, or None.
        device, mine = copy.copy(self), vars(self)
        vars(device).update({name: mine.pop(name, None) for name in _STATES})
        try:
            return method(device, *args, **kwargs)
        finally:
            mine.update({name: vars(device)[name] for name in _STATES})

    return call
