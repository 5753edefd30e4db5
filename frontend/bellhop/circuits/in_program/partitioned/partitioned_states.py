"""Which circuits have a state over several devices: those of regions that have axes for it."""

import functools
import math
from typing import Any

import jax
from jax.sharding import AxisType

from bellhop.circuits.in_program.device_wires.device_wires import DeviceWires
from bellhop.circuits.in_program.partitioned.partitioned_simulator import PartitionedSimulator
from bellhop.circuits.in_program.pure_simulator import PureSimulator
from bellhop.errors import CompileError
from bellhop.tracing.state import trace_state

# Each device has as many qubits as the matrices that meet the state, or more.
_FEWEST_LOCAL = PureSimulator.most_at_once


def are_partitioned() -> bool:
    """Tell whether states are partitioned over devices here."""
    # Inside of jax.shard_map each device has circuits of its own.
    manual = AxisType.Manual in jax.sharding.get_abstract_mesh().axis_types
    return trace_state().state_axes is not None and not manual


def simulator_of_amplitudes(n_qubits: int, where: str) -> Any:
    """Return the class of simulators of pure states of so many qubits, or what makes one.

    Raises:
        CompileError: where the number of devices is no power of two.
    """
    over = trace_state().state_axes
    if over is None or not are_partitioned():
        return PureSimulator
    n_devices = math.prod(over.mesh.shape[axis] for axis in over.axes)
    if n_devices == 1 or n_qubits - math.log2(n_devices) < _FEWEST_LOCAL:
        return PureSimulator
    if n_devices & (n_devices - 1):
        axes = ", ".join(map(repr, over.axes))
        raise CompileError(
            f"{where}: its state is to be partitioned over the {n_devices} devices of {axes}, and "
            "their number must be a power of two. Use a mesh of "
            f"{1 << (n_devices.bit_length() - 1)}, or name the axes in the sharding, "
            "accelerate(dev=jax.NamedSharding(mesh, jax.P(axis))), for a whole state on each."
        )
    return functools.partial(PartitionedSimulator, devices=DeviceWires.of(over))
