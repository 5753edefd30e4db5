"""Find out whether the runtime's engine executes a circuit, or the plugin of its device.

The plan is complete when the circuit is lowered, and is written to the module::

    %0 = "quantum.begin"(%x) {engine = 1 : i64, backend = "engine, derivatives by adjoint, ...",
    %0 = "quantum.begin"(%x) {engine = 0 : i64, backend = "plugin: it has engine='plugin', ...",

The runtime follows the plan. Only an operation that is invalid at run time runs on the plugin,
which reports the error.
"""

from jax.extend.core import ClosedJaxpr

from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import (
    can_plugin_differentiate,
    is_adjoint_equation,
)
from bellhop.circuits.backends.compiled.differentiable.state_primitives import Amplitudes, gates_p
from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.executors import Outcomes
from bellhop.jaxprs.equations import iterate_equations
from bellhop_runtime import most_qubits_in_engine


def find_engine_obstacle(
    closed: ClosedJaxpr, device: DeviceSpec, derivative_order: int, outcomes: Outcomes
) -> str:
    """Return why Bellhop's engine cannot run a circuit, so that the device's plugin must.

    The engine is Bellhop's own simulator. Reasons are the user's choice (``engine="plugin"``), a
    device that the engine does not replace, classical shadows, and too many qubits unless only the
    engine has the circuit's derivative.

    Args:
        closed: the jaxpr of the circuit.
        device: the device that runs the circuit.
        derivative_order: how many times the circuit has been differentiated.
        outcomes: how random outcomes are handled.

    Returns:
        the reason, to complete "plugin: ..." in messages; empty if the engine runs the circuit.
    """
    if not device.engine:
        has_choice = device.name.startswith(("lightning.", "default.qubit"))
        return (
            "it has engine='plugin'" if has_choice else f"the engine does not support {device.name}"
        )
    measured = [eqn.params.get("measuring") for eqn in iterate_equations(closed.jaxpr)]
    if not all(m.is_in_engine for each in measured if each for m in each.measurements):
        return "the circuit measures classical shadows, whose bases differ from shot to shot"
    most = most_qubits_in_engine(device.library, device.factory, device.kwargs)
    if device.qubits > most and not _requires_engine(closed, derivative_order, outcomes):
        return f"the circuit has more than {most} qubits"
    return ""


def _requires_engine(closed: ClosedJaxpr, derivative_order: int, outcomes: Outcomes) -> bool:
    """Return whether only the engine, and no plugin, has the circuit's derivative.

    True for adjoint derivatives

    - with respect to prepared amplitudes,
    - of scores, and of measurements that plugins do not differentiate,
    - through mid-circuit outcomes, and
    - as products, such as VJPs.

    Args:
        closed: the jaxpr of the circuit's run.
        derivative_order: how often the circuit is differentiated; the result is False for 0.
        outcomes: the treatment of mid-circuit outcomes.
    """
    record = choose_record_mode(closed) if derivative_order else 0
    return record == 3 or (record == 2 and outcomes is Outcomes.ALL)


def choose_record_mode(closed: ClosedJaxpr) -> int:
    """Choose how the runtime records the gates of a differentiated circuit.

    Returns:
        attribute ``record`` of ``quantum.begin``: 1 if no equation of the jaxpr uses the adjoint
        method, so that gates are recorded for derivatives that run them again; 2 if the engine and
        the device's plugin can both evaluate all equations by the adjoint method; 3 if only the
        engine can, for instance derivatives with respect to amplitudes.
    """
    equations = list(iterate_equations(closed.jaxpr))
    adjoint = list(filter(is_adjoint_equation, equations))
    if not adjoint:
        return 1
    by_amplitudes = any(
        eqn.primitive is gates_p and eqn.params["amplitudes"] is Amplitudes.DIFFERENTIATED
        for eqn in equations
    )
    return 2 if not by_amplitudes and all(map(can_plugin_differentiate, adjoint)) else 3
