"""Give each concurrent call of a Lightning device its own state vector.

A Lightning device keeps its state vector between calls, and each circuit resets it first.  So two
threads that call one device share one state, and their values and gradients are silently wrong.
JAX calls PennyLane from one thread for each device where ``jax.shard_map`` maps a plain QNode, and
any threads will do::

    import sys, threading
    import numpy as np, pennylane as qml

    sys.setswitchinterval(1e-6)  # switch threads often; a batch on several cores needs no switches
    device = qml.device("lightning.qubit", wires=1)

    def work(angle):
        tape = qml.tape.QuantumScript([qml.RX(angle, 0)], [qml.expval(qml.Z(0))])
        values = [device.execute([tape])[0] for _ in range(1000)]
        print(np.sum(np.abs(values - np.cos(angle)) > 1e-9), "of 1000 are wrong")

    for angle in (0.1, 0.7, 1.9):
        threading.Thread(target=work, args=(angle,)).start()

A call removes the state from the device and restores it at the end: a concurrent call finds no
state and creates one.

Not repaired: PennyLane keeps results and Jacobians of QNodes that it differentiates in an LRU cache
that is not safe for threads.  Two threads that evict the same entry raise a ``KeyError``.

Replaced: the methods of Lightning devices that run circuits.
Versions: 0.45 of Lightning; other versions are not patched.
Upstream: a state for each call, or a lock, in Lightning.
Issue: none reported.
Installed: when both bellhop and Lightning are imported, even without a Bellhop program.
Test: ``test_threads_of_lightning.py``.
"""

import copy
import functools
import importlib.metadata
from collections.abc import Callable
from typing import Any

from bellhop._patching import call_when_imported, patch, replace
from bellhop._versions import is_supported

_LIGHTNING = "pennylane_lightning.lightning_base.lightning_base"
# The state of the last circuit, and the states by circuit from which ``device_vjp`` starts.
_STATES = ("_statevector", "_intermediate_states")
_METHODS = (
    "execute",
    "compute_derivatives",
    "execute_and_compute_derivatives",
    "compute_vjp",
    "execute_and_compute_vjp",
)


def separate_states() -> None:
    """Give each concurrent call of a Lightning device its own state vector.

    Lightning is patched now if it is imported already, and otherwise when it is imported. Versions
    that Bellhop does not support are not patched.
    """
    call_when_imported(_LIGHTNING, _separate_lightning_states)


def _separate_lightning_states(lightning: Any) -> None:
    """Patch Lightning's base class if Lightning is installed in a supported version.

    Args:
        lightning: the module ``lightning_base``, which Python has just imported.
    """
    package = "pennylane-lightning"
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return
    if is_supported(package, version):
        _replace_methods(lightning.LightningBase)


@patch("methods of Lightning's devices", "concurrent calls have separate states")
def _replace_methods(base: Any) -> None:
    """Give concurrent calls of a Lightning device's methods separate state vectors.

    `_wrap_method` wraps the methods that run circuits: in ``LightningBase``, in its present direct
    subclasses, and in all subclasses defined later.

    Args:
        base: the class ``LightningBase``.
    """
    init_subclass = base.__init_subclass__.__func__

    def wrap_subclass(cls: type, **kwargs: Any) -> None:
        """Wrap the methods that run circuits in a new subclass of ``LightningBase``.

        Python calls it for each new subclass: it replaces ``LightningBase.__init_subclass__``, and
        calls the original method first.
        """
        init_subclass(cls, **kwargs)
        _wrap_methods(cls, setattr)

    replace(base, "__init_subclass__", classmethod(wrap_subclass))
    for device in (base, *base.__subclasses__()):
        _wrap_methods(device, replace)


def _wrap_methods(device: type, set_method: Callable[[type, str, Any], None]) -> None:
    """Apply `_wrap_method` to a class's own methods that run circuits.

    Args:
        device: a class of Lightning devices.
        set_method: sets an attribute of the class, as ``setattr`` does.
    """
    for name in vars(device).keys() & _METHODS:
        set_method(device, name, _wrap_method(vars(device)[name]))


def _wrap_method(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a device method run on a copy of the device with its own state vector.

    Args:
        method: a method that runs circuits, such as ``execute``.
    """

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the method on a copy of the device, with the state taken from the device.

        A concurrent call finds no state on the device and creates one. The state is put back at the
        end.
        """
        # `dict.pop` is atomic, so two threads cannot get the same state; the second gets None.
        device, mine = copy.copy(self), vars(self)
        vars(device).update({name: mine.pop(name, None) for name in _STATES})
        try:
            return method(device, *args, **kwargs)
        finally:
            mine.update({name: vars(device)[name] for name in _STATES})

    return call
