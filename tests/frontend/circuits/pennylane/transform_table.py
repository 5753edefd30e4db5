"""Every transform of PennyLane's, applied to a QNode as users would."""

from typing import Any

import numpy as np
import pennylane as qml

import bellhop

GATES = {"RX", "RY", "RZ", "CNOT", "GlobalPhase"}
TWO_FLIPS = qml.tape.QuantumScript([qml.X(0), qml.X(0)])

# By name: options that the transform needs.
OPTIONS: dict[str, dict[str, Any]] = {
    "decompose": {"gate_set": GATES},
    "pattern_matching_optimization": {"pattern_tapes": [TWO_FLIPS]},
    "transpile": {"coupling_map": [(0, 1), (1, 2), (2, 3)]},
    "apply_controlled_Q": {
        "wires": [0, 1],
        "target_wire": 1,
        "control_wire": 2,
        "work_wires": None,
    },
    "quantum_monte_carlo": {"wires": [0, 1], "target_wire": 1, "estimation_wires": [2, 3]},
    "clifford_t_decomposition": {"epsilon": 0.1},
    "batch_input": {"argnum": 0},
    "resolve_dynamic_wires": {"min_int": 3},
    "rz_phase_gradient": {"angle_wires": [1], "phase_grad_wires": [2], "work_wires": [3]},
    "metric_tensor": {"approx": "block-diag"},
    "spsa_grad": {"num_directions": 1},
}


def transforms() -> dict[str, Any]:
    """Return all transforms of ``qml.transforms`` and ``qml.gradients``, by name."""
    return {
        name: value
        for module in (qml.transforms, qml.gradients)
        for name, value in sorted(vars(module).items())
        if isinstance(value, qml.transforms.core.Transform)
    }


def straight(x: Any) -> Any:
    """A circuit of gates."""
    qml.Hadamard(0)
    qml.RX(x, 0)
    qml.CNOT([0, 1])
    qml.RY(2 * x, 1)
    return qml.expval(qml.Z(0) @ qml.X(1))


def measuring(x: Any) -> Any:
    """A circuit with a measurement in the middle, and a gate that its outcome decides."""
    qml.Hadamard(0)
    qml.RX(x, 0)
    outcome = qml.measure(0)
    qml.cond(outcome, qml.RY)(2 * x, 1)
    return qml.expval(qml.X(1))


def flips(x: Any) -> Any:
    """A circuit of CNOT and RZ, which some transforms want."""
    qml.CNOT([0, 1])
    qml.RZ(x, 1)
    qml.CNOT([1, 0])
    return qml.expval(qml.X(0))


def cnots(_: Any) -> Any:
    """A circuit of CNOT alone."""
    qml.CNOT([0, 1])
    qml.CNOT([1, 0])
    return qml.expval(qml.Z(0))


def toffoli(x: Any) -> Any:
    """A circuit of many wires."""
    for wire in range(3):
        qml.Hadamard(wire)
    qml.Toffoli([0, 1, 2])
    qml.CCZ([1, 2, 3])
    qml.RX(x, 3)
    return qml.expval(qml.Z(3))


def of_inputs(x: Any) -> Any:
    """A circuit of an array."""
    qml.AngleEmbedding(x, wires=[0, 1], rotation="Y")
    qml.CNOT([0, 1])
    return qml.expval(qml.Z(1))


def commuting(x: Any) -> Any:
    """A circuit whose sum is measured in one basis."""
    qml.RX(x, 0)
    qml.CNOT([0, 1])
    return qml.expval(qml.Hamiltonian([0.5, 1.5], [qml.Z(0) @ qml.Z(1), qml.Z(0)]))


# What others of them want.
CIRCUITS: dict[str, Any] = {
    "rowcol": cnots,
    "match_controlled_iX_gate": toffoli,
    "match_relative_phase_toffoli": toffoli,
    "transpile": flips,
    "batch_input": of_inputs,
    "batch_params": of_inputs,
    "sign_expand": commuting,
}

# By name: arguments, where the circuit takes another than 0.7.
ARGUMENTS: dict[str, Any] = {
    "batch_input": np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]),
    "batch_params": np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]),
}

# PennyLane refuses these of a QNode or of an option that is not on: what it raises, and says.
REFUSED_BY_PENNYLANE: dict[str, tuple[type[Exception], str]] = {
    "decomp_inspector": (ValueError, "only relevant with the new graph-based decomposition"),
    "dynamic_one_shot": (qml.exceptions.TransformError, "cannot be applied directly on a QNode"),
    "param_shift_cv": (TypeError, "missing 1 required positional argument: 'dev'"),
    "pulse_odegen": (NotImplementedError, "to a QNode directly is currently not supported"),
    "stoch_pulse_grad": (NotImplementedError, "to a QNode directly is currently not supported"),
}

# Their result is no array, or they draw at random, or look at numbers, or ask for a package.
REFUSED: dict[str, tuple[type[Exception], str]] = {
    "commutation_dag": (TypeError, "the result is of type CommutationDAG"),
    "convert_to_numpy_parameters": (bellhop.CompileError, "converts parameters to NumPy arrays"),
    "parity_matrix": (TypeError, "requires all input circuits to consist solely of CNOT"),
    "phase_polynomial": (TypeError, "can only handle CNOT and RZ operators"),
    "spsa_grad": (bellhop.CompileError, "draws random directions while the program is traced"),
    "to_zx": (Exception, "pyzx|the result is of type"),
}

# PennyLane has no tape transform of it, only a pass.
PASSES = ("gridsynth",)

# PennyLane has them of gates alone.
WITHOUT_OUTCOMES = (
    "apply_controlled_Q",
    "adjoint_metric_tensor",
    "clifford_t_decomposition",
    "hadamard_grad",
    "metric_tensor",
    "param_shift_hessian",
    "pattern_matching_optimization",
    "quantum_fisher",
    "quantum_monte_carlo",
    *CIRCUITS,
)
