"""Choose what executes a circuit."""

import functools
import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bellhop.circuits.backends.choose.outcome_averages import explain_density_matrix
from bellhop.circuits.ir.backend_registry import find_backend
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.circuit_config import CircuitConfig
from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.execution_plan import Declined, ExecutionPlan
from bellhop.circuits.ir.executors import Executor, Outcomes
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.wires import WireMap
from bellhop.errors import CompileError
from bellhop.tracing.state import trace_state

# For each executor, the module and the function that runs circuits.  A module is imported on first
# use: circuits on the engine do not need the modules of other backends, half of ``circuits``.
_BACKENDS = "bellhop.circuits.backends"
_RUNNERS = {
    Executor.ENGINE: ("compiled.lowering.runtime_devices", "run_in_runtime"),
    Executor.PLUGIN: ("compiled.lowering.runtime_devices", "run_in_runtime"),
    Executor.ARRAYS: ("arrays.run_qnode", "run_on_arrays"),
    Executor.STIM: ("stim.run_clifford", "run_clifford"),
    Executor.NULL: ("null.null_qubit", "run_null"),
    Executor.TAPES: ("tapes.run_on_python_device", "run_on_python_device"),
}
# These methods are all exact on ``default.qubit`` and give equal derivatives.  With shots,
# derivatives use the likelihood ratio of samples.
_METHODS_OF_DEFAULT_QUBIT = (
    DiffMethod.BEST,
    DiffMethod.ADJOINT,
    DiffMethod.PARAMETER_SHIFT,
    DiffMethod.HADAMARD,
)


def choose(device: Any, config: CircuitConfig) -> ExecutionPlan:
    """Choose the executor of a circuit, such as Bellhop's engine, from device and settings.

    The choice is made before the quantum function is traced, because loops are traced in another
    way for tapes. A backend that finds the traced circuit unsupported returns ``Declined``; then
    `choose_fallback` chooses again.

    Args:
        device: the QNode's PennyLane device.
        config: the QNode's settings.

    Returns:
        the plan: the executor, why it is not the engine, the derivative method and the precision.
    """
    executor, reason = _choose_executor(device, config)
    if executor is Executor.ARRAYS:
        return plan_arrays(reason, device, config)
    method = config.diff_method
    if executor is Executor.ENGINE and _is_class_of_pennylane(device, "DefaultQubit"):
        by_likelihood = bool(config.shots.total)
        method = DiffMethod.LIKELIHOOD_RATIO if by_likelihood else DiffMethod.BEST
    # Plugins have double-precision states.
    bits = 64 if executor is Executor.PLUGIN else Precision.get_state_bits(device)
    return ExecutionPlan(executor, reason, diff_method=method, precision=bits)


def plan_arrays(reason: str, device: Any, config: CircuitConfig) -> ExecutionPlan:
    """Plan the execution of a circuit as JAX operations in the program.

    If ``diff_method`` names an exact method, JAX differentiates through the state; with shots, the
    likelihood ratio of samples is used. Other methods, such as finite differences, and the adjoint
    method with shots, are kept.

    Args:
        reason: why no other executor, such as Bellhop's engine, runs the circuit; for the user.
        device: the QNode's PennyLane device.
        config: the QNode's settings.
    """
    method = config.diff_method
    if _is_exact_method(config):
        method = DiffMethod.LIKELIHOOD_RATIO if config.shots.total else DiffMethod.BACKPROP
    bits = Precision.get_state_bits(device)
    return ExecutionPlan(Executor.ARRAYS, reason, diff_method=method, precision=bits)


def choose_fallback(
    declined: Declined, plan: ExecutionPlan, device: Any, config: CircuitConfig
) -> ExecutionPlan:
    """Choose the executor of a circuit that the first chosen backend does not support.

    A circuit of ``default.qubit`` that Bellhop's engine declines becomes JAX operations, unless it
    needs a tape. Every other circuit becomes a tape for its device, which the program calls through
    Python.

    Args:
        declined: the backend's answer, with the unsupported feature as its reason.
        plan: the plan that led to this backend.
        device: the QNode's PennyLane device.
        config: the QNode's settings.
    """
    is_for_engine = plan.executor is Executor.ENGINE and not declined.needs_tape
    if is_for_engine and is_simulated_in_program(device):
        return plan_arrays(declined.reason, device, config)
    return ExecutionPlan(
        Executor.TAPES,
        declined.reason,
        diff_method=config.diff_method,
        precision=Precision.get_state_bits(device),
    )


