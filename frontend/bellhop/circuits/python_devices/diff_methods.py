"""How PennyLane differentiates a circuit on a device: ``diff_method``, asked for or the best."""

from typing import Any

import jax.numpy as jnp
from pennylane.devices import ExecutionConfig

from bellhop.circuits.python_devices.called_circuit import Circuit
from bellhop.errors import DifferentiableCompileError

# What devices compute by themselves, and once.
_OF_DEVICES = ("adjoint", "device")
# Of no use a second time: the errors of the first one would be divided by a small number.
_ONCE = ("finite-diff", "spsa")


def method_of_order(circuit: Circuit, order: int) -> Any:
    """Return PennyLane's ``diff_method`` for derivatives of a circuit of some order.

    Raises:
        DifferentiableCompileError: names the QNode, where there is none.
    """
    for result in circuit.results:
        if not (result.has_shift_rule and jnp.issubdtype(result.dtype, jnp.floating)):
            raise _error(
                circuit,
                f"it returns {type(result.process).__name__} and is differentiated, which the "
                f"device {circuit.device.name} cannot be asked for",
                "Differentiate a QNode that returns expval, var and probs alone.",
            )
    asked = circuit.qnode.diff_method
    if asked is None:
        raise _error(circuit, "it is differentiated, and its diff_method is None", "Set another.")
    if asked == "backprop":
        raise _error(
            circuit,
            f"it is differentiated, and diff_method='backprop' goes through {circuit.device.name}, "
            "which runs outside of the program",
            "Use diff_method='best' or 'parameter-shift'.",
        )
    method = _of_device(circuit, asked)
    if order == 1 or method not in (*_OF_DEVICES, *_ONCE):
        return method
    if asked == "best":
        return "parameter-shift"
    raise _error(
        circuit,
        f"it is differentiated more than once, and diff_method='{asked}' does so once",
        "Use diff_method='parameter-shift'.",
    )


def _of_device(circuit: Circuit, asked: Any) -> Any:
    """Return the device's own method where it is meant, and what was asked for where it is not.

    Raises:
        DifferentiableCompileError: for a method that the device does not have.
    """
    if asked not in ("best", *_OF_DEVICES):
        return asked
    device, tape = circuit.device, circuit.template.tape(circuit.placeholders())
    # The best may be to differentiate what the device computes, which is not in the program.
    for method in (asked, "device") if asked == "best" else (asked,):
        config = ExecutionConfig(gradient_method=method, interface="autograd")
        if device.supports_derivatives(config, tape):
            found = device.setup_execution_config(config, tape).gradient_method
            if found in _OF_DEVICES:
                return found
    if asked == "best":
        return "parameter-shift"
    raise _error(
        circuit,
        f"it is differentiated, and {circuit.device.name} has no diff_method='{asked}' for it",
        "Use diff_method='best' or 'parameter-shift'.",
    )


def _error(circuit: Circuit, what: str, instead: str) -> DifferentiableCompileError:
    return DifferentiableCompileError(f"{circuit.where}: {what}. {instead}")
