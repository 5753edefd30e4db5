"""Read a circuit's execution settings from its QNode and the ``qjit`` options."""

from typing import Any

import jax
import pennylane as qml

from bellhop.circuits.ir.circuit_config import CircuitConfig, Shots
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.memory import MemoryCheck
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.passes.operation_transforms import QNodeTransforms
from bellhop.errors import CompileError
from bellhop.passes import requested_passes
from bellhop.settings.config import read_environment_engine
from bellhop.tracing.state import current_options

_METHODS = {
    "best": DiffMethod.BEST,
    "adjoint": DiffMethod.ADJOINT,
    "device": DiffMethod.ADJOINT,
    "parameter-shift": DiffMethod.PARAMETER_SHIFT,
    "finite-diff": DiffMethod.FINITE_DIFFERENCES,
    "spsa": DiffMethod.SPSA,
    "hadamard": DiffMethod.HADAMARD,
    qml.gradients.param_shift: DiffMethod.PARAMETER_SHIFT,
    qml.gradients.finite_diff: DiffMethod.FINITE_DIFFERENCES,
    qml.gradients.spsa_grad: DiffMethod.SPSA,
    qml.gradients.hadamard_grad: DiffMethod.HADAMARD,
}

# XLA's array dimensions are signed 32-bit integers.
_MOST_SHOTS = 2**31 - 1


def read_config(qnode: qml.QNode, where: str) -> CircuitConfig:
    """Read the execution settings of a QNode, and check its number of shots.

    Settings are shots, differentiation method, passes and so on. Options of the ``qjit`` function
    that is being traced are included. If these do not choose between Bellhop's engine and the
    device's plugin, the environment variable ``BELLHOP_ENGINE`` does.

    Args:
        qnode: the QNode.
        where: the QNode's name and line, for error messages.

    Raises:
        CompileError: if the number of shots is traced, a bool or too large.
        ValueError: for an unknown pass or an unknown option of a pass.
    """
    _check_number_of_shots(qnode, where)
    options = current_options()
    passes = requested_passes(qnode)
    if passes is None:
        passes = () if options is None else options.circuit_passes
    transforms = tuple(qnode.compile_pipeline)
    engine = (options and options.engine) or read_environment_engine()
    return CircuitConfig(
        function=qnode.func,
        where=where,
        shots=_read_shots(qnode),
        mcm_method=qnode.execute_kwargs.get("mcm_method"),
        postselect_mode=qnode.execute_kwargs.get("postselect_mode"),
        diff_method=_METHODS.get(qnode.diff_method, str(qnode.diff_method)),
        gradient_kwargs=qnode.gradient_kwargs or {},
        transforms=transforms,
        passes=(*passes, *QNodeTransforms(transforms).find_passes()),
        engine=engine != "plugin",
        precision=options.precision if options else None,
        amplitude_bits=Precision.get_state_bits(qnode.device),
        pennylane_diff_method=qnode.diff_method,
        execute_kwargs=qnode.execute_kwargs,
    )


def _read_shots(qnode: qml.QNode) -> Shots:
    """Convert PennyLane's shots of a QNode to ``Shots``.

    ``(10, (5, 2))`` becomes the entries 10, 5, 5 of a shot vector. Without shots, the result is
    empty.
    """
    shots = qnode.shots
    if not shots.total_shots:
        return Shots()
    shot_vector = tuple(entry.shots for entry in shots.shot_vector for _ in range(entry.copies))
    return Shots(shot_vector, shots.has_partitioned_shots)


def _check_number_of_shots(qnode: qml.QNode, where: str) -> None:
    """Raise an error if the number of shots is traced, a bool or too large.

    It is too large if it exceeds ``_MOST_SHOTS``, or if 8 bytes per shot do not fit into memory.
    """
    total: Any = qnode.shots.total_shots
    if isinstance(total, jax.core.Tracer):
        raise CompileError(
            f"{where}: the number of shots is traced, expected a static number, as XLA's arrays "
            "have fixed shapes. Make the number static: qjit(static_argnums=...), or "
            "static_argnames."
        )
    if any(isinstance(entry.shots, bool) for entry in qnode.shots.shot_vector):
        raise CompileError(
            f"{where}: the number of shots is a bool, expected an integer. Set an integer: "
            f"{Shots.ADVICE}."
        )
    shots = total or 0
    MemoryCheck(where).check_shots(shots)
    if shots > _MOST_SHOTS:
        raise CompileError(
            f"{where}: got {shots} shots, expected at most {_MOST_SHOTS}. Run the circuit several "
            "times, with fewer shots each."
        )