def get_runner(plan: ExecutionPlan, device: Any) -> Callable[..., Any]:
    """Return the function that runs circuits on the executor of a plan.

    Args:
        plan: the plan, whose executor is for instance Bellhop's engine or Stim.
        device: the QNode's PennyLane device. If ``register_backend`` registered its class, and the
            plan's executor is ``REGISTERED``, the registered function is returned.

    Returns:
        a function ``(circuit, device, wires) -> results``, whose module this call imports. For the
        engine, the function runs some circuits as density matrices on arrays instead
        (`_run_cheaper`).

    Raises:
        CompileError: if this installation lacks the backend of the executor.
    """
    registered = find_backend(type(device))
    if plan.executor is Executor.REGISTERED and registered is not None:
        return registered
    if plan.executor not in _RUNNERS:
        reason = f", since {plan.reason}" if plan.reason else ""
        raise CompileError(
            f"{device.name}: the circuit needs the backend '{plan.executor.name.lower()}'{reason}, "
            "and this installation of bellhop has no such backend, expected one of "
            f"{', '.join(each.name.lower() for each in _RUNNERS)}. Reinstall bellhop, or use a "
            "device that runs on one of these backends."
        )
    module, function = _RUNNERS[plan.executor]
    run: Callable[..., Any] = getattr(importlib.import_module(f"{_BACKENDS}.{module}"), function)
    return functools.partial(_run_cheaper, run) if plan.executor is Executor.ENGINE else run


def _run_cheaper(
    run_in_engine: Callable[..., Any], call: Circuit, device: Any, wires: WireMap
) -> Any:
    """Run a circuit in the engine, or as a density matrix in the program if cheaper.

    Args:
        run_in_engine: ``(circuit, device, wires) -> results``, which runs it in Bellhop's engine.
        call: the circuit: a QNode call with its inputs and settings.
        device: the QNode's PennyLane device.
        wires: maps wire labels to qubits.

    Returns:
        the measurements' values, in the structure that the quantum function returned; ``Declined``
        if the engine's runner declines the circuit.
    """
    reason = explain_density_matrix(call, wires)
    if not reason or Executor.ARRAYS not in _RUNNERS:
        return run_in_engine(call, device, wires)
    plan = replace(plan_arrays(reason, device, call.config), outcomes=Outcomes.ALL)
    return get_runner(plan, device)(replace(call, plan=plan), device, wires)


def _choose_executor(device: Any, config: CircuitConfig) -> tuple[Executor, str]:
    """Choose the executor of a circuit, such as Bellhop's engine, from device and settings.

    Returns:
        the executor, and the reason why it is not the engine, for the user; empty for the engine
        and for backends that need no reason.
    """
    if find_backend(type(device)) is not None:
        return Executor.REGISTERED, ""
    if _is_class_of_pennylane(device, "DefaultQubit"):
        obstacle = _find_obstacle_of_default_qubit(config)
        return (Executor.ARRAYS, obstacle) if obstacle else (Executor.ENGINE, "")
    if is_simulated_in_program(device):
        return Executor.ARRAYS, f"{device.name} has no engine"
    if _is_class_of_pennylane(device, "DefaultClifford") and config.shots.total:
        # Without shots, only PennyLane's device computes the exact values, from tapes.
        return Executor.STIM, "default.clifford has no engine"
    if device.name == "null.qubit":
        return Executor.NULL, ""
    if not hasattr(device, "get_c_interface"):
        return Executor.TAPES, f"{device.name} has no compiled plugin"
    if config.diff_method == DiffMethod.HADAMARD:
        # PennyLane expands Hadamard tests from tapes.
        return Executor.TAPES, "its diff_method is 'hadamard'"
    has_engine = DeviceSpec.has_engine(device.name) and config.engine
    if Precision.is_single_device(device) and not has_engine:
        return Executor.TAPES, "the device has single precision, and plugins have double precision"
    if not config.engine:
        return Executor.PLUGIN, "it has engine='plugin'"
    if not device.name.startswith("lightning."):
        return Executor.PLUGIN, f"the engine does not support {device.name}"
    return Executor.ENGINE, ""


def _find_obstacle_of_default_qubit(config: CircuitConfig) -> str:
    """Return why Bellhop's engine cannot run a ``default.qubit`` circuit; empty if it can."""
    if not _is_exact_method(config):
        return f"its diff_method is '{config.diff_method}'"
    if not config.engine:
        return "it has engine='plugin'"
    return "the QNode is called in a region" if trace_state().in_region else ""


def _is_exact_method(config: CircuitConfig) -> bool:
    """Return whether a circuit's ``diff_method`` gives exact derivatives on simulators.

    True for ``best``, ``adjoint``, ``parameter-shift`` and ``hadamard``, except for ``adjoint``
    with shots.
    """
    method = config.diff_method
    has_method = not (method == DiffMethod.ADJOINT and config.shots.total)
    return method in _METHODS_OF_DEFAULT_QUBIT and has_method


def _is_class_of_pennylane(device: Any, *names: str) -> bool:
    """Return whether a device's class is a PennyLane class with one of these names.

    An instance of a user's subclass does not count, since it may behave differently.
    """
    kind = type(device)
    return kind.__name__ in names and kind.__module__.startswith("pennylane.devices.")


def is_simulated_in_program(device: Any) -> bool:
    """Return whether a device's circuits can run as JAX operations in the program.

    True for ``default.qubit`` and ``default.mixed``, without subclasses. Also for
    ``lightning.qubit`` while a sharded state is simulated, which Lightning does not support.
    """
    if _is_class_of_pennylane(device, "DefaultQubit", "DefaultMixed"):
        return True
    return device.name == "lightning.qubit" and trace_state().partitions_states
