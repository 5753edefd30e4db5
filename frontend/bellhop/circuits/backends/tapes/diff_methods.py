"""How PennyLane differentiates a circuit on a device: ``diff_method``, asked for or the best."""

from collections.abc import Collection
from typing import Any

import jax.numpy as jnp
import pennylane as qml
from pennylane.devices import ExecutionConfig

from bellhop.circuits.backends.tapes.circuit_function import CircuitFunction
from bellhop.errors import DifferentiableCompileError

# What devices compute by themselves, and once.
_OF_DEVICES = ("adjoint", "device")
# Of no use a second time: the errors of the first one would be divided by a small number.
_ONCE = ("finite-diff", "spsa")
# PennyLane through autograd loses the third derivative: it comes out zero.
_HIGHEST_ORDER = 2


def method_of_order(circuit: CircuitFunction, order: int, by: Collection[int]) -> Any:
    """Return PennyLane's ``diff_method`` for derivatives of some order by some operands.

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
    asked = circuit.config.pennylane_diff_method
    if asked is None:
        raise _error(circuit, "it is differentiated, and its diff_method is None", "Set another.")
    if asked == "backprop":
        raise _error(
            circuit,
            f"it is differentiated, and diff_method='backprop' goes through {circuit.device.name}, "
            "which runs outside of the program",
            "Use diff_method='best' or 'parameter-shift'.",
        )
    if asked in ("hadamard", qml.gradients.hadamard_grad):
        _check_hadamard(circuit, order)
    if order > _HIGHEST_ORDER:
        raise _error(
            circuit,
            f"it is differentiated {order} times, and PennyLane differentiates what it runs on "
            f"{circuit.device.name} twice at most",
            "Use lightning.qubit or default.qubit, or jax.custom_jvp with a rule of your own.",
        )
    method = _of_device(circuit, asked)
    if order == 1:
        return method
    if asked == "best":
        method = "parameter-shift"
    if method not in (*_OF_DEVICES, *_ONCE):
        if method == "parameter-shift":
            _check_shift_rules(circuit, by)
        return method
    raise _error(
        circuit,
        f"it is differentiated more than once, and diff_method='{asked}' does so once",
        "Use diff_method='parameter-shift'.",
    )


def _check_shift_rules(circuit: CircuitFunction, by: Collection[int]) -> None:
    """Raise for an operation that shifts differentiate by finite differences, which do so once."""
    for part in circuit.template.parts:
        if getattr(part.made, "grad_method", None) == "F" and not set(by).isdisjoint(part.operands):
            raise _error(
                circuit,
                f"it is differentiated more than once, and {part.made.name} has no parameter-shift "
                "rule: PennyLane would take finite differences of finite differences",
                "Use operations that have one.",
            )


def _check_hadamard(circuit: CircuitFunction, order: int) -> None:
    """Raise for what PennyLane's Hadamard tests do not differentiate."""
    if any(isinstance(r.process, qml.measurements.VarianceMP) for r in circuit.results):
        raise _error(
            circuit,
            "it measures var and is differentiated by diff_method='hadamard', which Hadamard tests "
            "do not",
            "Measure qml.expval of the observable and of its square.",
        )
    mode = circuit.config.gradient_kwargs.get("mode", "standard")
    if order > 1 and "direct" not in mode:
        raise _error(
            circuit,
            f"it is differentiated more than once by diff_method='hadamard' in its mode '{mode}'",
            "Use gradient_kwargs={'mode': 'direct'}, or diff_method='parameter-shift'.",
        )


def _of_device(circuit: CircuitFunction, asked: Any) -> Any:
    """Return the device's own method where it is meant, and what was asked for where it is not.

    Raises:
        DifferentiableCompileError: for a method that the device does not have.
    """
    if asked not in ("best", *_OF_DEVICES):
        return asked
    device, tape = circuit.device, circuit.example()
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


def _error(circuit: CircuitFunction, what: str, instead: str) -> DifferentiableCompileError:
    return DifferentiableCompileError(f"{circuit.where}: {what}. {instead}")
