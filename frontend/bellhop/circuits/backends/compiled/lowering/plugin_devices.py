"""Describe compiled plugins to the runtime, and reject unsupported circuits."""

from __future__ import annotations

import functools
import importlib.metadata
from typing import TYPE_CHECKING

from bellhop._versions import SUPPORTED, is_supported
from bellhop.circuits.ir.circuit_config import Shots
from bellhop.circuits.ir.device_spec import DeviceSpec, GateSet
from bellhop.circuits.ir.precision import Precision
from bellhop.errors import CompileError

if TYPE_CHECKING:
    import pennylane as qml


def make_device_spec(device: qml.devices.Device, qubits: int) -> DeviceSpec:
    """Return the data by which the runtime opens a PennyLane device with a plugin.

    Args:
        device: a device with a compiled interface (``get_c_interface``).
        qubits: the number of qubits of the circuit.

    Returns:
        the spec, without shots; its `engine` is whether the engine may replace the plugin.

    Raises:
        CompileError: for a plugin of an untested version.
    """
    check_version(device.name)
    factory, library = device.get_c_interface()
    kwargs = getattr(device, "device_kwargs", {})
    options = {key: value for key, value in kwargs.items() if value is not None}
    return DeviceSpec(
        device.name,
        str(library),
        factory,
        str(options),
        qubits,
        shots=0,
        engine=device.name.startswith("lightning."),
        precision=Precision.get_state_bits(device),
    )


@functools.cache
def check_version(name: str) -> None:
    """Raise a `CompileError` if a Lightning device's plugin is of an untested version.

    Args:
        name: PennyLane's name of the device, such as ``lightning.qubit``. Devices other than
            Lightning's are not checked.
    """
    if not name.startswith("lightning."):
        return
    package = _find_lightning_package(name)
    version = importlib.metadata.version(package)
    # All packages of Lightning share the versions and the compiled interface.
    if not is_supported("pennylane-lightning", version):
        supported = SUPPORTED["pennylane-lightning"]
        raise CompileError(
            f"{package} {version} is installed, expected {package}{supported}, the versions whose "
            f'compiled interface bellhop was tested with. Run pip install "{package}{supported}".'
        )


def _find_lightning_package(name: str) -> str:
    """Return the name of the Python distribution that provides a Lightning device.

    For ``lightning.gpu``, it is ``pennylane-lightning-gpu`` if this distribution is installed; else
    ``pennylane-lightning``, which provides ``lightning.qubit``.
    """
    package = f"pennylane-lightning-{name.partition('.')[2]}"
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return "pennylane-lightning"
    return package


def check_options(device: qml.devices.Device, where: str) -> None:
    """Raise an error for options of a Lightning device that compiled circuits ignore.

    They are ``mpi=True`` and ``kokkos_args``. Devices other than Lightning's are not checked.

    Raises:
        CompileError: names the QNode, the option, and a remedy.
    """
    if not device.name.startswith("lightning."):
        return
    kokkos_args = getattr(device, "_sv_init_kwargs", {}).get("kokkos_args")
    for is_set, option, instead in (
        (getattr(device, "_mpi", False), "mpi=True", "Call the QNode without qjit."),
        (
            kokkos_args is not None,
            "kokkos_args",
            "Set environment variables of Kokkos, such as KOKKOS_NUM_THREADS, instead.",
        ),
    ):
        if is_set:
            raise CompileError(
                f"{where}: the option {option} of {device.name} is not supported in compiled "
                f"circuits. {instead}"
            )


def check_plugin_limits(name: str, where: str, *, is_tree: bool, n_groups: int) -> None:
    """Raise an error for a circuit with measurements that a plugin gets wrong.

    Some plugins project states in a way that makes sums over outcomes wrong, and some return
    samples in sorted order, so that several groups of shots would differ.

    Args:
        name: PennyLane's name of the device.
        where: the QNode, for errors.
        is_tree: whether results are exact sums over the outcomes of mid-circuit measurements.
        n_groups: the number of entries of the shot vector whose shots one execution draws; 0 if
            each shot is a separate execution.

    Raises:
        CompileError: names the QNode and a remedy.
    """
    traps = GateSet.find_plugin_defects(name)
    if is_tree and traps.projections:
        raise CompileError(
            f"{where}: the circuit has mid-circuit measurements and no shots, and {name} does not "
            "support the projections of states that exact averages over the outcomes need. Set "
            f"shots: {Shots.ADVICE}."
        )
    if n_groups > 1 and traps.samples:
        raise CompileError(
            f"{where}: the QNode has {n_groups} groups of shots, expected one group, as {name} "
            "returns samples in sorted order. Use one number of shots, and call the QNode several "
            "times."
        )
