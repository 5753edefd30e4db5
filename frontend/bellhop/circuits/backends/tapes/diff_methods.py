"""Choose PennyLane's ``diff_method`` for a circuit on a Python device."""

from collections.abc import Collection
from typing import Any

import jax.numpy as jnp
import pennylane as qml
from pennylane.devices import ExecutionConfig

from bellhop.circuits.backends.tapes.circuit_function import CircuitFunction
from bellhop.errors import DifferentiableCompileError

# Methods that the device implements, for first derivatives only.
_DEVICE_METHODS = ("adjoint", "device")
# Methods for first derivatives only: a second difference would divide the errors of the first one
# by a small number.
_FIRST_ORDER_METHODS = ("finite-diff", "spsa")
# PennyLane returns zero for third derivatives through autograd.
_MAX_ORDER = 2


def choose_method(circuit: CircuitFunction, order: int, operands: Collection[int]) -> Any:
    """Return PennyLane's ``diff_method`` for a derivative of a circuit's results.

    Args:
        circuit: the function that executes the circuit, with its settings and its template.
        order: the order of the derivative, 1 for a first derivative.
        operands: indices of the circuit's operands with respect to which it is differentiated.

    Raises:
        DifferentiableCompileError: if no method supports the derivative, or the QNode's
            ``diff_method`` does not.
    """
    for result in circuit.results:
        if not (result.has_shift_rule and jnp.issubdtype(result.dtype, jnp.floating)):
            raise _make_error(
                circuit,
                f"the circuit returns {type(result.process).__name__} and is differentiated, which "
                f"is not supported on {circuit.device.name}. Return only expval, var and probs "
                "from a QNode that is differentiated.",
            )
    _check_observables(circuit, operands)
    asked = circuit.config.pennylane_diff_method
    if asked is None:
        raise _make_error(
            circuit,
            "the circuit is differentiated, and the QNode has diff_method=None. Set "
            "diff_method='best'.",
        )
    if asked == "backprop":
        raise _make_error(
            circuit,
            "the circuit is differentiated with diff_method='backprop', which does not support "
            f"{circuit.device.name}, as this device runs outside of the compiled program. "
            "Use diff_method='best' or 'parameter-shift'.",
        )
    if asked in ("hadamard", qml.gradients.hadamard_grad):
        _check_hadamard(circuit, order)
    if order > _MAX_ORDER:
        raise _make_error(
            circuit,
            f"the circuit is differentiated {order} times, expected at most {_MAX_ORDER} times on "
            f"{circuit.device.name}. Use lightning.qubit or default.qubit, or jax.custom_jvp with "
            "a rule of your own.",
        )
    method = _choose_device_method(circuit, asked)
    if order == 1:
        return method
    if asked == "best":
        method = "parameter-shift"
    if method not in (*_DEVICE_METHODS, *_FIRST_ORDER_METHODS):
        if method == "parameter-shift":
            _check_shift_rules(circuit, operands)
        return method
    raise _make_error(
        circuit,
        f"the circuit is differentiated {order} times, and diff_method='{asked}' supports first "
        "derivatives only. Use diff_method='parameter-shift'.",
    )


def _check_observables(circuit: CircuitFunction, operands: Collection[int]) -> None:
    """Raise an error for a derivative with respect to the matrix of an observable.

    PennyLane has no derivative of an expectation value with respect to a matrix.

    Args:
        circuit: the function that executes the circuit.
        operands: indices of the circuit's operands with respect to which it is differentiated.

    Raises:
        DifferentiableCompileError: names the first such observable.
    """
    for part in circuit.template.measured:
        for number in {*part.operands} & {*operands}:
            if len(circuit.operands[number].shape) > 1:
                raise _make_error(
                    circuit,
                    f"the circuit is differentiated with respect to the matrix of "
                    f"{part.prototype.obs.name}, which is not supported on {circuit.device.name}. "
                    "Write the observable as a sum of Pauli words, or use lightning.qubit.",
                )


def _check_shift_rules(circuit: CircuitFunction, operands: Collection[int]) -> None:
    """Raise an error for a derivative by a parameter of a gate without shift rule.

    Call it for derivatives of second or higher order, which PennyLane would compute by finite
    differences of finite differences.

    Args:
        circuit: the function that executes the circuit.
        operands: indices of the circuit's operands with respect to which it is differentiated.

    Raises:
        DifferentiableCompileError: names the first operation without parameter-shift rule.
    """
    for part in circuit.template.parts:
        if getattr(part.prototype, "grad_method", None) == "F" and not set(operands).isdisjoint(
            part.operands
        ):
            raise _make_error(
                circuit,
                f"the circuit is differentiated more than once, and {part.prototype.name} has no "
                "parameter-shift rule: PennyLane would take finite differences of finite "
                "differences. Use operations with parameter-shift rules.",
            )


def _check_hadamard(circuit: CircuitFunction, order: int) -> None:
    """Raise an error if PennyLane's ``hadamard`` cannot differentiate a circuit.

    Args:
        circuit: the function that executes the circuit.
        order: the order of the derivative, 1 for a first derivative.

    Raises:
        DifferentiableCompileError: for a variance, and for a second or higher derivative unless the
            ``mode`` in the QNode's ``gradient_kwargs`` is a "direct" mode.
    """
    if any(isinstance(r.process, qml.measurements.VarianceMP) for r in circuit.results):
        raise _make_error(
            circuit,
            "the circuit measures var and is differentiated with diff_method='hadamard', which "
            "supports expval and probs only. Measure qml.expval of the observable and of its "
            "square.",
        )
    mode = circuit.config.gradient_kwargs.get("mode", "standard")
    if order > 1 and "direct" not in mode:
        raise _make_error(
            circuit,
            f"the circuit is differentiated {order} times with diff_method='hadamard', whose mode "
            f"'{mode}' gives first derivatives only. Use mode='direct', or "
            "diff_method='parameter-shift'.",
        )


def _choose_device_method(circuit: CircuitFunction, requested: Any) -> Any:
    """Resolve ``best``, ``adjoint`` and ``device`` to a method the device supports.

    Args:
        requested: the QNode's ``diff_method``.

    Returns:
        "adjoint", "device" or "parameter-shift"; ``requested`` itself if it is another method of
        PennyLane, such as "finite-diff".

    Raises:
        DifferentiableCompileError: for ``adjoint`` or ``device`` if the device lacks the method.
    """
    if requested not in ("best", *_DEVICE_METHODS):
        return requested
    device, tape = circuit.device, circuit.make_example_tape()
    # For "best", a device may choose "backprop", which needs a device inside the program; so
    # "device" is tried next.
    for method in (requested, "device") if requested == "best" else (requested,):
        config = ExecutionConfig(gradient_method=method, interface="autograd")
        if device.supports_derivatives(config, tape):
            found = device.setup_execution_config(config, tape).gradient_method
            if found in _DEVICE_METHODS:
                return found
    if requested == "best":
        return "parameter-shift"
    raise _make_error(
        circuit,
        f"the circuit is differentiated with diff_method='{requested}', which "
        f"{circuit.device.name} does not support for this circuit. Use diff_method='best' or "
        "'parameter-shift'.",
    )


def _make_error(circuit: CircuitFunction, message: str) -> DifferentiableCompileError:
    """Return the error whose message is the QNode's name and line, then `message`."""
    return DifferentiableCompileError(f"{circuit.where}: {message}")
