"""Gates, and their encoding as attributes of ``quantum.gates``."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from bellhop_mlir._bindings import ir


@dataclass(frozen=True)
class Gate:
    """One gate with its static attributes.

    Attributes:
        name: name of the gate.
        wires: wire indices; ``-1 - index`` for dynamic wires.
        slots: index of each parameter in the operation's parameters, or ``-1 - index`` into
            ``constants``.
        constants: static parameters.
        adjoint: whether the adjoint is applied.
        control_wires: control wires, as ``wires``.
        control_values: control values.
    """

    name: str
    wires: tuple[int, ...]
    slots: tuple[int, ...] = ()
    constants: tuple[float, ...] = ()
    adjoint: bool = False
    control_wires: tuple[int, ...] = ()
    control_values: tuple[int, ...] = ()


def encode_gates(gates: Iterable[Gate]) -> dict[str, Any]:
    """Encode gates as attributes, see ``bellhop_circuit_gates`` in the contract."""
    names: dict[str, int] = {}
    code: list[int] = []
    constants: list[float] = []
    for gate in gates:
        base = len(constants)
        constants.extend(gate.constants)
        code += (
            names.setdefault(gate.name, len(names)),
            int(gate.adjoint),
            len(gate.slots),
            len(gate.wires),
            len(gate.control_wires),
        )
        code += (slot if slot >= 0 else slot - base for slot in gate.slots)
        code += gate.wires
        code += gate.control_wires
        code += gate.control_values
    return {"names": "\n".join(names), "code": code, "constants": constants}


def decode_gates(run: ir.Operation) -> list[Gate]:
    """Return the gates in an operation's attributes."""
    return list(iterate_gates(run))


def iterate_gates(run: ir.Operation) -> Iterator[Gate]:
    """Yield the gates in an operation's attributes."""
    names = run.attributes["names"].value.split("\n")
    constants = list(run.attributes["constants"])
    numbers = iter(list(run.attributes["code"]))

    def gate(name: str, adjoint: int, *counts: int) -> Gate:
        slots, wires, *controls = (tuple(islice(numbers, n)) for n in (*counts, counts[-1]))
        own = tuple(constants[-1 - slot] for slot in slots if slot < 0)
        return Gate(name, wires, _localize_slots(slots), own, bool(adjoint), *controls)

    for number in numbers:
        yield gate(names[number], *islice(numbers, 4))


def _localize_slots(slots: Sequence[int]) -> tuple[int, ...]:
    """Renumber the constants in a gate's slots to the gate's own constants."""
    own = iter(range(-1, -1 - len(slots), -1))
    return tuple(slot if slot >= 0 else next(own) for slot in slots)
