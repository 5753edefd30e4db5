"""Who runs a circuit: the runtime's engine, or the plugin of its device.

It is decided here, when the circuit is lowered, and stands in the module::

    %0 = "quantum.begin"(%x) {engine = 1 : i64, backend = "engine", ...}
    %0 = "quantum.begin"(%x) {engine = 0 : i64, backend = "plugin: it has engine='plugin'", ...}

The runtime keeps to it.  What only a run knows comes on top: a loop that has called for gates too
often goes on with the plugin, and so does what is wrong, whose error is the plugin's.
"""

from jax.extend.core import ClosedJaxpr

from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import (
    can_plugin_differentiate,
    is_adjoint_equation,
)
from bellhop.circuits.backends.compiled.differentiable.state_primitives import Amplitudes, gates_p
from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.randomness import Randomness
from bellhop.jaxprs.equations import iterate_equations
from bellhop_runtime import most_qubits_in_engine


def find_engine_obstacle(
    closed: ClosedJaxpr, device: DeviceSpec, derivative_order: int, randomness: Randomness
) -> str:
    """Return why the plugin runs a circuit, and not the engine; empty where the engine does.

    Args:
        closed: the jaxpr of a run.
        device: that of the circuit.
        derivative_order: how often it was differentiated.
        randomness: what it does about random outcomes.
    """
    if not device.engine:
        could = device.name.startswith(("lightning.", "default.qubit"))
        return "it has engine='plugin'" if could else f"{device.name} has no other"
    measured = [eqn.params.get("measuring") for eqn in iterate_equations(closed.jaxpr)]
    if not all(m.in_engine for each in measured if each for m in each.measurements):
        return "it measures classical shadows, whose bases differ from shot to shot"
    most = most_qubits_in_engine(device.library, device.factory, device.kwargs)
    if device.qubits > most and not _requires_engine(closed, derivative_order, randomness):
        return f"it has more than {most} qubits"
    return ""


def _requires_engine(closed: ClosedJaxpr, derivative_order: int, randomness: Randomness) -> bool:
    """Tell whether only the engine has the derivative: through outcomes, amplitudes and scores."""
    record = choose_record_mode(closed) if derivative_order else 0
    return record == 3 or (record == 2 and randomness is Randomness.TREE)


def choose_record_mode(closed: ClosedJaxpr) -> int:
    """Return the runtime's ``record`` attribute of a circuit that is differentiated."""
    equations = list(iterate_equations(closed.jaxpr))
    adjoint = list(filter(is_adjoint_equation, equations))
    if not adjoint:
        return 1
    by_amplitudes = any(
        eqn.primitive is gates_p and eqn.params["amplitudes"] is Amplitudes.DIFFERENTIATED
        for eqn in equations
    )
    return 2 if not by_amplitudes and all(map(can_plugin_differentiate, adjoint)) else 3
