"""Pauli twirling: surround each CNOT and CZ with random Pauli gates that cancel.

For a gate ``U``, ``CNOT`` or ``CZ``, and a random pair of Paulis ``P``, the gates ::

    P  U  Q        with Q = U P U^-1, a pair of Paulis up to its sign

apply ``U``. On a noisy device the mean over many draws turns coherent errors of ``U`` into
stochastic Pauli errors (Wallman and Emerson, Physical Review A 94, 052325, 2016).

The program draws a new pair at each call, in each iteration of a loop and in each row of a `vmap`.
Each Pauli is a `Rot` whose angles are looked up in a table by the drawn index, and one
`GlobalPhase` corrects the phases of all four. Noise models look at the names of gates, so for them
each Pauli is a conditional on the drawn index with the branches I, X, Y and Z.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.base.types import Operand, Wire
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.seeds import make_random_key
from bellhop.tracing.current_circuit import Branches, GateRecorder
from bellhop.tracing.state import current_circuit

_TWIRLED = ("CNOT", "CZ")
_PAULIS = (qml.Identity, qml.X, qml.Y, qml.Z)
_NAMES = ("I", "X", "Y", "Z")
# The angles of `Rot` for each Pauli; `Rot` of X, Y and Z has the phase -i.
_ANGLES = np.array([(0, 0, 0), (np.pi / 2, np.pi, -np.pi / 2), (0, np.pi, 0), (0, 0, np.pi)])
_N_PAIRS = 16


class _Twirls(NamedTuple):
    """Table of the Paulis around a two-qubit gate that leave its effect unchanged.

    Row ``i`` is for the pair of Paulis ``divmod(i, 4)`` before the gate, indices into `_PAULIS`.

    Attributes:
        paulis: integer array ``[16, 4]``, indices into `_PAULIS`: before the gate on its first and
            second wire, then after the gate on its first and second wire.
        phases: real array ``[16]``, the angle of a `GlobalPhase` that makes the product of the gate
            and the Paulis equal to the gate. It cancels the phases of the four `Rot` gates that act
            as Paulis, and a sign of -1.
    """

    paulis: np.ndarray
    phases: np.ndarray


@functools.cache
def _find_twirls(name: str) -> _Twirls:
    """Compute the table of the pairs of Paulis around a CNOT or CZ.

    Args:
        name: the gate's name in PennyLane, ``"CNOT"`` or ``"CZ"``.

    Returns:
        the table, with a row for each of the 16 pairs of Paulis before the gate.
    """
    gate = qml.matrix(getattr(qml, name)([0, 1]))
    matrices = [qml.matrix(pauli(0)) for pauli in _PAULIS]
    products = [np.kron(one, other) for one in matrices for other in matrices]
    paulis, phases = [], []
    for pair, product in enumerate(products):
        conjugated = gate @ product @ gate.conj().T
        overlaps = np.array([np.trace(conjugated @ each).real / 4 for each in products])
        after = int(np.argmax(np.abs(overlaps)))
        row = (*divmod(pair, 4), *divmod(after, 4))
        paulis.append(row)
        n_rotations = sum(each > 0 for each in row)
        phases.append(-np.pi / 2 * n_rotations - np.pi * (overlaps[after] < 0))
    return _Twirls(np.array(paulis), np.array(phases))


def twirl(operations: Sequence[Any], *, names_paulis: bool) -> list[Any]:
    """Insert random Paulis before and after each CNOT and CZ, which cancel each other.

    The program draws the Paulis when it runs. On a noisy device, the mean over many runs has
    stochastic Pauli errors instead of coherent errors.

    Args:
        operations: PennyLane operations, in order.
        names_paulis: True to insert conditionals on the drawn index with X, Y and Z gates, which
            noise models recognize by name; False to insert `Rot` gates and a `GlobalPhase`, which
            is faster. True works only while a circuit is traced.

    Returns:
        a list of the operations, with the inserted operations around each CNOT and CZ.
    """
    n_twirled = sum(op.name in _TWIRLED for op in operations)
    if not n_twirled:
        return list(operations)
    drawn = iter(jax.random.randint(make_random_key(), (n_twirled,), 0, _N_PAIRS))
    surround = _with_conditionals if names_paulis else _with_rotations
    with qml.QueuingManager.stop_recording():
        return [
            part
            for op in operations
            for part in (surround(op, next(drawn)) if op.name in _TWIRLED else [op])
        ]


def _with_rotations(op: qml.operation.Operator, drawn: Operand) -> list[Any]:
    """Return a CNOT or CZ between `Rot` gates that act as the drawn Paulis.

    Args:
        drawn: traced integer scalar in ``[0, 16)``, the index of the pair of Paulis before the
            gate.

    Returns:
        two rotations, the gate, two rotations and a `GlobalPhase`.
    """
    twirls = _find_twirls(op.name)
    angles = np.concatenate(
        [_ANGLES[twirls.paulis].reshape(_N_PAIRS, -1), twirls.phases[:, None]], 1
    )
    row = jnp.asarray(angles, Precision.real_type())[drawn]
    rotations = [qml.Rot(*row[3 * k : 3 * k + 3], op.wires[k % 2]) for k in range(4)]
    return [*rotations[:2], op, *rotations[2:], qml.GlobalPhase(row[-1])]


def _with_conditionals(op: qml.operation.Operator, drawn: Operand) -> list[Any]:
    """Return a CNOT or CZ between conditionals that apply the drawn Paulis.

    Args:
        drawn: traced integer scalar in ``[0, 16)``, the index of the pair of Paulis before the
            gate.

    Returns:
        two `ControlFlow` operations, the gate, and two `ControlFlow` operations.
    """
    paulis = jnp.asarray(_find_twirls(op.name).paulis)[drawn]
    parts = [_choose_pauli(paulis[k], op.wires[k % 2]) for k in range(4)]
    return [*parts[:2], op, *parts[2:]]


def _choose_pauli(index: Operand, wire: Wire) -> Any:
    """Return a `ControlFlow` operation that applies I, X, Y or Z by a traced index.

    It can only be made while a circuit is traced.

    Args:
        index: the index of the Pauli in `_PAULIS`.
        wire: the wire of the Pauli.
    """

    def branch(pauli: Any) -> None:
        if pauli is not qml.Identity:
            pauli(wire)

    branches = [functools.partial(branch, pauli) for pauli in _PAULIS]

    def record(circuit: GateRecorder) -> None:
        circuit.branch(Branches("pauli_twirling", index, _NAMES, branches))

    circuit = current_circuit()
    assert circuit is not None
    operation, _ = circuit.as_operation(record)
    return operation
