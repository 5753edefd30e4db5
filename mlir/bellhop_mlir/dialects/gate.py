"""Gates, and their encoding as attributes of ``quantum.gates``."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from bellhop_mlir._bindings import ir


@dataclass(frozen=True)
class Gate:
    """One gate of a ``quantum.gates``, without values of traced parameters.

    Attributes:
        name: PennyLane's name of the gate; ``@`` and ``file:line`` in the user's code may follow.
        wires: qubits of the targets; a negative number ``-1 - i`` refers to dynamic wire ``i``.
        slots: for each parameter, its index in the operation's operand of parameters, or ``-1 - i``
            for ``constants[i]``. A parameter that is an array has a range of slots, whose encoding
            has the same size for all arrays.
        constants: values of the constant parameters.
        adjoint: whether the gate is inverted.
        control_wires: qubits of the controls, negative as in ``wires``.
        control_values: 0 or 1 for each control.
    """

    name: str
    wires: tuple[int, ...]
    slots: tuple[int, ...] | range = ()
    constants: tuple[float, ...] = ()
    adjoint: bool = False
    control_wires: tuple[int, ...] = ()
    control_values: tuple[int, ...] = ()


def encode_gates(gates: Iterable[Gate]) -> dict[str, Any]:
    """Encode gates as the attributes of a ``quantum.gates`` operation.

    Returns:
        values of ``names`` (the distinct names, one a line), ``code`` (integers) and ``constants``
        (floats), as ``bellhop_circuit_gates`` in the contract describes them. `iterate_gates`
        decodes them.
    """
    names: dict[str, int] = {}
    code: list[int] = []
    constants: list[float] = []
    for gate in gates:
        base = len(constants)
        constants.extend(gate.constants)
        code += (
            names.setdefault(gate.name, len(names)),
            int(gate.adjoint),
            -len(gate.slots) if isinstance(gate.slots, range) else len(gate.slots),
            len(gate.wires),
            len(gate.control_wires),
        )
        listed = gate.slots[:1] if isinstance(gate.slots, range) else gate.slots
        code += (slot if slot >= 0 else slot - base for slot in listed)
        code += gate.wires
        code += gate.control_wires
        code += gate.control_values
    return {"names": "\n".join(names), "code": code, "constants": constants}


def decode_gates(run: ir.Operation) -> list[Gate]:
    """Return the gates in the attributes of a ``quantum.gates`` or ``quantum.run``."""
    return list(iterate_gates(run))


def iterate_gates(run: ir.Operation) -> Iterator[Gate]:
    """Yield the gates in the attributes of a ``quantum.gates`` or ``quantum.run``.

    The inverse of `encode_gates`, except that each gate has its own constants only.
    """
    names = run.attributes["names"].value.split("\n")
    constants = list(run.attributes["constants"])
    numbers = iter(list(run.attributes["code"]))

    def gate(name: str, adjoint: int, n_slots: int, *counts: int) -> Gate:
        """Decode one gate for `iterate_gates`; consumes the gate's slots and wires.

        ``n_slots`` is ``-n`` for an array of ``n`` numbers; ``counts`` are the numbers of wires and
        of control wires.
        """
        slots: tuple[int, ...] | range = tuple(islice(numbers, n_slots if n_slots >= 0 else 1))
        wires, *controls = (tuple(islice(numbers, n)) for n in (*counts, counts[-1]))
        if n_slots < 0:
            slots = array_slots(slots[0], -n_slots)
        own = tuple(constants[-1 - slot] for slot in slots if slot < 0)
        return Gate(name, wires, _localize_slots(slots), own, bool(adjoint), *controls)

    for number in numbers:
        yield gate(names[number], *islice(numbers, 4))


def array_slots(first: int, size: int) -> range:
    """Return the slots of an array's entries, given the slot of its first entry.

    A slot is the index of a parameter; slots of constants are negative and decrease:
    ``array_slots(2, 3)`` has 2, 3, 4, and ``array_slots(-1, 3)`` has -1, -2, -3.
    """
    return range(first, first + size) if first >= 0 else range(first, first - size, -1)


def shift_slots(slots: tuple[int, ...] | range, by: int) -> tuple[int, ...] | range:
    """Add ``by`` to the slots of traced parameters; slots of constants stay.

    ``slots`` are as in ``Gate.slots``. Used when the parameters of gates move behind ``by`` other
    parameters.
    """
    if isinstance(slots, range):
        is_constant = slots.start < 0
        return slots if is_constant else range(slots.start + by, slots.stop + by)
    return tuple(slot if slot < 0 else by + slot for slot in slots)


def _localize_slots(slots: tuple[int, ...] | range) -> tuple[int, ...] | range:
    """Renumber the constants in a gate's slots to the gate's own constants.

    Args:
        slots: slots as in the operation's code: constant ``i`` of the operation is ``-1 - i``.

    Returns:
        slots as in ``Gate.slots``: the gate's first constant is -1, the second -2.
    """
    if isinstance(slots, range):
        return slots if slots.start >= 0 else array_slots(-1, len(slots))
    own = iter(range(-1, -1 - len(slots), -1))
    return tuple(slot if slot >= 0 else next(own) for slot in slots)
